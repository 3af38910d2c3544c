//! Any command; its metrics are taken from its output by pattern.
//!
//! It runs as it is written, without a shell, in the folder that Flyball was started in, and may do whatever its
//! author wants: the promise to touch only the target cannot be made for it.

use super::{Driver, Invocation, Job};
use crate::Error;
use domain::outcome::Outcome;
use domain::study::Tool;
use std::path::Path;

pub(super) const DRIVER: Driver =
    Driver { program: None, invocation, outcome, complaints: &[super::STDERR, super::STDOUT] };

/// What stands for the target's path, and for the folder that its file is in.
const TARGET: &str = "{target}";
const FOLDER: &str = "{folder}";

fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let Tool::Command { argv, .. } = &job.workload.tool else {
        unreachable!("this is the driver of commands")
    };
    if argv.is_empty() {
        return Err(Error::Tool(format!("workload `{}` has an empty `argv`", job.workload.name)));
    }
    if !argv.iter().any(|word| word.contains(TARGET) || word.contains(FOLDER)) {
        return Ok(Invocation { argv: argv.clone(), folder: None });
    }
    let path = super::needed_target(job)?.0;
    let (target, folder) = (super::text(path), super::text(path.parent().unwrap_or(path)));
    let filled = |word: &String| word.replace(TARGET, &target).replace(FOLDER, &folder);
    Ok(Invocation { argv: argv.iter().map(filled).collect(), folder: None })
}

/// The program's name, if it is there. execvp(3) by itself would tell "permission denied" where one folder of PATH
/// cannot be looked into.
pub(super) fn found(program: &str) -> Result<String, Error> {
    let there = |path: &Path| path.is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = match program {
        "" => false,
        _ if program.contains('/') => there(Path::new(program)),
        _ => std::env::split_paths(&path).any(|folder| there(&folder.join(program))),
    };
    if found { Ok(program.to_owned()) } else { Err(Error::missing(program)) }
}

fn outcome(job: &Job<'_>, version: &str) -> Result<Outcome, Error> {
    let Tool::Command { metrics, .. } = &job.workload.tool else {
        unreachable!("this is the driver of commands")
    };
    let mut text = super::read_end(&job.raw.join(super::STDOUT), super::MOST_TEXT)?;
    text.push('\n');
    text.push_str(&super::read_end(&job.raw.join(super::STDERR), super::MOST_TEXT)?);
    let outcome = workloads::command::pattern::parse(&text, metrics).map_err(|e| super::unusable(job, &e))?;
    Ok(Outcome { tool: version.to_owned(), ..outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::study::Workload;
    use domain::units::Bytes;

    fn made(argv: &[&str], target: Option<&str>) -> Result<Vec<String>, String> {
        let argv = argv.iter().map(|a| (*a).to_owned()).collect();
        let workload = Workload {
            name: "mine".into(),
            tool: Tool::Command { argv, metrics: vec![] },
            options: Default::default(),
        };
        let target = target.map(|t| (Path::new(t), Bytes::from_mib(1)));
        let job = Job { workload: &workload, target, raw: Path::new("/n/raw"), server: None, folder: None };
        invocation(&job).map(|i| i.argv).map_err(|e| e.to_string())
    }

    #[test]
    fn the_target_takes_the_place_of_its_name() {
        assert_eq!(made(&["cat", "x{target}"], Some("/w/t")).unwrap(), ["cat", "x/w/t"]);
        assert_eq!(made(&["sleep", "1"], None).unwrap(), ["sleep", "1"]);
    }

    #[test]
    fn a_target_that_the_study_does_not_have_is_asked_for() {
        let error = made(&["cat", "{target}"], None).unwrap_err();
        assert!(error.starts_with("workload `mine` needs a target"), "{error}");
    }
}
