//! Runs and traces as other programs read them: JUnit for continuous integration, Apache Otava's tables, sysstat's and
//! fio's logs, OpenMetrics. docs/EXPORT.md says what of each is there, and with which program it was read.

mod fio_log;
mod junit;
mod openmetrics;
mod otava;
mod sadf;

pub use fio_log::{FioLog, fio_logs};
pub use junit::junit;
pub use openmetrics::{END as OPENMETRICS_END, Family, Labels, openmetrics};
pub use otava::{RunPoint, left_out, otava_config, otava_csv};
pub use sadf::{Uneven, sadf};
