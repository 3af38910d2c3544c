//! What `flyball tune` measures a finding's remedy on: as the run measured it, or on the load that was
//! recorded.

use super::Case;
use crate::recorded::running_load;
use domain::database::counters::WATCHED;
use domain::finding::Finding;
use domain::setting::SettingName;
use domain::shell;
use domain::study::Until;
use domain::trial::{PROCESS, Provenance, Trial};

/// How the command goes on after the finding's number: nothing where the run's own workload is measured.
/// `None` where the remedy is none of settings, is not for this host, or nothing says what it is for.
pub(super) fn load(finding: &Finding, case: &Case<'_>) -> Option<String> {
    let has_settings = finding.remedy.as_ref().is_some_and(|remedy| !remedy.settings.is_empty());
    if !has_settings || case.data.run.provenance != Provenance::Host {
        return None;
    }
    if case.data.study.is_recording() {
        let mut settings = finding.remedy.iter().flat_map(|remedy| &remedy.settings);
        let trial = case.data.trials.first()?;
        // A load that runs would be measured with what it has open as it was.
        let would_notice = runs_anew(trial) || settings.all(|one| !one.setting.is_taken_at_open());
        return recorded(trial).filter(|_| would_notice);
    }
    (!finding.compared.is_empty() && varies_settings_alone(case)).then(String::new)
}

/// The command of a finding that measures its setting before it is kept, with the load that was recorded in
/// place of `COMMAND`; `None` where it is no such command, or nothing says what the setting is for.
pub(super) fn measured(finding: &Finding, case: &Case<'_>) -> Option<String> {
    let command = finding.next.strip_suffix(TO_FILL_IN)?;
    let (setting, _) = command.strip_prefix("flyball tune --set ")?.split_once('=')?;
    let is_recording = case.data.study.is_recording() && case.data.run.provenance == Provenance::Host;
    let trial = case.data.trials.first().filter(|_| is_recording)?;
    let would_notice = runs_anew(trial) || !SettingName::parse(setting).is_taken_at_open();
    Some(format!("{command}{}", recorded(trial).filter(|_| would_notice)?))
}

/// How a command ends that a person completes by a load.
pub(super) const TO_FILL_IN: &str = " -- COMMAND";

/// Whether the run is one whose cells a study without a stack and kernel of its own can measure again, and no
/// such measurement itself.
fn varies_settings_alone(case: &Case<'_>) -> bool {
    let mut levels = case.data.study.factors.iter().flat_map(|factor| &factor.levels);
    case.data.study.measure.until == Until::Precise
        && levels.all(|level| level.stack.is_empty() && level.kernel.is_none())
}

/// Whether what was recorded is a command, which begins anew in each trial.
fn runs_anew(trial: &Trial) -> bool {
    [WATCHED, PROCESS].iter().all(|name| !trial.environment.contains_key(*name))
}

/// The server, process or command that was recorded. Of one that was stopped or asked for a password the
/// person knows more.
fn recorded(trial: &Trial) -> Option<String> {
    if !runs_anew(trial) {
        return running_load(trial);
    }
    let command = trial.measurement.as_ref()?.commands.first()?;
    let words: Vec<String> = command.iter().map(|word| shell::quoted(word)).collect();
    Some(format!(" -- {}", words.join(" ")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::{about, setting_run};
    use super::*;
    use crate::summarise::summarise;
    use crate::summary::RunData;
    use std::collections::BTreeMap;

    fn next(environment: &[(&str, &str)], command: &[&str]) -> Option<String> {
        next_of(("scheduler", &["mq-deadline", "none"]), environment, command)
    }

    fn next_of(
        (setting, values): (&str, &[&str]),
        environment: &[(&str, &str)],
        command: &[&str],
    ) -> Option<String> {
        let mut data = setting_run(setting, values, |level, block| about([1e8, 2e8][level], level, block));
        let found = super::super::explain(&Case::new(&data, &summarise(&data, None)));
        let finding = found.into_iter().find(|one| one.next.starts_with("flyball tune")).unwrap();
        watched(&mut data, environment, command);
        load(&finding, &Case::new(&data, &summarise(&data, None)))
    }

    /// Makes it a recording of what its trials' environment names, or of a command.
    fn watched(data: &mut RunData, environment: &[(&str, &str)], command: &[&str]) {
        let recorded = workloads::named("recorded").unwrap().in_study().unwrap();
        data.study.workloads.iter_mut().for_each(|workload| workload.tool = recorded.clone());
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        data.trials[0].environment = environment.iter().map(owned).collect::<BTreeMap<_, _>>();
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        data.trials[0].measurement.as_mut().unwrap().commands =
            if command.is_empty() { vec![] } else { vec![command] };
    }

    fn any_finding() -> Finding {
        let data = setting_run("scheduler", &["mq-deadline", "none"], |level, block| {
            about([1e8, 2e8][level], level, block)
        });
        super::super::explain(&Case::new(&data, &summarise(&data, None))).swap_remove(0)
    }

    #[test]
    fn a_remedy_found_by_watching_is_measured_on_what_was_watched() {
        let server = |name: &str| next(&[(WATCHED, name), (PROCESS, "7 mariadbd")], &[]).unwrap();
        assert_eq!(server("MariaDB at /run/mysqld/mysqld.sock"), " --server mariadb");
        assert_eq!(
            server("PostgreSQL at 127.0.0.1:5433"),
            " --server postgresql --server-address 127.0.0.1:5433"
        );
        assert_eq!(next(&[(PROCESS, "77 my daemon")], &[]).unwrap(), " --pid 77");
        assert_eq!(next(&[], &["sh", "-c", "a | b"]).unwrap(), " -- sh -c 'a | b'");
    }

    #[test]
    fn what_is_to_be_measured_first_is_measured_on_what_was_recorded() {
        let of = |setting: &str, environment: &[(&str, &str)], command: &[&str]| {
            let mut data = setting_run("scheduler", &["none"], |level, block| about(1e8, level, block));
            let found =
                Finding { next: format!("flyball tune --set {setting}{TO_FILL_IN}"), ..any_finding() };
            watched(&mut data, environment, command);
            measured(&found, &Case::new(&data, &summarise(&data, None)))
        };
        let cache = "stripe_cache_size@md0=4096";
        let begin = "flyball tune --set stripe_cache_size@md0=4096";
        assert_eq!(of(cache, &[], &["dd", "a b"]), Some(format!("{begin} -- dd 'a b'")));
        assert_eq!(of(cache, &[(PROCESS, "77 my daemon")], &[]), Some(format!("{begin} --pid 77")));
        assert_eq!(of(cache, &[], &[]), None, "the whole machine was watched");
        assert_eq!(of("read_ahead_kb@md0=4096", &[(PROCESS, "77 my daemon")], &[]), None);
    }

    #[test]
    fn a_process_that_has_its_files_open_notices_no_other_read_ahead() {
        let window: (&str, &[&str]) = ("read_ahead_kb", &["16", "4096"]);
        assert_eq!(next_of(window, &[(PROCESS, "77 my daemon")], &[]), None);
        let server = [(WATCHED, "MariaDB at /run/mysqld/mysqld.sock"), (PROCESS, "7 mariadbd")];
        assert_eq!(next_of(window, &server, &[]), None);
        assert_eq!(next_of(window, &[], &["dd"]).unwrap(), " -- dd");
    }

    #[test]
    fn of_a_whole_machine_nobody_knows_what_the_change_is_for() {
        assert_eq!(next(&[], &[]), None);
    }
}
