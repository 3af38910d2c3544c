//! The commands that findings lead on to.

use super::tunable::TO_FILL_IN;
use crate::facts::case::Case;
use domain::setting::SettingRequest;
use domain::trial::Provenance;

impl Case<'_> {
    /// The command that shows more, where nothing can be changed: of this machine, or of the run alone.
    pub(super) fn next_look(&self) -> String {
        match self.data.run.provenance {
            Provenance::Host => "flyball inspect".to_owned(),
            _ => format!("flyball show {}", self.data.run.id),
        }
    }

    /// The command that shows the run again, where there is nothing to look at but its figures.
    pub(super) fn show_again(&self) -> String {
        format!("flyball show {}", self.data.run.id)
    }

    /// The command that predicts what a setting does to this run's load, and to its power where that is
    /// known.
    pub(super) fn replay_with(&self, setting: &SettingRequest) -> String {
        format!("flyball replay {} --set {}={}", self.data.run.id, setting.setting, setting.value)
    }

    /// The command that names the threads that have the CPUs.
    pub(super) fn who_is_busy(&self) -> String {
        match self.data.run.provenance {
            Provenance::Host => "flyball diagnose".to_owned(),
            _ => self.next_look(),
        }
    }
}

/// The command that writes a setting so that it lasts and can be undone.
pub(super) fn tune_command(setting: &SettingRequest) -> String {
    format!("flyball tune --set {}={} --persist", setting.setting, setting.value)
}

/// The command that measures a setting with a load and without it, and leaves it as it was.
pub(super) fn measure_command(setting: &SettingRequest) -> String {
    format!("flyball tune --set {}={}{TO_FILL_IN}", setting.setting, setting.value)
}

/// How a setting is undone that only that command writes.
pub(super) const NOT_KEPT: &str = "the measurement keeps nothing";

/// The command that undoes what [`tune_command`] does.
pub(super) const UNTUNE: &str = "flyball tune --undo";
