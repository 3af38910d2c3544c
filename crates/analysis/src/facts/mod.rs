//! What was measured, as the rules of [`crate::explain`] and the reports read it: one home for each figure.
//!
//! | figure | from | module |
//! |---|---|---|
//! | busy shares of CPUs and disks, depth, pressure, dirty pages, idle states, P-states | samples | [`usage`] |
//! | frequency while busy, time in P-states and idle states | samples | [`residency`] |
//! | rates of counters; energy | samples | [`rates`], `meters` |
//! | load of each CPU by windows of a governor | samples; events | [`window_loads`]; [`cell_events`] |
//! | call stacks, waits, accesses and calls of a cell's trials | events | [`cell_events`] |
//! | CPU time by role | accounting of threads | [`roles`] |
//! | what devices and arrays did: requests, bytes, busy time, the array's thread | accounting of devices | `arrays` |
//! | direction, order, size and depth of what a load does | options; else events | `case`, `used` |
//! | which part of a request is a CPU's work, with its bounds | accounting; samples | `cpu_share`, `waits` |
//! | when the load of a trial ran, without its tool's beginning and end | the tool's own time; samples | [`loaded`] |
//! | the machine as it was while trials ran | inventory, settings of trials | [`in_force`] |
//! | which settings decide the frequency | inventory, options | `frequency_policy` |
//!
//! Host, lab, simulation and imports give the same figures where they hold the same columns: nothing here
//! knows which of them it reads.

pub(crate) mod arrays;
pub mod case;
pub mod cell_events;
pub(crate) mod cpu_share;
pub(crate) mod frequency_policy;
pub mod in_force;
pub mod loaded;
pub(crate) mod meters;
pub mod rates;
pub mod residency;
pub mod roles;
pub mod usage;
pub(crate) mod used;
pub(crate) mod waits;
pub mod window_loads;

#[cfg(test)]
mod tests {
    /// What a figure is does not depend on where it was measured, nor on what a rule makes of it.
    #[test]
    fn no_figure_knows_where_it_was_measured_or_which_rule_reads_it() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/facts");
        let mut files = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let code: Vec<&str> = code.lines().filter(|line| !line.starts_with("//!")).collect();
            for word in ["Provenance", "explain::"] {
                assert!(code.iter().all(|line| !line.contains(word)), "{}: `{word}`", path.display());
            }
            files += 1;
        }
        assert!(files > 10, "{files}");
    }
}
