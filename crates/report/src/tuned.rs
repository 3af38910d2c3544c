//! What became of a change that was measured.

use crate::wording::quoted;
use analysis::summary::{Comparison, Verdict};
use domain::setting::SettingRequest;

/// What became of a change that is not written, and how it could be; `obstacle` is why it could not.
pub fn not_kept(
    compared: Option<&Comparison>,
    settings: &[SettingRequest],
    load: MeasuredOn,
    obstacle: Option<&str>,
    program: &str,
) -> String {
    let why = match compared {
        Some(Comparison { verdict: Verdict::Better, .. }) => {
            if let Some(obstacle) = obstacle {
                return format!("everything is as before; it is better, and could not be kept: {obstacle}");
            }
            let words = settings.iter().map(|one| format!("{}={}", one.setting, one.value));
            let words: Vec<String> = words.map(|word| format!(" --set {}", quoted(&word))).collect();
            let keep = format!("{program} tune{} --persist", words.concat());
            return format!("everything is as before; to keep the change: `{keep}`");
        }
        Some(Comparison { verdict: Verdict::Worse, .. }) => "it is worse",
        Some(comparison) if comparison.excludes_gain() => "no gain is worth it",
        Some(comparison) if comparison.medians == (0.0, 0.0) => {
            return format!(
                "everything is as before; `{}` was 0 and tells nothing of this load: name another with --metric",
                comparison.metric
            );
        }
        Some(_) => "a gain was not shown",
        None => "it was not measured",
    };
    let is_blind = load == MeasuredOn::Running && settings.iter().any(|one| one.setting.is_taken_at_open());
    let blind = if is_blind { BLIND } else { "" };
    format!("everything is as before; the change is not kept: {why}{blind}")
}

/// What is to be said of a load that had its files open already.
const BLIND: &str = "; files that the load had open kept the read-ahead with which they were opened, so that a \
command that begins anew tells more: `-- COMMAND`";

/// What a change was measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredOn {
    /// What begins anew in each trial.
    Anew,
    /// A process or server that runs all the time.
    Running,
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::setting::SettingName;

    #[test]
    fn what_was_not_measured_is_not_kept_and_names_no_command() {
        let setting = SettingName::parse("vm.dirty_ratio");
        let request = SettingRequest { setting, value: "5".into() };
        let said = not_kept(None, &[request], MeasuredOn::Running, None, "flyball");
        assert_eq!(said, "everything is as before; the change is not kept: it was not measured");
    }

    #[test]
    fn of_read_ahead_a_load_that_runs_tells_little_and_that_is_said() {
        let setting = SettingName::parse("read_ahead_kb@sda");
        let request = [SettingRequest { setting, value: "4096".into() }];
        let said = |load| not_kept(None, &request, load, None, "flyball");
        assert!(said(MeasuredOn::Running).contains("files that the load had open kept the read-ahead"));
        assert!(!said(MeasuredOn::Anew).contains("open"));
    }
}
