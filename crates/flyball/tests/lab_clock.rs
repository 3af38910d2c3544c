//! A guest whose clock is slowed: what its kernel counts, what its disks do and how its CPU is paced agree
//! with one another, although two of the three know nothing of its clock.
//!
//! Where QEMU, a kernel or the plugin is missing, or the host stayed too busy to pace in time, a line
//! `skipped:` says so.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use crate::support;
use crate::support::Place;
use crate::support::lab::{TOO_BUSY, kernels, lateness, missing, pacing, without_plugin};
use disks::DiskSpec;
use disks::closed_loop::{AccessOrder, Pattern, time_for};
use domain::lab::Pacing;
use domain::rng::Seed;
use domain::time::Nanos;
use domain::trial::Trial;
use domain::units::{Bytes, Ratio};
use notebook::Notebook;

/// How many times slower the guest is, and its clock.
const DILATION: f64 = 8.0;

/// How many blocks of 1 MiB are read in order.
const BLOCKS: u64 = 24;

/// The host's time by which a virtual CPU may be late here, as a share: the effects that are looked for are
/// of the size of the dilation.
const MOST_LATE: f64 = 0.1;

/// Ticks of a CPU that works for some 100 ms, and how long a disk is read; both by the guest's clock. No
/// program is started in between but dd.
const SCRIPT: &str = r#"ticks() { while read -r name count rest; do [ "$name" = LOC: ] && n=$count; done < /proc/interrupts; }; \
    ticks; was=$n; t=${EPOCHREALTIME/./}; for ((i = 0; i < 4000; i++)); do :; done; ticks; \
    echo ticks $((n - was)) $(( ${EPOCHREALTIME/./} - t )); t=${EPOCHREALTIME/./}; \
    dd if=/dev/sda of=/dev/null bs=1M count=BLOCKS iflag=direct; echo read $(( ${EPOCHREALTIME/./} - t ))"#;

fn study(table: &str) -> String {
    let script = SCRIPT.replace("\\\n", "").replace("BLOCKS", &BLOCKS.to_string());
    format!(
        "flyball = 1\nname = \"clock\"\nquestion = \"Whose time is it?\"\n\
         [lab]\npstates = \"{table}\"\ndilation = {DILATION}\nclock = \"slowed\"\n\
         [[lab.disk]]\nname = \"disk\"\nmodel = \"plain-7200\"\nsize = \"128MiB\"\n\
         [workload.both]\ntool = \"command\"\nargv = [\"bash\", \"-c\", \'\'\'{script}\'\'\']\n\
         [factor.governor]\nsetting = \"governor\"\nlevels = [\"performance\", \"powersave\"]\n\
         [measure]\nmetric = \"elapsed\"\nrepeats = 1\nretries = 2\nsettle = \"100ms\"\ninterval = \"1s\"\ntimeout = \"60s\"\n"
    )
}

/// What the disk's model takes for it.
fn modelled() -> Nanos {
    let spec = DiskSpec::shipped("plain-7200").unwrap();
    let pattern = Pattern {
        order: AccessOrder::Sequential,
        reads: Ratio::new(1.0).unwrap(),
        block: Bytes::from_mib(1),
        depth: 1,
        offset: Bytes::new(0),
        range: Bytes::from_mib(128),
        warm_up: Nanos::ZERO,
        duration: Nanos::from_secs(1),
    };
    time_for(&spec, None, &pattern, BLOCKS, Seed(1)).unwrap()
}

#[test]
fn a_slowed_clock_is_that_of_ticks_disks_and_pace() {
    let place = Place::new();
    let kernel = kernels()[0];
    if let Some(reason) = without_plugin().or_else(|| missing(&place, kernel)) {
        return testing::skip(reason);
    }
    // One table has its P-states by a port, the other by a processor's registers.
    let tables = [("server-8", 3.2e9), ("i7-6700t-pstate", 3.6e9)];
    let extent = testing::Extent::of(1, tables.len() as u64);
    let first = extent.seed as usize % tables.len();
    for (table, top) in tables.into_iter().cycle().skip(first).take(extent.count as usize) {
        let file = place.study("clock", &study(table));
        let output = place.output(&["lab", "run", "--new", "--seed", "1", "--kernel", kernel, &file]);
        let said = support::stderr(&output);
        if TOO_BUSY.iter().any(|reason| said.contains(reason)) {
            return testing::skip(said.trim());
        }
        assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}: {said}", output.status);
        let shown = String::from_utf8_lossy(&output.stdout);
        let shown: Vec<&str> = shown.split_whitespace().collect();
        let shown = shown.join(" ");
        assert!(shown.contains("a clock 8 times slower than the host's"), "{shown}");
        let notebook = Notebook::open(&place.path("notebook")).unwrap();
        let run = notebook.runs().unwrap().0.first().unwrap().run.id.clone();
        let (trials, problems) = notebook.trials(&run).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        for governor in ["performance", "powersave"] {
            let of = |trial: &&Trial| trial.levels["governor"] == governor && trial.measurement.is_some();
            let best = trials.iter().filter(of).min_by(|a, b| lateness(a).total_cmp(&lateness(b))).unwrap();
            if lateness(best) > MOST_LATE {
                testing::skip_in_part(format!(
                    "{table}, {governor}: {:.1}% late at best",
                    100.0 * lateness(best)
                ));
                continue;
            }
            let said =
                std::io::read_to_string(notebook.raw_file(&run, &best.key, "stdout.txt").unwrap()).unwrap();
            check(table, top, best, &said);
        }
    }
}

fn check(table: &str, top: f64, trial: &Trial, said: &str) {
    let line = |word: &str| -> Vec<f64> {
        let found = said.lines().find_map(|line| line.strip_prefix(word)).unwrap_or_else(|| panic!("{said}"));
        found.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    let [ticks, micros] = line("ticks")[..] else { panic!("{said}") };
    let read_ms = line("read")[0] / 1e3;
    let Pacing { pace, .. } = *pacing(trial);
    let states = pacing(trial).states();
    let due: f64 = states.iter().map(|s| s.busy.secs() * pace * s.frequency.hz() as f64 / top).sum();
    let executed = states.iter().map(|state| state.instructions).sum::<u64>() as f64 / due;
    println!(
        "{table}: {ticks} ticks in {micros} us, read in {read_ms:.0} ms (model {:.0}), {:.1}% of {:.0} million instructions due",
        modelled().secs() * 1e3,
        100.0 * executed,
        due / 1e6
    );
    let account = trial.lab.as_ref().unwrap();
    assert_eq!((account.dilation, account.slowed), (1.0, DILATION));
    assert!((0.8..1.05).contains(&executed), "{executed} of what its pace gives: {said}");
    // Debian's kernels tick 250 times a second: eight times as often, or an eighth, would be the host's
    // time. The bounds are as wide as a busy host, and a slow CPU's part in reading, want them.
    let rate = ticks / micros * 1e6;
    assert!((150.0..400.0).contains(&rate), "{rate} ticks a second: {said}");
    let over = read_ms / 1e3 / modelled().secs();
    assert!((0.9..3.0).contains(&over), "a disk took {over} times what its model does: {said}");
}
