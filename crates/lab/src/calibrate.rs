//! How fast this host can pace virtual CPUs.
