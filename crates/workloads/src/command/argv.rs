//! Any command; its metrics are taken from its output by pattern.
//!
//! It runs as it is written, without a shell, in the folder that Flyball was started in, and may do whatever
//! its author wants: the promise to touch only the target cannot be made for it.

use crate::job::text;
use crate::{Error, Invocation, Job};
use domain::outcome::Outcome;
use std::io::BufRead;

/// What stands for the target's path, and for the folder that its file is in.
pub(super) const TARGET: &str = "{target}";
const FOLDER: &str = "{folder}";

pub(super) fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let (argv, _) = job.workload.tool.command().expect("nothing else asks this tool");
    if argv.is_empty() {
        return Err(Error::Tool(format!("workload `{}` has an empty `argv`", job.workload.name)));
    }
    if !argv.iter().any(|word| word.contains(TARGET) || word.contains(FOLDER)) {
        return Ok(Invocation { argv: argv.to_vec(), folder: None });
    }
    let path = job.needed_target()?.0;
    let (target, folder) = (text(path), text(path.parent().unwrap_or(path)));
    let filled = |word: &String| word.replace(TARGET, &target).replace(FOLDER, &folder);
    Ok(Invocation { argv: argv.iter().map(filled).collect(), folder: None })
}

pub(super) fn outcome(job: &Job<'_>, version: &str, report: &mut dyn BufRead) -> Result<Outcome, Error> {
    let (_, metrics) = job.workload.tool.command().expect("nothing else asks this tool");
    let text = job.text("the command", report)?;
    let outcome = super::pattern::parse(&text, metrics).map_err(|e| job.unusable(&e))?;
    Ok(Outcome { tool: version.to_owned(), ..outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use domain::study::{Tool, Workload};
    use domain::units::Bytes;
    use std::path::Path;

    fn made(argv: &[&str], target: Option<&str>) -> Result<Vec<String>, String> {
        let argv = argv.iter().map(|a| (*a).to_owned()).collect();
        let workload = Workload {
            name: "mine".into(),
            tool: Tool::Command { argv, metrics: vec![] },
            options: Default::default(),
        };
        let target = target.map(|t| (Path::new(t), Bytes::from_mib(1)));
        let job = Job {
            workload: &workload,
            target,
            raw: Path::new("/n/raw"),
            server: None,
            folder: None,
            access: Default::default(),
            host: Host::default(),
        };
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
