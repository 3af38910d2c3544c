//! The kernel's timers, stretched by the time dilation before anything is measured.

use crate::error::{Doing, Result};
use domain::cpufreq::GOVERNORS;
use domain::plan::Cell;
use domain::setting::{SettingName, SettingRequest};
use lab::dilation::{TIMERS, stretched_value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where timers are that every trial has, whatever it sets itself.
const FOLDERS: [&str; 2] = ["/proc/sys/vm", "/sys/kernel/debug/sched"];

/// Stretches what is set when the machine starts. A governor's own timers appear with the governor: see
/// [`Governors`].
pub(super) fn stretch(dilation: f64) -> Result<()> {
    let files =
        FOLDERS.iter().flat_map(|folder| TIMERS.iter().map(move |(name, _)| Path::new(folder).join(name)));
    files.filter(|file| file.exists()).try_for_each(|file| stretch_one(&file, dilation))
}

fn stretch_one(file: &PathBuf, dilation: f64) -> Result<()> {
    let shown = file.display();
    let value = fs::read_to_string(file).doing(|| format!("read `{shown}`"))?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match stretched_value(&name, value.trim(), dilation) {
        Some(stretched) if stretched != value.trim() => {
            fs::write(file, &stretched).doing(|| format!("write `{stretched}` to `{shown}`"))
        }
        _ => Ok(()),
    }
}

const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";

/// The timers that governors begin with: a governor that is chosen begins with them again, whatever they were
/// before.
pub(super) struct Governors(BTreeMap<&'static str, SettingRequest>);

impl Governors {
    /// Reads them, each while its governor is in use. Where nothing is dilated, or there is no cpufreq, there
    /// are none.
    pub(super) fn read(dilation: f64) -> Result<Self> {
        let mut all = BTreeMap::new();
        let file = Path::new(CPUFREQ).join("policy0/scaling_governor");
        let Ok(before) = fs::read_to_string(&file) else { return Ok(Self(all)) };
        if dilation == 1.0 {
            return Ok(Self(all));
        }
        let timers = GOVERNORS.iter().filter_map(|governor| Some((governor.name, governor.timer?)));
        for (governor, timer) in timers {
            // A governor that this kernel lacks is no choice of any cell.
            if fs::write(&file, governor).is_err() {
                continue;
            }
            let own = Path::new(CPUFREQ).join(governor).join(timer);
            let value = fs::read_to_string(&own).unwrap_or_default();
            if let Some(value) = stretched_value(timer, value.trim(), dilation) {
                let setting = SettingName { name: format!("{governor}.{timer}"), object: None };
                all.insert(governor, SettingRequest { setting, value });
            }
        }
        fs::write(&file, before.trim()).doing(|| format!("write to `{}`", file.display()))?;
        Ok(Self(all))
    }

    /// Adds to a cell the timer of the governor that it chooses, or leaves as it is, where it does not set
    /// that itself.
    pub(super) fn complete(&self, cell: &mut Cell) {
        let chosen =
            cell.settings.iter().rev().find(|s| s.setting.name == "governor").map(|s| s.value.clone());
        let running = || fs::read_to_string(Path::new(CPUFREQ).join("policy0/scaling_governor")).ok();
        let governor = chosen.or_else(running).unwrap_or_default();
        let Some(timer) = self.0.get(governor.trim()) else { return };
        if !cell.settings.iter().any(|s| s.setting.name == timer.setting.name) {
            cell.settings.push(timer.clone());
        }
    }
}
