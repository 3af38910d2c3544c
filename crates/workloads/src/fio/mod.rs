//! fio 3, reported as json+.

pub mod options;
pub mod report;
pub mod steady_state;
