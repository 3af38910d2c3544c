//! The names by which people call a run.
//!
//! | written | means |
//! |---|---|
//! | `quick` | the latest run of the study `quick` |
//! | `quick~1` | the one before; `~2` two before, and so on |
//! | `quick@3fa2` | the latest run of `quick` at the git revision that begins so; `~1` may follow |
//! | `quick-20261120-140502-7f3a` | the run itself; its beginning is enough where no other begins so |
//! | `20261120-1405` | likewise the beginning of its date, where no other run's begins so |

use crate::error::{Error, Result};
use crate::notebook::Notebook;
use domain::ids::RunId;
use domain::order;
use domain::trial::Run;
use std::collections::BTreeSet;

/// How many names an error suggests.
const MAX_SUGGESTIONS: usize = 3;

/// How alike a name must be to be suggested, from 0 to 1, by Jaro and Winkler's measure.
const ALIKE: f64 = 0.75;

/// A selector, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Selector<'a> {
    name: &'a str,
    revision: Option<&'a str>,
    /// How many runs before the latest.
    before: usize,
}

impl Notebook {
    /// The run that people call by `selector`; see the table above.
    ///
    /// # Errors
    /// Where nothing fits, or more than one run does; the error names those that come near.
    pub fn find(&self, selector: &str) -> Result<RunId> {
        let (runs, _) = self.runs_alone()?;
        if let Some(run) = runs.iter().find(|run| run.id.0 == selector) {
            return Ok(run.id.clone());
        }
        let Some(parts) = Selector::parse(selector) else {
            let reason = "after `~` stands a number: how many runs before the latest".to_owned();
            return Err(Error::NoSuchRun {
                wanted: selector.to_owned(),
                reason,
                near: near(&runs, selector),
            });
        };
        let refuse = |reason: String, near: Vec<String>| {
            Err(Error::NoSuchRun { wanted: selector.to_owned(), reason, near })
        };
        let of_study: Vec<&Run> = runs.iter().filter(|run| run.study == parts.name).collect();
        if of_study.is_empty() {
            return by_prefix(&runs, selector, refuse);
        }
        let fitting: Vec<&Run> = of_study.iter().copied().filter(|run| parts.fits(run)).collect();
        match fitting.get(parts.before) {
            Some(run) => Ok(run.id.clone()),
            None if fitting.is_empty() => refuse(
                format!(
                    "no run of `{}` was recorded at the revision `{}`",
                    parts.name,
                    parts.revision.unwrap_or("")
                ),
                revisions(&of_study),
            ),
            None => refuse(
                match fitting.len() {
                    1 => "there is only one such run; run the study again for another".to_owned(),
                    runs => format!("there are only {runs} such runs, and `~{}` is the oldest", runs - 1),
                },
                fitting.iter().take(MAX_SUGGESTIONS).map(|run| run.id.0.clone()).collect(),
            ),
        }
    }

    /// The error for a run that is not there, with the names that come near.
    pub(crate) fn no_such_run(&self, wanted: &str, reason: String) -> Error {
        let runs = self.runs_alone().map(|(runs, _)| runs).unwrap_or_default();
        Error::NoSuchRun { wanted: wanted.to_owned(), reason, near: near(&runs, wanted) }
    }
}

impl<'a> Selector<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (rest, before) = match text.rsplit_once('~') {
            Some((rest, "")) => (rest, 1),
            Some((rest, number)) => (rest, number.parse().ok()?),
            None => (text, 0),
        };
        let (name, revision) = match rest.split_once('@') {
            Some((name, revision)) => (name, Some(revision)),
            None => (rest, None),
        };
        Some(Self { name, revision, before })
    }

    fn fits(&self, run: &Run) -> bool {
        match (self.revision, &run.revision) {
            (None, _) => true,
            (Some(wanted), Some(recorded)) => !wanted.is_empty() && recorded.starts_with(wanted),
            (Some(_), None) => false,
        }
    }
}

fn by_prefix(
    runs: &[Run],
    prefix: &str,
    refuse: impl Fn(String, Vec<String>) -> Result<RunId>,
) -> Result<RunId> {
    let fitting: Vec<&Run> = runs.iter().filter(|run| begins_so(run, prefix)).collect();
    match fitting.as_slice() {
        [only] => Ok(only.id.clone()),
        [] if runs.is_empty() => refuse("the notebook has no runs yet".to_owned(), Vec::new()),
        [] => refuse("no study and no run is named so".to_owned(), near(runs, prefix)),
        several => refuse(
            format!("{} runs begin so", several.len()),
            several.iter().take(MAX_SUGGESTIONS).map(|run| run.id.0.clone()).collect(),
        ),
    }
}

/// Whether a run's id begins so, or what follows the study's name in it: the date.
fn begins_so(run: &Run, prefix: &str) -> bool {
    let date = run.id.0.strip_prefix(run.study.as_str()).and_then(|rest| rest.strip_prefix('-'));
    !prefix.is_empty() && (run.id.0.starts_with(prefix) || date.is_some_and(|d| d.starts_with(prefix)))
}

/// The study names and run ids most like `wanted`, most alike first.
fn near(runs: &[Run], wanted: &str) -> Vec<String> {
    let wanted = wanted.split(['@', '~']).next().unwrap_or(wanted);
    let names: BTreeSet<&str> = runs.iter().flat_map(|run| [run.study.as_str(), run.id.0.as_str()]).collect();
    let mut scored: Vec<(f64, &str)> =
        names.into_iter().map(|n| (strsim::jaro_winkler(wanted, n), n)).collect();
    scored.retain(|(score, _)| *score >= ALIKE);
    order::by(&mut scored, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

/// The revisions that a study's runs were recorded at, latest first, as one may write them.
fn revisions(runs: &[&Run]) -> Vec<String> {
    const SHORT: usize = 10;
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        let Some(revision) = &run.revision else { continue };
        let short: String = revision.chars().take(SHORT).collect();
        let name = format!("{}@{short}", run.study);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(MAX_SUGGESTIONS);
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::rng::Seed;
    use domain::time::Timestamp;
    use domain::trial::Provenance;
    use expect_test::{Expect, expect};

    fn notebook(runs: &[(&str, &str, Option<&str>)]) -> (tempfile::TempDir, Notebook) {
        let root = tempfile::tempdir().unwrap();
        let notebook = Notebook::create(&root.path().join("n")).unwrap();
        for (i, (study, tail, revision)) in runs.iter().enumerate() {
            let run = Run {
                id: RunId(format!("{study}-{tail}")),
                study: (*study).to_owned(),
                study_text: String::new(),
                seed: Seed(1),
                started: Timestamp::from_unix_nanos(i as i64),
                finished: None,
                provenance: Provenance::Host,
                machine: "m".to_owned(),
                flyball: "0.1.0".to_owned(),
                revision: revision.map(str::to_owned),
                command: Vec::new(),
            };
            notebook.create_run(&run, "{}").unwrap();
        }
        (root, notebook)
    }

    fn check(wanted: &str, answer: Expect) {
        let (_root, notebook) = notebook(&[
            ("quick", "20261101-a", Some("3fa2c1d0e5")),
            ("quick", "20261102-b", Some("77aa00bb11+")),
            ("quick", "20261103-c", Some("3fa2c1d0e5")),
            ("readahead", "20261102-d", None),
        ]);
        let got = match notebook.find(wanted) {
            Ok(id) => id.0,
            Err(e) => e.to_string(),
        };
        answer.assert_eq(&got);
    }

    #[test]
    fn a_study_means_its_latest_run() {
        check("quick", expect!["quick-20261103-c"]);
    }

    #[test]
    fn a_tilde_counts_back_from_the_latest() {
        check("quick~1", expect!["quick-20261102-b"]);
        check("quick~", expect!["quick-20261102-b"]);
        check("quick~0", expect!["quick-20261103-c"]);
        check(
            "quick~3",
            expect![
                "cannot find a run for `quick~3`: there are only 3 such runs, and `~2` is the oldest; did you mean `quick-20261103-c` or `quick-20261102-b` or `quick-20261101-a`?"
            ],
        );
        check(
            "quick~one",
            expect![
                "cannot find a run for `quick~one`: after `~` stands a number: how many runs before the latest; did you mean `quick` or `quick-20261101-a` or `quick-20261102-b`?"
            ],
        );
    }

    #[test]
    fn a_revision_is_told_by_its_beginning() {
        check("quick@77", expect!["quick-20261102-b"]);
        check("quick@3fa2", expect!["quick-20261103-c"]);
        check("quick@3fa2~1", expect!["quick-20261101-a"]);
        check(
            "quick@bad",
            expect![
                "cannot find a run for `quick@bad`: no run of `quick` was recorded at the revision `bad`; did you mean `quick@3fa2c1d0e5` or `quick@77aa00bb11`?"
            ],
        );
    }

    #[test]
    fn a_run_is_told_by_its_id_or_an_unambiguous_beginning() {
        check("quick-20261101-a", expect!["quick-20261101-a"]);
        check("read", expect!["readahead-20261102-d"]);
        check("20261103", expect!["quick-20261103-c"]);
        check(
            "quick-2026",
            expect![
                "cannot find a run for `quick-2026`: 3 runs begin so; did you mean `quick-20261103-c` or `quick-20261102-b` or `quick-20261101-a`?"
            ],
        );
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest() {
        check(
            "qiuck",
            expect!["cannot find a run for `qiuck`: no study and no run is named so; did you mean `quick`?"],
        );
    }

    #[test]
    fn an_empty_notebook_says_that_it_is() {
        let (_root, notebook) = notebook(&[]);
        let error = notebook.find("quick").unwrap_err().to_string();
        expect!["cannot find a run for `quick`: the notebook has no runs yet; `flyball list` shows all"]
            .assert_eq(&error);
    }
}
