//! Lists of CPUs: `/sys/devices/system/cpu/online`, `…/topology/*_list`.

use super::Error;
use domain::inventory::CpuList;

/// Reads `0-3,8`, or CPUs with spaces between as `affected_cpus` has them.
///
/// # Errors
/// Where it is anything else.
pub fn parse(text: &str) -> Result<CpuList, Error> {
    CpuList::parse(text).ok_or_else(|| Error::value(1, text.trim(), "a list of CPUs such as `0-3,8`"))
}
