//! Modelled disks: an NBD server that delays each request by a disk model.
