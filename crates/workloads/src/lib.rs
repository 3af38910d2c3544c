//! All that is known of a workload tool: its options, its command line, its report, its I/O. Pure.
//!
//! One folder a tool and one list of all, [`ALL`]. In a folder `options.rs` says which options a study may
//! set, `command.rs` makes the command line, `report.rs` reads what the tool prints, and `mod.rs` answers
//! [`Tool`]. Whoever asks something of a tool asks [`of`]; nobody else tells tools apart.
//!
//! Invariant: no text, whatever its bytes, makes anything here panic; an error names the place and the value.

pub mod bonnie;
pub mod command;
pub mod dd;
mod described;
pub mod fio;
pub mod hdparm;
mod job;
pub mod options;
pub mod pgbench;
mod profile;
pub mod report;
pub mod running;
pub mod server;
pub mod stretch;
pub mod sysbench;
mod tool;

pub use job::{Error, Host, Invocation, Job, TargetAccess, User};
pub use options::Options;
pub use profile::{Cache, Direction, Profile};
pub use tool::{
    Elapsed, Metrics, Needs, OwnFiles, Program, Readiness, ReportLength, STDERR, STDOUT, Said, Tool,
};

use domain::study;

/// The list of tools: how a study's types name one, and what answers for it.
macro_rules! tools {
    ($($variant:ident => $tool:expr,)*) => {
        /// All tools, in the order in which they are told.
        pub static ALL: &[&dyn Tool] = &[$(&$tool),*];

        /// What answers for a tool.
        pub fn of(tool: &study::Tool) -> &'static dyn Tool {
            match tool {
                $(study::Tool::$variant { .. } => &$tool,)*
            }
        }
    };
}

tools! {
    Fio => fio::Fio,
    Dd => dd::Dd,
    Sysbench => sysbench::Sysbench,
    Pgbench => pgbench::Pgbench,
    Bonnie => bonnie::Bonnie,
    Hdparm => hdparm::Hdparm,
    Imported => described::IMPORTED,
    Recorded => described::RECORDED,
    Running => running::Running,
    Command => command::Command,
}

/// The literal command of a workload. One that may write has none on a target that is only read.
///
/// # Errors
/// [`Error::Writes`]; those of [`Tool::command`].
pub fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    job.check_access()?;
    of(&job.workload.tool).command(job)
}

/// The tool of this name.
pub fn named(name: &str) -> Option<&'static dyn Tool> {
    ALL.iter().copied().find(|tool| tool.name() == name)
}

/// The tools that a study can have, in words.
pub fn in_words() -> String {
    let of_options = ALL.iter().filter(|tool| !tool.options().is_empty());
    let names: Vec<String> = of_options.map(|tool| format!("`{}`", tool.name())).collect();
    format!("{} or `command`", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_one_name_in_a_study_and_here() {
        for tool in ALL {
            assert_eq!(named(tool.name()).unwrap().name(), tool.name());
            if let Some(in_study) = tool.in_study() {
                assert_eq!(in_study.name(), tool.name());
                assert_eq!(of(&in_study).name(), tool.name());
            }
        }
    }

    #[test]
    fn each_option_of_a_tool_is_known_to_it() {
        for tool in ALL {
            for option in tool.options() {
                let checked = tool.check(option, "?");
                assert!(
                    !matches!(checked, Err(options::Refusal::Unknown { .. })),
                    "{}: {option}",
                    tool.name()
                );
            }
        }
    }
}
