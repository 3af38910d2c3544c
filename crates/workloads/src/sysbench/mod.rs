//! sysbench 1.0's OLTP tests.

pub mod bursts;
pub mod histogram;
pub mod options;
pub mod report;
