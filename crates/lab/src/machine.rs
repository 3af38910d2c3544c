//! A lab machine: QEMU, from its start to its end.
