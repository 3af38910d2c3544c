//! What became of a change that was measured.

use crate::wording::quoted;
use analysis::summary::{Comparison, Verdict};
use domain::setting::SettingRequest;

/// What became of a change that is not written, and how it could be; `obstacle` is why it could not.
pub fn not_kept(
    compared: Option<&Comparison>,
    settings: &[SettingRequest],
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
    format!("everything is as before; the change is not kept: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::setting::SettingName;

    #[test]
    fn what_was_not_measured_is_not_kept_and_names_no_command() {
        let setting = SettingName::parse("vm.dirty_ratio");
        let request = SettingRequest { setting, value: "5".into() };
        let said = not_kept(None, &[request], None, "flyball");
        assert_eq!(said, "everything is as before; the change is not kept: it was not measured");
    }
}
