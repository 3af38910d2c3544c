//! Disk models: when a request that arrives now is done.
