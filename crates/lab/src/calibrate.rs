//! How fast this host can pace virtual CPUs, and the time dilation that follows.
//!
//! **Measuring.** The guest runs a load on all its CPUs at once, unpaced, between two marks (values of 2 and
//! above, written to the control port); the plugin's record then has what each CPU executed, and for how long
//! it was busy. [`rates`] gives each CPU's instructions a second, and [`fit`] decides what they allow.
//!
//! **Which load.** A plain loop is no honest figure. On the host where this was written, emulated
//! instructions ran at 1700 M/s in an arithmetic loop and 1400 M/s in the kernel's AES in C, but 106 M/s in a
//! shell that starts processes (translation, page faults) and 77 M/s in a writer to a tmpfs (each byte of
//! `rep stosb` is emulated, and counts as none); with two CPUs on two busy host cores the last two fell to 73
//! and 48. Emulated AES instructions lie between. Calibrate with the study's own workload where that is
//! known, else with one that starts processes and touches fresh pages; the slowest CPU decides.

use crate::pacing::Control;
use domain::lab::{Dilation, PStateTable};
use domain::time::Nanos;
use domain::units::Ratio;

/// How many times faster than its pace a virtual CPU must be able to run unpaced.
///
/// The rest is for phases of a workload that are slower to emulate than its mean, and to catch up after the
/// host gave its CPU to someone else.
pub const HEADROOM: f64 = 2.0;

/// The least share of the measured time for which each CPU must have been busy: else the others had the host
/// for themselves, and the rate is not that of all CPUs at once. A CPU that starts processes waits for them
/// now and then, the more so where there are more virtual CPUs than the host has.
const MIN_BUSY: f64 = 0.8;

/// The shortest time to measure over: as long as some ten of the host scheduler's turns.
const SHORTEST: Nanos = Nanos::from_millis(100);

/// A host, or a table, with which a machine cannot be paced.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The marks do not enclose a measurement.
    #[error("cannot calibrate: {0}")]
    NotMeasured(String),
    /// The table's pace leaves too little headroom.
    #[error(
        "P-state table `{table}`: pace {pace:.3e} is too fast for this host, whose slowest virtual CPU runs {rate:.3e} \
         instructions a second unpaced: at most {most:.3e} leaves headroom of {HEADROOM}; set a lower `pace`, or fewer \
         virtual CPUs"
    )]
    TooFast {
        /// The table's name.
        table: String,
        /// Its pace.
        pace: f64,
        /// What the slowest CPU reached.
        rate: f64,
        /// The greatest pace that is allowed.
        most: f64,
    },
    /// An automatic dilation without the speed of the machine that is stood for.
    #[error("P-state table `{table}` has no `stands_for`, from which `dilation = \"auto\"` is computed")]
    NoStandsFor {
        /// The table's name.
        table: String,
    },
}

/// At which pace, and how dilated, a machine runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Instructions a second at speed 1.
    pub pace: f64,
    /// How many times slower than the machine that it stands for; at least 1.
    pub dilation: f64,
    /// How many times faster than its pace the slowest CPU can run.
    pub headroom: f64,
}

/// Instructions a second of each virtual CPU between two writes to the control port, while it was busy.
///
/// # Errors
/// [`Error::NotMeasured`] where the time is too short, the CPUs differ, or one of them was not busy
/// throughout.
pub fn rates(from: &Control, to: &Control) -> Result<Vec<f64>, Error> {
    let span = to.at.saturating_sub(from.at);
    if span < SHORTEST {
        return Err(Error::NotMeasured(format!("{span} between the marks is less than {SHORTEST}")));
    }
    if from.counts.len() != to.counts.len() || from.counts.is_empty() {
        let (before, after) = (from.counts.len(), to.counts.len());
        return Err(Error::NotMeasured(format!("{before} virtual CPUs at one mark, {after} at the other")));
    }
    from.counts
        .iter()
        .zip(&to.counts)
        .enumerate()
        .map(|(cpu, (before, after))| {
            let busy = after.busy.saturating_sub(before.busy);
            if busy.secs() < MIN_BUSY * span.secs() {
                let share =
                    Ratio::of(busy.get(), span.get()).map_or_else(String::new, |share| format!(" ({share})"));
                return Err(Error::NotMeasured(format!(
                    "virtual CPU {cpu} was busy for {busy} of {span}{share} only"
                )));
            }
            Ok(after.instructions.saturating_sub(before.instructions) as f64 / busy.secs())
        })
        .collect()
}

/// The pace and dilation of a machine with this table on a host whose virtual CPUs reach these rates, all at
/// once.
///
/// A fixed dilation keeps the table's pace, if the host can do it. An automatic one takes the greatest pace
/// that leaves [`HEADROOM`] (no more than the machine that is stood for needs), rounded down to two figures
/// so that two calibrations of one host mostly agree, and the dilation that follows from it.
///
/// # Errors
/// [`Error::TooFast`], [`Error::NoStandsFor`]; [`Error::NotMeasured`] where there is no rate above 0.
pub fn fit(table: &PStateTable, dilation: Dilation, rates: &[f64]) -> Result<Fit, Error> {
    let slowest = rates.iter().copied().reduce(f64::min).filter(|rate| *rate > 0.0);
    let slowest = slowest.ok_or_else(|| Error::NotMeasured("no virtual CPU executed anything".to_owned()))?;
    let most = slowest / HEADROOM;
    match dilation {
        Dilation::Fixed(_) if table.pace > most => {
            Err(Error::TooFast { table: table.name.clone(), pace: table.pace, rate: slowest, most })
        }
        Dilation::Fixed(dilation) => Ok(Fit { pace: table.pace, dilation, headroom: slowest / table.pace }),
        Dilation::Auto => {
            let stands_for =
                table.stands_for.ok_or_else(|| Error::NoStandsFor { table: table.name.clone() })?;
            let pace = two_figures_down(most).min(stands_for);
            Ok(Fit { pace, dilation: stands_for / pace, headroom: slowest / pace })
        }
    }
}

/// Rounded down to two significant figures; `value` is above 0.
fn two_figures_down(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    // A value that stands on a step already may lie a hair below it after the division.
    ((value / unit) * (1.0 + 1e-12)).floor() * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::Count;

    fn table(stands_for: &str) -> PStateTable {
        let text = format!(
            "latency='10us'\ndomains='per-cpu'\npace=2e7\n{stands_for}\n[[state]]\nmhz=2000\nspeed=1.0\n"
        );
        crate::pstates::parse("test", &text).unwrap()
    }

    fn mark(at_ms: u64, counts: &[(u64, u64)]) -> Control {
        let count = |&(instructions, busy_ms)| Count { instructions, busy: Nanos::from_millis(busy_ms) };
        Control { at: Nanos::from_millis(at_ms), value: 2, counts: counts.iter().map(count).collect() }
    }

    #[test]
    fn a_rate_is_instructions_over_busy_time() {
        let from = mark(1_000, &[(500, 10), (0, 0)]);
        let to = mark(3_000, &[(200_000_500, 2_010), (180_000_000, 1_800)]);
        assert_eq!(rates(&from, &to).unwrap(), [1e8, 1e8]);
    }

    #[test]
    fn a_measurement_that_is_none_is_refused() {
        for (from, to, reason) in [
            (mark(0, &[(0, 0)]), mark(99, &[(9, 99)]), "99 ms between the marks is less than 100 ms"),
            (mark(0, &[]), mark(200, &[]), "0 virtual CPUs"),
            (
                mark(0, &[(0, 0)]),
                mark(200, &[(1, 200), (1, 200)]),
                "1 virtual CPUs at one mark, 2 at the other",
            ),
            (
                mark(0, &[(0, 0), (0, 0)]),
                mark(1_000, &[(1, 1_000), (1, 500)]),
                "virtual CPU 1 was busy for 500 ms of 1.0 s (50.0%) only",
            ),
            (mark(500, &[(0, 0)]), mark(0, &[(0, 0)]), "0 ns between"),
        ] {
            let error = rates(&from, &to).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_fixed_dilation_keeps_the_pace_that_the_host_can_do() {
        let fitted = fit(&table(""), Dilation::Fixed(20.0), &[9e7, 5e7]).unwrap();
        assert_eq!(fitted, Fit { pace: 2e7, dilation: 20.0, headroom: 2.5 });
        assert!(fit(&table(""), Dilation::Fixed(1.0), &[4e7]).is_ok(), "exactly the headroom");
        let error = fit(&table(""), Dilation::Fixed(1.0), &[9e7, 3e7]).unwrap_err().to_string();
        assert!(error.contains("pace 2.000e7") && error.contains("at most 1.500e7"), "{error}");
    }

    #[test]
    fn an_automatic_dilation_takes_the_greatest_pace_with_headroom() {
        let fitted = fit(&table("stands_for=2.8e9"), Dilation::Auto, &[7.39e7, 9e7]).unwrap();
        assert!((fitted.pace / 3.6e7 - 1.0).abs() < 1e-9, "{fitted:?}");
        assert!((fitted.dilation * fitted.pace / 2.8e9 - 1.0).abs() < 1e-9);
        assert!(fitted.headroom >= HEADROOM);
        assert!(matches!(fit(&table(""), Dilation::Auto, &[1e8]), Err(Error::NoStandsFor { .. })));
    }

    #[test]
    fn a_host_that_is_faster_than_the_machine_does_not_dilate() {
        let fitted = fit(&table("stands_for=3e7"), Dilation::Auto, &[1e9]).unwrap();
        assert_eq!((fitted.pace, fitted.dilation), (3e7, 1.0));
    }

    #[test]
    fn without_a_rate_there_is_no_fit() {
        for rates in [&[][..], &[0.0], &[f64::NAN]] {
            assert!(matches!(fit(&table(""), Dilation::Fixed(1.0), rates), Err(Error::NotMeasured(_))));
        }
    }

    #[test]
    fn a_round_pace_stays_as_it_is() {
        for value in [2e7, 3.6e7, 1e8, 9.9e5] {
            assert!((two_figures_down(value) / value - 1.0).abs() < 1e-9, "{value}");
        }
        assert!((two_figures_down(3.699e7) / 3.6e7 - 1.0).abs() < 1e-9);
    }
}
