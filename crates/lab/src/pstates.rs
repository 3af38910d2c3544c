//! P-state tables: shipped ones and files.
