//! Kernels: from Debian's packages, unpacked and never installed.
