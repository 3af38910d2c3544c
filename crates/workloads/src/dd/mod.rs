//! dd of the GNU coreutils.

pub mod options;
pub mod report;
