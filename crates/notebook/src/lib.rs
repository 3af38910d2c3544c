//! The folder of trials and its index.
