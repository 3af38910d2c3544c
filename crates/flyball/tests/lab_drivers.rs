//! `intel_pstate` in a guest: the stock driver binds to the registers that the plugin has, with HWP and
//! without, what is asked for decides how fast the CPU is, and what the kernel says of the frequency is the
//! plugin's truth.
//!
//! Where QEMU, a kernel or the plugin is missing, or the host stayed too busy to pace in time, a line
//! `skipped:` says so.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use crate::support;
use crate::support::Place;
use crate::support::lab::{kernels, missing, without_plugin};
use domain::lab::{ENERGY_MODELLED, Pacing};
use domain::trial::{Trial, Validity};
use domain::units::Hertz;
use notebook::Notebook;
use std::collections::BTreeMap;

/// What a host says that is too slow, or too busy, for the table's pace.
const TOO_BUSY: [&str; 3] =
    ["is too fast for this host", "this host is too busy with other things", "the guest said nothing"];

/// By how much of its time a virtual CPU may be late here: the effects that are looked for are larger.
const MOST_LATE: f64 = 0.1;

/// Whether this driver is tried: the one of two that the seed chooses, apart from the kernel, and both where
/// the whole is asked for.
fn is_chosen(driver: u64) -> bool {
    let extent = testing::Extent::of(1, 2);
    extent.count > 1 || extent.seed / 2 % 2 == driver
}

/// What the driver shows; then 40 bursts of work, of some 10 ms at the top, with 5 ms of waiting after each;
/// then the frequency, and the energy that was counted. No program is started meanwhile.
const BURSTS: &str = "exec 9<>/run/quiet; c=/sys/devices/system/cpu; p=$c/cpufreq/policy0; \
    show() { read -r v < $2; echo $1 $v; }; \
    show driver $p/scaling_driver; show status $c/intel_pstate/status; \
    show governors $p/scaling_available_governors; show least $p/cpuinfo_min_freq; \
    show most $p/cpuinfo_max_freq; [ -e $p/energy_performance_preference ] && show epp $p/energy_performance_preference; \
    e=/sys/class/powercap/intel-rapl:0/energy_uj; show before $e; t=${EPOCHREALTIME/./}; \
    for ((k = 0; k < 40; k++)); do for ((i = 0; i < 12; i++)); do :; done; read -t 0.005 -u 9; done; \
    echo micros $(( ${EPOCHREALTIME/./} - t )); show now $p/scaling_cur_freq; show after $e";

fn study(table: &str, levels: &[(&str, &str)]) -> String {
    let level = |(name, settings): &(&str, &str)| {
        format!("[[factor.policy.level]]\nname = \"{name}\"\nsettings = {{ {settings} }}\n")
    };
    let levels: String = levels.iter().map(level).collect();
    format!(
        "flyball = 1\nname = \"drivers\"\nquestion = \"What does each request make of the frequency?\"\n\
         [lab]\npstates = \"{table}\"\nprepare = [\"mkfifo /run/quiet\"]\n\
         [workload.bursts]\ntool = \"command\"\nargv = [\"bash\", \"-c\", '{BURSTS}']\n\
         [factor.policy]\n{levels}\
         [measure]\nmetric = \"elapsed\"\nrepeats = 1\nretries = 2\nsettle = \"1s\"\ninterval = \"10s\"\ntimeout = \"60s\"\n"
    )
}

/// What one level's trial that was least late said, and the plugin's record of it.
struct Seen {
    said: BTreeMap<String, String>,
    pacing: Pacing,
}

impl Seen {
    fn number(&self, word: &str) -> f64 {
        self.said[word].parse().unwrap()
    }

    /// How long the bursts took, without what the CPU was late by: time in which it lacked the host.
    fn work_ms(&self) -> f64 {
        self.number("micros") / 1e3 - self.pacing.vcpus[0].late.secs() * 1e3
    }

    fn is(&self, word: &str, value: &str) {
        assert_eq!(self.said.get(word).map(String::as_str), Some(value), "{word}: {:?}", self.said);
    }

    /// Mean frequency while not idle, in kHz.
    fn mean_khz(&self) -> f64 {
        let states = self.pacing.states();
        let busy: f64 = states.iter().map(|state| state.busy.secs()).sum();
        states.iter().map(|state| state.busy.secs() * state.frequency.khz() as f64).sum::<f64>() / busy
    }

    /// The only frequency that the CPU was at for any length of time, which the kernel has to have seen.
    fn stays_at(&self, mhz: u64) {
        let states = self.pacing.states();
        let busy: f64 = states.iter().map(|state| state.busy.secs()).sum();
        let there = states.iter().find(|state| state.frequency == Hertz::from_mhz(mhz));
        let share = there.map_or(0.0, |state| state.busy.secs()) / busy;
        assert!(share > 0.95, "at {mhz} MHz for {share:.3} of its work: {states:?}");
        let off = self.number("now") / (mhz as f64 * 1e3) - 1.0;
        assert!(off.abs() < 0.02, "the kernel says {} kHz at {mhz} MHz", self.said["now"]);
    }
}

/// Runs a study of this table under each level; `None`, and told, where this host cannot.
fn measure(
    place: &Place,
    kernel: &str,
    table: &str,
    levels: &[(&str, &str)],
) -> Option<BTreeMap<String, Seen>> {
    let file = place.study("drivers", &study(table, levels));
    let output = place.output(&["lab", "run", "--new", "--seed", "1", "--kernel", kernel, &file]);
    let said = support::stderr(&output);
    if TOO_BUSY.iter().any(|reason| said.contains(reason)) {
        println!("skipped: {}", said.trim());
        return None;
    }
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}: {said}", output.status);
    let notebook = Notebook::open(&place.path("notebook")).unwrap();
    let run = notebook.runs().unwrap().0.first().unwrap().run.id.clone();
    let (trials, _) = notebook.trials(&run).unwrap();
    let mut all = BTreeMap::new();
    for (name, _) in levels {
        let of_level = trials.iter().filter(|trial| trial.levels["policy"] == *name);
        let best = of_level.min_by(|a, b| lateness(a).total_cmp(&lateness(b))).unwrap();
        assert!(!matches!(best.validity, Validity::Failed(_)), "{name}: {:?}", best.validity);
        if lateness(best) > MOST_LATE {
            println!("skipped: {name}: the host was too busy: {:.1}% late at best", 100.0 * lateness(best));
            return None;
        }
        let folder = notebook.trial_folder(&run, &best.key);
        let text = std::fs::read_to_string(folder.join("raw/stdout.txt")).unwrap();
        let words = text.lines().filter_map(|line| line.split_once(' '));
        let said: BTreeMap<_, _> = words.map(|(word, value)| (word.to_owned(), value.to_owned())).collect();
        let seen = Seen { said, pacing: pacing(best).clone() };
        let late = 100.0 * lateness(best);
        println!(
            "{kernel} {table} {name}: {:.0} ms at {:.0} MHz in the mean, the kernel says {} kHz; late {late:.1}%",
            seen.number("micros") / 1e3,
            seen.mean_khz() / 1e3,
            seen.said["now"],
        );
        check_energy(&seen, best);
        all.insert((*name).to_owned(), seen);
    }
    Some(all)
}

fn pacing(trial: &Trial) -> &Pacing {
    trial.lab.as_ref().unwrap().pacing.as_ref().unwrap()
}

fn lateness(trial: &Trial) -> f64 {
    pacing(trial).lateness().unwrap_or(1.0)
}

/// RAPL counts what the table's watts make of the same time: the trial's own figure is of a little more time.
fn check_energy(seen: &Seen, trial: &Trial) {
    let counted = (seen.number("after") - seen.number("before")) / 1e6;
    let kept = trial.metric(ENERGY_MODELLED).unwrap();
    assert!(counted > 0.5 * kept && counted < 1.1 * kept, "RAPL counts {counted} J, the record has {kept} J");
}

fn in_guests(check: impl Fn(&Place, &str)) {
    let place = Place::new();
    if let Some(reason) = without_plugin() {
        return println!("skipped: {reason}");
    }
    for kernel in kernels() {
        match missing(&place, kernel) {
            Some(reason) => println!("skipped: {reason}"),
            None => check(&place, kernel),
        }
    }
}

#[test]
fn with_hwp_the_preference_decides_how_fast_the_cpu_is() {
    if !is_chosen(0) {
        return;
    }
    in_guests(|place, kernel| {
        let levels = [
            ("performance", "governor = \"performance\""),
            ("base", "governor = \"performance\", turbo = 0"),
            ("balanced", "governor = \"powersave\", epp = \"balance_performance\""),
            ("power", "governor = \"powersave\", epp = \"power\""),
        ];
        let Some(seen) = measure(place, kernel, "i7-6700k-hwp", &levels) else { return };
        for each in seen.values() {
            each.is("driver", "intel_pstate");
            each.is("status", "active");
            each.is("governors", "performance powersave");
            each.is("least", "800000");
        }
        seen["performance"].is("most", "4200000");
        seen["balanced"].is("epp", "balance_performance");
        seen["performance"].stays_at(4200);
        seen["base"].stays_at(4000);
        let [fast, middle, slow] = ["performance", "balanced", "power"].map(|name| seen[name].work_ms());
        assert!(fast < 0.95 * middle && middle < 0.8 * slow, "{fast}, {middle}, {slow} ms");
        assert!(seen["power"].mean_khz() < 0.7 * seen["balanced"].mean_khz());
    });
}

#[test]
fn without_hwp_the_kernels_own_powersave_lies_between_the_lowest_and_the_highest_frequency() {
    if !is_chosen(1) {
        return;
    }
    in_guests(|place, kernel| {
        let levels = [
            ("performance", "governor = \"performance\""),
            ("base", "governor = \"performance\", turbo = 0"),
            ("powersave", "governor = \"powersave\""),
            ("lowest", "governor = \"powersave\", max_freq = \"800MHz\""),
        ];
        let Some(seen) = measure(place, kernel, "i7-6700k-pstate", &levels) else { return };
        for each in seen.values() {
            each.is("driver", "intel_pstate");
            each.is("status", "active");
            each.is("governors", "performance powersave");
            assert!(!each.said.contains_key("epp"), "{:?}", each.said);
        }
        seen["performance"].stays_at(4200);
        seen["base"].stays_at(4000);
        seen["lowest"].stays_at(800);
        let [fast, middle, slow] = ["performance", "powersave", "lowest"].map(|name| seen[name].work_ms());
        assert!(fast < middle && middle < 0.7 * slow, "{fast}, {middle}, {slow} ms");
    });
}
