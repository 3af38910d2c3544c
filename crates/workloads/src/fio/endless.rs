//! Jobs that go on until fio is ended: loads beside a workload.
//!
//! The load of a CPU alone is fio's engine `cpuio` (fio(1), "I/O engine"): each job computes for `cpuchunks`
//! microseconds and sleeps, so that it is busy for `cpuload` percent of the time.

use crate::options::{OptionError, Options};

/// What fio is told instead: thirty days, longer than any trial may take. A job that fails ends the others
/// too, so that it is seen.
const ENDLESS: [(&str, &str); 3] = [("time_based", "1"), ("runtime", "2592000"), ("exitall_on_error", "1")];

/// Options by which a job ends, and those of a workload that is measured alone.
const ENDS: [&str; 12] = [
    "runtime",
    "timeout",
    "time_based",
    "loops",
    "number_ios",
    "io_size",
    "io_limit",
    "steadystate",
    "read_iolog",
    "precondition",
    "steady_state",
    "round",
];

/// The option that names an engine, the one that only computes, and how busy it is.
pub(super) const ENGINE: &str = "ioengine";
const COMPUTES: &str = "cpuio";
const SHARE: &str = "cpuload";

/// Whether a job only computes.
pub(super) fn is_of_the_cpu(options: &Options) -> bool {
    engine(options).is_some()
}

/// Its engine, where it only computes.
pub(super) fn engine(options: &Options) -> Option<&'static str> {
    options.get(ENGINE).filter(|engine| *engine == COMPUTES).map(|_| COMPUTES)
}

/// Has a job go on until it is ended.
///
/// # Errors
/// The option by which it would end, or that it lacks.
pub(super) fn make(options: &mut Options) -> Result<(), OptionError> {
    if let Some(option) = ENDS.into_iter().find(|option| options.contains_key(*option)) {
        let problem = "belongs to workloads: a load beside one has no end of its own; take it out";
        return Err(OptionError::wrong(option, problem));
    }
    if is_of_the_cpu(options) && !options.contains_key(SHARE) {
        let problem = format!("computes for a share of the time, which is missing; add `{SHARE} = 100`");
        return Err(OptionError::wrong(ENGINE, problem));
    }
    options.extend(ENDLESS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(options: &[(&str, &str)]) -> Result<Options, String> {
        let mut options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        make(&mut options).map(|()| options).map_err(|error| error.to_string())
    }

    #[test]
    fn a_job_without_an_end_runs_for_thirty_days() {
        assert_eq!(made(&[("rw", "randread")]).unwrap()["runtime"], "2592000");
        assert_eq!(made(&[("ioengine", "cpuio"), ("cpuload", "50")]).unwrap()["time_based"], "1");
    }

    #[test]
    fn what_would_end_it_and_what_it_lacks_are_named() {
        for option in ENDS {
            let told = made(&[(option, "1")]).unwrap_err();
            assert!(told.starts_with(&format!("`{option}` belongs to workloads")), "{told}");
        }
        assert!(made(&[("ioengine", "cpuio")]).unwrap_err().contains("cpuload = 100"));
    }
}
