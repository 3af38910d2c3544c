//! The plugin's record, read.
