//! The experiments that tell the causes of a change apart: commands that this program takes, made from how
//! the study was run last. A setting is varied on the machine as it is now, in a study that is otherwise the
//! same; an old kernel is booted, or runs in the lab beside the new one.

use crate::draft::{copied, factor_name};
use crate::studies::{StudyOrigin, StudySource};
use analysis::causes::{Cause, DRIVER, Experiment, Standing};
use analysis::summary::RunData;
use analysis::words::listed;
use domain::inventory::Inventory;
use domain::shell::quoted;
use domain::trial::{Provenance, Run};
use lab::kernel::SERIES;
use std::borrow::Cow;
use std::path::PathBuf;

/// The newest run of a study.
#[derive(Clone, Copy, Debug)]
pub struct Newest<'a> {
    /// The run with its study.
    pub data: &'a RunData,
    /// Its machine, where that is known.
    pub machine: Option<&'a Inventory>,
}

/// How a run was begun.
struct Begun {
    study: String,
    /// What follows the study when it is run again: what it runs on, and where.
    options: Vec<String>,
    is_lab: bool,
}

/// Options of `run` and `lab run` that say what a study runs on, with a value each.
const KEPT: [&str; 8] =
    ["--on", "--machine", "--work", "--kernel", "--pstates", "--disk", "--vcpus", "--memory"];
/// Their option with a value behind an equals sign, or with none. What is recorded besides is in the figures.
const ATTACHED: &str = "--events";
/// Their other options with a value.
const DROPPED: [&str; 4] = ["--seed", "--fail-if", "--junit", "--notebook"];
/// Their options without one that say how a study is measured.
const KEPT_FLAGS: [&str; 2] = ["--under-load", "--events-apart"];
/// Their other options without one.
const DROPPED_FLAGS: [&str; 4] = ["--new", "--full", "--json", "--dry-run"];

/// The options of `run` and `lab run` that are understood, and whether each has a value: one that is not
/// leads to no experiment.
pub fn known_options() -> impl Iterator<Item = (&'static str, bool)> {
    let with_value = KEPT.into_iter().chain(DROPPED).map(|name| (name, true));
    let flags = KEPT_FLAGS.into_iter().chain(DROPPED_FLAGS).map(|name| (name, false));
    with_value.chain([(ATTACHED, true)]).chain(flags)
}

impl Begun {
    /// As the arguments say; `None` of a run that another command made, or one with unknown options.
    fn of(run: &Run) -> Option<Self> {
        let words: Vec<&str> = run.command.iter().map(String::as_str).collect();
        let (words, is_lab) = match without_notebook(&words) {
            ["lab", "run", words @ ..] => (words, true),
            ["run", words @ ..] => (words, false),
            _ => return None,
        };
        let (mut study, mut options) = (None, Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, value) =
                word.split_once('=').map_or((*word, None), |(name, value)| (name, Some(value)));
            match name {
                _ if KEPT_FLAGS.contains(word) => options.push((*word).to_owned()),
                _ if DROPPED_FLAGS.contains(word) => {}
                _ if name == ATTACHED => options.push(quoted(word)),
                _ if KEPT.contains(&name) => {
                    options.push(name.to_owned());
                    options.push(quoted(value.or_else(|| words.next().copied())?));
                }
                _ if DROPPED.contains(&name) => {
                    value.or_else(|| words.next().copied())?;
                }
                _ if word.starts_with('-') || study.is_some() => return None,
                _ => study = Some((*word).to_owned()),
            }
        }
        Some(Self { study: study?, options, is_lab })
    }

    /// The same of another study. Of a lab's run: on these kernels, where there are any.
    fn again(&self, program: &str, study: &str, kernels: &[&str]) -> String {
        let command = if self.is_lab { "lab run" } else { "run" };
        let mut words = vec![program.to_owned(), command.to_owned(), quoted(study)];
        let mut options = self.options.iter();
        while let Some(option) = options.next() {
            if option == "--kernel" && !kernels.is_empty() {
                options.next();
            } else {
                words.push(option.clone());
            }
        }
        words.extend(kernels.iter().flat_map(|kernel| ["--kernel".to_owned(), quoted(kernel)]));
        words.join(" ")
    }
}

/// Arguments without those that stand before a command.
fn without_notebook<'w, 's>(words: &'w [&'s str]) -> &'w [&'s str] {
    match words {
        ["--notebook", _, words @ ..] | ["--json", words @ ..] => without_notebook(words),
        [word, words @ ..] if word.starts_with("--notebook=") => without_notebook(words),
        words => words,
    }
}

/// A setting to be varied in an experiment: as before and as after, or what bounds what any value gives.
struct Varied {
    setting: String,
    levels: [String; 2],
    /// Which difference it tells of.
    of: String,
}

/// What tells the causes of a change apart: settings as before and as after on the machine as it is now, in
/// one study; kernels in the lab, or booted. Nothing where nothing that is left can be varied, or nobody
/// knows how the runs were begun.
///
/// `program` is how this program is typed.
pub fn experiments(newest: &Newest<'_>, causes: &[Cause], program: &str) -> Vec<Experiment> {
    let Some(begun) = Begun::of(&newest.data.run) else { return Vec::new() };
    let open: Vec<&Cause> = causes.iter().filter(|cause| cause.standing != Standing::Little).collect();
    let name = name_of(&newest.data.run.study);
    let settings: Vec<Varied> = open
        .iter()
        .filter_map(|cause| varied(cause, newest.machine))
        .filter(|varied| can_vary(newest.data, &begun, &name, varied))
        .collect();
    let kernel = open.iter().map(|cause| &cause.difference).find(|difference| difference.what == "kernel");
    let kernels = kernel.and_then(|kernel| Some((kernel.a.as_deref()?, kernel.b.as_deref()?)));
    let is_varied = |cause: &Cause| settings.iter().any(|one| one.of == cause.difference.what);
    let left = open.iter().filter(|cause| !is_varied(cause)).map(|cause| cause.difference.what.clone());
    let left: Vec<String> = left.collect();
    let commands = Commands { begun: &begun, program, name: &name, settings: &settings };
    let of_settings = (!settings.is_empty()).then(|| commands.of_settings(&left));
    let of_kernels = kernels.map_or_else(Vec::new, |(old, new)| match newest.data.run.provenance {
        Provenance::Lab => vec![commands.in_lab(old, new)],
        Provenance::Host => {
            let series = |release: &str| SERIES.into_iter().find(|series| is_of(release, series));
            let in_lab = series(old).zip(series(new)).filter(|(old, new)| old != new);
            let in_lab = in_lab.map(|(old, new)| commands.in_lab(old, new));
            std::iter::once(commands.booted(old, &newest.data.run.study)).chain(in_lab).collect()
        }
        // A simulated machine's kernel is a line of its file.
        Provenance::Simulation | Provenance::Imported => Vec::new(),
    });
    of_settings.into_iter().chain(of_kernels).collect()
}

/// What commands are made of.
struct Commands<'a> {
    begun: &'a Begun,
    program: &'a str,
    /// The name of the study that varies the settings.
    name: &'a str,
    settings: &'a [Varied],
}

impl Commands<'_> {
    /// The study with the settings varied, on the machine as it is now.
    fn of_settings(&self, left: &[String]) -> Experiment {
        let names: Vec<String> = self.settings.iter().map(|one| one.setting.clone()).collect();
        let compared = names.iter().map(|name| self.compared(name));
        let commands = [self.new_study(), self.begun.again(self.program, &self.file(), &[])];
        let each = if names.len() > 1 { " each" } else { "" };
        let is_bound = self.settings.iter().any(|one| one.of == DRIVER);
        let sides = if is_bound { "as it is now and at performance" } else { "as before and as after" };
        Experiment {
            what: format!("{}{each} {sides}, all else as it is now:", listed(&names)),
            commands: commands.into_iter().chain(compared).collect(),
            reading: reading(self.settings, left, is_bound),
        }
    }

    /// The same study under the old kernel.
    fn booted(&self, old: &str, study: &str) -> Experiment {
        let (file, study) = match self.settings {
            [] => (self.begun.study.clone(), quoted(study)),
            _ => (self.file(), self.name.to_owned()),
        };
        let program = self.program;
        Experiment {
            what: format!("after booting {old}, with all else as it is now:"),
            commands: vec![
                format!("{} --new", self.begun.again(program, &file, &[])),
                format!("{program} compare {study}~1 {study}"),
            ],
            reading: "As much between the two runs as the change: it was the kernel.".to_owned(),
        }
    }

    /// Both kernels in one run of the lab.
    fn in_lab(&self, old: &str, new: &str) -> Experiment {
        let file = if self.settings.is_empty() { self.begun.study.clone() } else { self.file() };
        let run = if self.begun.is_lab {
            self.begun.again(self.program, &file, &[old, new])
        } else {
            let [old, new] = [old, new].map(quoted);
            format!("{} lab run {} --kernel {old} --kernel {new}", self.program, quoted(&file))
        };
        let what = "both kernels in the lab, on one machine:".to_owned();
        Experiment {
            what,
            commands: vec![run],
            reading: "Its verdict has the kernel as a factor.".to_owned(),
        }
    }

    fn new_study(&self) -> String {
        let words = self
            .settings
            .iter()
            .map(|one| format!(" --levels {}", quoted(&format!("{}={}", one.setting, one.levels.join(",")))));
        let from = &self.begun.study;
        format!("flyball new {} --from {}{}", self.name, quoted(from), words.collect::<String>())
    }

    fn compared(&self, factor: &str) -> String {
        // As `flyball new` names a factor over a setting.
        let factor = factor_name(factor);
        format!("{} compare {} --factor {factor}", self.program, self.name)
    }

    fn file(&self) -> String {
        format!("{}.toml", self.name)
    }
}

/// What the result of varied settings means.
fn reading(settings: &[Varied], left: &[String], is_bound: bool) -> String {
    let names = listed(&settings.iter().map(|one| one.of.clone()).collect::<Vec<_>>());
    let rest = match left {
        [] => "something that is not recorded".to_owned(),
        left => listed(left),
    };
    let all = if is_bound {
        "frequency policy decides it, and performance brings it back".to_owned()
    } else {
        format!("it was {names}")
    };
    format!(
        "As much between the levels as the change: {all}. Nothing between them: it was {rest}. Less: both."
    )
}

/// Whether a release is of a series: `6.1.0-13-amd64` of `6.1`.
fn is_of(release: &str, series: &str) -> bool {
    release.strip_prefix(series).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The name of the study that is the experiment; at most 64 letters.
fn name_of(study: &str) -> String {
    const BEHIND: &str = "-cause";
    let study: String = study.chars().take(64 - BEHIND.len()).collect();
    format!("{study}{BEHIND}")
}

/// A difference as a setting with two levels, where it is one that this machine can have both ways.
fn varied(cause: &Cause, machine: Option<&Inventory>) -> Option<Varied> {
    let difference = &cause.difference;
    let policy = machine.and_then(|machine| machine.cpufreq.as_ref()?.policies.first());
    if difference.what == DRIVER {
        let now = policy?.governor.clone().filter(|governor| governor != "performance")?;
        let levels = [now, "performance".to_owned()];
        return Some(Varied { setting: "governor".to_owned(), levels, of: DRIVER.to_owned() });
    }
    let levels = [difference.a.clone()?, difference.b.clone()?];
    // A value of several disks or policies, or of several trials, is none that can be written.
    if levels.iter().any(|level| level.is_empty() || level.contains([' ', ',', ';'])) {
        return None;
    }
    let governors = policy.map(|policy| policy.available_governors.as_slice()).unwrap_or_default();
    let is_there = |level: &String| governors.is_empty() || governors.contains(level);
    if difference.what == "governor" && !levels.iter().all(is_there) {
        return None;
    }
    Some(Varied { setting: difference.what.clone(), levels, of: difference.what.clone() })
}

/// Whether `flyball new --from` takes it with the study as it was run last.
fn can_vary(data: &RunData, begun: &Begun, name: &str, varied: &Varied) -> bool {
    let source = StudySource {
        shown: begun.study.clone(),
        text: Cow::Owned(data.run.study_text.clone()),
        origin: StudyOrigin::File(PathBuf::new()),
    };
    copied(&source, &data.study, Some(name), &[(varied.setting.clone(), varied.levels.to_vec())]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(words: &str) -> Option<Begun> {
        let command = words.split(' ').map(str::to_owned).collect();
        Begun::of(&Run {
            id: domain::ids::RunId("s-1".into()),
            study: "s".into(),
            study_text: String::new(),
            seed: domain::rng::Seed(1),
            started: domain::time::Timestamp::default(),
            finished: None,
            provenance: Provenance::Host,
            machine: "m".into(),
            flyball: "0.1.0".into(),
            revision: None,
            command,
        })
    }

    #[test]
    fn a_run_is_begun_again_on_what_it_ran_on_and_with_nothing_else() {
        let again = |words, kernels| begun(words).unwrap().again("flyball", "new.toml", kernels);
        assert_eq!(
            again("run --seed 3 s.toml --on sim --machine=my.toml --new --under-load", &[]),
            "flyball run new.toml --on sim --machine my.toml --under-load"
        );
        assert_eq!(
            again("run --events=sched,work s.toml --events-apart", &[]),
            "flyball run new.toml --events=sched,work --events-apart"
        );
        assert_eq!(again("--notebook n --json run s.toml", &[]), "flyball run new.toml");
        assert_eq!(
            again("lab run s --kernel 6.1 --vcpus 2", &[]),
            "flyball lab run new.toml --kernel 6.1 --vcpus 2"
        );
        assert_eq!(
            again("lab run s --kernel 6.12 --disk a:1GiB", &["6.1", "6.12"]),
            "flyball lab run new.toml --disk a:1GiB --kernel 6.1 --kernel 6.12"
        );
    }

    #[test]
    fn what_no_study_was_run_by_leads_to_no_command() {
        for words in ["record -- fio", "run", "run s.toml --later x", "import a.json"] {
            assert!(begun(words).is_none(), "{words}");
        }
    }
}
