//! `intel_pstate`, `amd_pstate` and `acpi_idle` in a guest: the stock drivers bind to the lab's registers and
//! tables, what is asked for decides how fast the CPU is, and what the kernel says of frequency and idle
//! states is the plugin's truth.
//!
//! Where QEMU, a kernel or the plugin is missing, or the host stayed too busy to pace in time, a line
//! `skipped:` says so.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use crate::support;
use crate::support::Place;
use crate::support::lab::{
    TOO_BUSY, instead_of_qemu, kernels, lateness, missing, pacing, slow_table, without, without_plugin,
};
use domain::lab::{ENERGY_MODELLED, Pacing};
use domain::time::Nanos;
use domain::trial::{Trial, Validity};
use domain::units::Hertz;
use notebook::Notebook;
use std::collections::BTreeMap;

/// By how much of its time a virtual CPU may be late here: the effects that are looked for are larger.
const MOST_LATE: f64 = 0.1;

/// What the driver shows; then 40 bursts of work, of some 10 ms at the top, with 5 ms of waiting after each;
/// then the frequency, and the energy that was counted. No program is started meanwhile. With HWP's dynamic
/// boost reads of a disk follow the bursts, and in passive mode limits that change.
const BURSTS: &str = "exec 9<>/run/quiet; c=/sys/devices/system/cpu; p=$c/cpufreq/policy0; \
    show() { read -r v < $2; echo $1 $v; }; \
    show driver $p/scaling_driver; \
    for d in intel amd; do [ -e $c/$d\\_pstate/status ] && show status $c/$d\\_pstate/status && s=$v; done; \
    show governors $p/scaling_available_governors; show least $p/cpuinfo_min_freq; \
    show most $p/cpuinfo_max_freq; [ -e $p/energy_performance_preference ] && show epp $p/energy_performance_preference; \
    e=/sys/class/powercap/intel-rapl:0/energy_uj; show before $e; t=${EPOCHREALTIME/./}; \
    for ((k = 0; k < 40; k++)); do for ((i = 0; i < 12; i++)); do :; done; read -t 0.005 -u 9; done; \
    echo micros $(( ${EPOCHREALTIME/./} - t )); show now $p/scaling_cur_freq; \
    b=$c/intel_pstate/hwp_dynamic_boost; [ -e $b ] && [ $(< $b) = 1 ] && dd if=/dev/nullb0 of=/dev/null bs=4k count=100 iflag=direct; \
    if [ \"$s\" = passive ]; then read -r most < $p/scaling_max_freq; \
    turbo() { if [ -e $c/intel_pstate/no_turbo ]; then echo $((1 - $1)) > $c/intel_pstate/no_turbo; else echo $1 > $c/cpufreq/boost; fi; }; \
    work() { readings $p/scaling_cur_freq 60; median $1-khz; }; \
    work turbo; turbo 0; work base; echo 2000000 > $p/scaling_max_freq; work limited; turbo 1; work still; \
    echo $most > $p/scaling_max_freq; work again; fi; show after $e";

/// Reads a file five times, after so many rounds of work each, and says the median. A reading of
/// scaling_cur_freq is of one tick, between whose two counters the host may do something else.
const READINGS: &str = r#"readings() { all=(); local k n v; for ((n = 0; n < 5; n++)); do for ((k = 0; k < $2; k++)); do :; done; read -r v < $1; all+=($v); done; }; \
    median() { local most=0 v w below; for v in ${all[@]}; do below=0; for w in ${all[@]}; do ((w < v)) && ((below++)); done; \
    ((below < 3 && v > most)) && most=$v; done; echo $1 $most; }; "#;

/// What a machine runs under each level.
struct Machine<'a> {
    vcpus: u32,
    script: &'a str,
    repeats: u32,
}

/// intel_pstate in passive mode, where the kernel's own governor asks.
const PASSIVE: (&str, &str) =
    ("passive", "\"intel_pstate.status\" = \"passive\", governor = \"performance\"");

/// IA32_HWP_REQUEST: the least and the highest level in its lowest bytes.
const HWP_REQUEST: u32 = 0x774;

/// CPPC_REQUEST: the highest, the least and the wanted level in its lowest bytes.
const CPPC_REQUEST: u32 = 0xc001_02b3;

const ONE_CPU: Machine = Machine { vcpus: 1, script: BURSTS, repeats: 1 };

fn study(machine: &Machine, table: &str, levels: &[(&str, &str)]) -> String {
    let Machine { vcpus, script, repeats } = machine;
    let script = [READINGS, script].concat().replace("\\\n", "");
    let level = |(name, settings): &(&str, &str)| {
        format!("[[factor.policy.level]]\nname = \"{name}\"\nsettings = {{ {settings} }}\n")
    };
    let levels: String = levels.iter().map(level).collect();
    format!(
        "flyball = 1\nname = \"drivers\"\nquestion = \"What does each request make of the frequency?\"\n\
         [lab]\npstates = \"{table}\"\nvcpus = {vcpus}\nprepare = [\"mkfifo /run/quiet\", \"if command -v turbostat && command -v cpupower; then modprobe msr; fi\", \"modprobe null_blk nr_devices=1 irqmode=2 completion_nsec=3000000 gb=1\"]\n\
         [workload.bursts]\ntool = \"command\"\nargv = [\"bash\", \"-c\", \'\'\'{script}\'\'\']\n\
         [factor.policy]\n{levels}\
         [measure]\nmetric = \"elapsed\"\nrepeats = {repeats}\nretries = 2\nsettle = \"1s\"\ninterval = \"10s\"\ntimeout = \"60s\"\n"
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

    /// The frequency follows the turbo that is taken away and given back, and a limit that lasts longer: what
    /// the kernel says, and what the record has.
    fn follows_limits(&self, turbo: u64, base: u64) {
        for (when, mhz) in
            [("turbo", turbo), ("base", base), ("limited", 2000), ("still", 2000), ("again", turbo)]
        {
            let off = self.number(&format!("{when}-khz")) / (mhz as f64 * 1e3) - 1.0;
            assert!(off.abs() < 0.02, "{when}: {:?}", self.said);
        }
        let changes = &self.pacing.vcpus[0].transitions;
        let seen: Vec<u64> = changes.iter().map(|(_, frequency)| frequency.hz() / 1_000_000).collect();
        assert!(seen.ends_with(&[turbo, base, 2000, turbo]), "{seen:?}");
    }

    /// What the guest wrote into this register while it was paced, and the highest frequency of the CPU then
    /// and in the next 5 ms: it may be given its ratio a moment later.
    fn requests(&self, register: u32) -> Vec<(u64, Hertz)> {
        let cpu = &self.pacing.vcpus[0];
        let of_register = cpu.requests.iter().filter(|request| request.register == register);
        let reached = |request: &domain::lab::RegisterRequest| {
            let later = request.at + Nanos::from_millis(5);
            let at = cpu.transitions.iter().rposition(|(at, _)| *at <= request.at).unwrap();
            let until = cpu.transitions[at..].iter().take_while(|(at, _)| *at <= later);
            (request.value, until.map(|(_, frequency)| *frequency).max().unwrap())
        };
        of_register.map(reached).collect()
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

/// Runs bursts on one CPU of this table under each level; `None`, and told, where this host cannot.
fn measure(
    place: &Place,
    kernel: &str,
    table: &str,
    levels: &[(&str, &str)],
) -> Option<BTreeMap<String, Seen>> {
    let all = run(&ONE_CPU, place, kernel, table, levels)?;
    for (name, (seen, trial)) in &all {
        let late = 100.0 * lateness(trial);
        println!(
            "{kernel} {table} {name}: {:.0} ms at {:.0} MHz in the mean, the kernel says {} kHz; late {late:.1}%",
            seen.number("micros") / 1e3,
            seen.mean_khz() / 1e3,
            seen.said["now"],
        );
        check_energy(seen, trial);
    }
    Some(all.into_iter().map(|(name, (seen, _))| (name, seen)).collect())
}

/// Runs a machine's script under each level; `None`, and told, where this host cannot.
fn run(
    machine: &Machine,
    place: &Place,
    kernel: &str,
    table: &str,
    levels: &[(&str, &str)],
) -> Option<BTreeMap<String, (Seen, Trial)>> {
    let file = place.study("drivers", &study(machine, table, levels));
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
        all.insert((*name).to_owned(), (seen, best.clone()));
    }
    Some(all)
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
    if !testing::is_measured_in_turn(5) {
        return;
    }
    in_guests(|place, kernel| {
        let levels = [
            ("performance", "governor = \"performance\""),
            ("base", "governor = \"performance\", turbo = 0"),
            ("balanced", "governor = \"powersave\", epp = \"balance_performance\""),
            ("power", "governor = \"powersave\", epp = \"power\""),
            ("boosted", "governor = \"powersave\", epp = \"power\", hwp_dynamic_boost = 1"),
            PASSIVE,
        ];
        let Some(seen) = measure(place, kernel, "i7-6700k-hwp", &levels) else { return };
        seen["passive"].is("driver", "intel_cpufreq");
        seen["passive"].follows_limits(4200, 4000);
        for (_, each) in seen.iter().filter(|(name, _)| *name != "passive") {
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
        // The boost raises the least level after waits for a disk, and the CPU is not below it.
        let least = |value: u64| value & 0xff;
        let requests = seen["boosted"].requests(HWP_REQUEST);
        assert!(seen["power"].requests(HWP_REQUEST).iter().all(|(value, _)| least(*value) == 8));
        assert!(requests.iter().any(|(value, _)| least(*value) == 42), "{requests:x?}");
        for (value, frequency) in requests {
            assert!(frequency >= Hertz::from_mhz(100 * least(value)), "{value:#x}: {frequency}");
        }
    });
}

#[test]
fn without_hwp_the_kernels_own_powersave_lies_between_the_lowest_and_the_highest_frequency() {
    if !testing::is_measured_in_turn(5) {
        return;
    }
    in_guests(|place, kernel| {
        let levels = [
            ("performance", "governor = \"performance\""),
            ("base", "governor = \"performance\", turbo = 0"),
            ("powersave", "governor = \"powersave\""),
            ("lowest", "governor = \"powersave\", max_freq = \"800MHz\""),
            PASSIVE,
        ];
        let Some(seen) = measure(place, kernel, "i7-6700k-pstate", &levels) else { return };
        seen["passive"].is("driver", "intel_cpufreq");
        seen["passive"].follows_limits(4200, 4000);
        for (_, each) in seen.iter().filter(|(name, _)| *name != "passive") {
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

#[test]
fn with_amd_pstate_the_request_decides_how_fast_the_cpu_is() {
    if !testing::is_measured_in_turn(4) {
        return;
    }
    in_guests(|place, kernel| {
        // Linux 6.1 knows the passive mode alone, in which a governor asks for a level.
        let is_active = kernel != "6.1";
        let (name, levels) = match is_active {
            true => (
                "amd-pstate-epp",
                vec![
                    ("highest", "governor = \"performance\""),
                    ("balanced", "governor = \"powersave\", epp = \"balance_performance\""),
                    ("lowest", "governor = \"powersave\", epp = \"power\""),
                    ("passive", "\"amd_pstate.status\" = \"passive\", governor = \"performance\""),
                    ("guided", "\"amd_pstate.status\" = \"guided\", governor = \"schedutil\""),
                ],
            ),
            false => (
                "amd-pstate",
                vec![
                    ("highest", "governor = \"performance\""),
                    ("balanced", "governor = \"schedutil\""),
                    ("lowest", "governor = \"powersave\""),
                ],
            ),
        };
        let Some(seen) = measure(place, kernel, "zen3-server", &levels) else { return };
        for (level, each) in &seen {
            each.is(
                "driver",
                if ["passive", "guided"].contains(&level.as_str()) { "amd-pstate" } else { name },
            );
            // Levels are not rounded as the kernel rounds frequencies: 3.699 GHz is 3.7.
            assert!((each.number("most") - 3.7e6).abs() <= 1e3, "{:?}", each.said);
        }
        if is_active {
            seen["passive"].follows_limits(3700, 2800);
            // The governor's level is the least one, above which the processor chooses: it wants none.
            seen["guided"].is("status", "guided");
            let requests = seen["guided"].requests(CPPC_REQUEST);
            let level = |value: u64, byte: u32| value >> (8 * byte) & 0xff;
            assert!(requests.iter().any(|(value, _)| level(*value, 1) == 37), "{requests:x?}");
            for (value, frequency) in requests {
                assert_eq!(level(value, 2), 0, "{value:#x}");
                assert!(frequency >= Hertz::from_mhz(100 * level(value, 1)), "{value:#x}: {frequency}");
            }
        }
        // In active mode the governor asks for 2.8 GHz at least, and the processor goes on from there.
        if !is_active {
            seen["highest"].stays_at(3700);
        }
        let all = ["highest", "balanced", "lowest"].map(|name| &seen[name]);
        let [fast, middle, slow] = all.map(Seen::mean_khz);
        assert!(
            fast > 0.93 * 3.7e6 && middle < 0.97 * fast && slow < 0.93 * middle,
            "{fast}, {middle}, {slow} kHz"
        );
        assert!(all[0].work_ms() < 0.9 * all[2].work_ms());
    });
}

/// How long each idle state was held, and how often entered, over 20 waits of a quarter of a second: long
/// enough that the interrupts that end them, which the kernel counts as idle time, do not matter. The waits
/// are those of a program that turbostat runs, where the guest has it, and within it cpupower; what they say
/// of them comes last.
const WAITS: &str = r#"exec 9<>/run/quiet; c=/sys/devices/system/cpu/cpu0/cpuidle; e=/sys/class/powercap/intel-rapl:0/energy_uj; \
    show() { read -r v < $2; echo $1 $v; }; \
    all() { for s in $c/state[1-9]*; do read -r n < $s/name; show $n-$1 $s/time; done; show energy-$1 $e; echo at-$1 ${EPOCHREALTIME/./}; }; \
    waits() { for ((k = 0; k < 20; k++)); do read -t 0.25 -u 9; done; }; export -f waits; \
    show driver ${c%/cpu0*}/cpuidle/current_driver; all before; \
    if [ -e /dev/cpu/0/msr ]; then turbostat --quiet --out /run/turbostat --show CPU%c1,CPU%c3,CPU%c6,CPU%c7,Pkg%pc3,Pkg%pc6,Pkg%pc8 \
    cpupower monitor -m Nehalem bash -c waits > /run/cpupower 2> /run/complaint; else waits; fi; all after; \
    n=0; for f in turbostat cpupower; do [ -e /run/$f ] && while read -r line; do echo $f-$((n++)) "$line"; done < /run/$f; done; true"#;

/// For how many seconds tools say that the CPU was in each C-state, by the names of their columns.
struct Residencies(BTreeMap<String, f64>);

impl Residencies {
    /// As turbostat and cpupower print them for one CPU; `None` where the guest has no such tools.
    fn of(said: &BTreeMap<String, String>) -> Option<Self> {
        let is_blank: fn(char) -> bool = char::is_whitespace;
        let mut all = Self::table(said, "turbostat-", "CPU%c7", is_blank, |line| line.strip_suffix(" sec"))?;
        all.extend(Self::table(
            said,
            "cpupower-",
            "PC6",
            |c| c == '|',
            |line| Some(line.split_once(" took ")?.1.split_once(" seconds")?.0),
        )?);
        Some(Self(all))
    }

    /// Of a tool's lines: percentages below the heads of a line with this `column`, of a time that another
    /// line has.
    fn table(
        said: &BTreeMap<String, String>,
        tool: &str,
        column: &str,
        separator: fn(char) -> bool,
        seconds: fn(&str) -> Option<&str>,
    ) -> Option<BTreeMap<String, f64>> {
        let lines: Vec<&String> =
            said.iter().filter(|(word, _)| word.starts_with(tool)).map(|(_, line)| line).collect();
        let cells = |line: &&String| -> Vec<String> {
            line.split(separator).map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
        };
        let rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
        let head = rows.iter().position(|row| row.iter().any(|cell| cell == column))?;
        let seconds: f64 = lines.iter().find_map(|line| seconds(line))?.parse().unwrap();
        let of = |percent: &String| percent.parse::<f64>().unwrap() / 100.0 * seconds;
        Some(rows[head].iter().cloned().zip(rows[head + 1].iter().map(of)).collect())
    }

    /// The C-state of these columns took as long as the record has it, and no other column has any time.
    fn agree(&self, columns: &[&str], held: f64, late: f64) {
        for (name, seconds) in &self.0 {
            let expected = if columns.contains(&name.as_str()) { held } else { 0.0 };
            let off = (seconds - expected).abs();
            assert!(off < 0.02 * held + late, "{name}: {seconds} s of {expected}; {:?}", self.0);
        }
    }
}

#[test]
fn idle_states_are_entered_as_the_kernel_says_and_none_that_takes_longer_to_leave_than_is_allowed() {
    if !testing::is_measured_in_turn(5) {
        return;
    }
    in_guests(|place, kernel| {
        // At the highest frequency the handlers are short.
        let levels = [
            ("free", "governor = \"performance\""),
            ("soon", "governor = \"performance\", cpu_dma_latency = \"150us\""),
            ("at once", "governor = \"performance\", cpu_dma_latency = \"20us\""),
        ];
        let machine = Machine { vcpus: 1, script: WAITS, repeats: 1 };
        let Some(seen) = run(&machine, place, kernel, "i7-6700k-hwp", &levels) else { return };
        for (name, (seen, _)) in &seen {
            seen.is("driver", "acpi_idle");
            let grown =
                |word: &str| seen.number(&format!("{word}-after")) - seen.number(&format!("{word}-before"));
            let cpu = &seen.pacing.vcpus[0];
            // The kernel numbers states, and the table has their names.
            let counted = ["C1", "C2", "C3", "C4"].map(|state| grown(state) / 1e6);
            let held: Vec<f64> = cpu.idle.iter().map(|state| state.time.secs()).collect();
            // What the program did before its first reading and after its last is the record's alone.
            let outside = seen.pacing.span.secs() - grown("at") / 1e6;
            println!(
                "{kernel} {name}: the kernel counts {counted:?} s, the record has {held:?} s, {outside:.2} s more in all"
            );
            let (inside, all) = (counted.iter().sum::<f64>(), held.iter().sum::<f64>());
            // Where the host is busy the handlers that the kernel counts as idle time take longer.
            let late = cpu.late.secs();
            assert!(all > 0.98 * inside - late && all < 1.02 * inside + outside, "{inside} and {all} s");
            let share = |state: usize| (counted[state] / inside, held[state] / all);
            // A core's C8 is counted as its C7, and turbostat alone has the package's.
            let (state, idle_watts, columns): (_, _, &[&str]) = match name.as_str() {
                "free" => (3, 0.1, &["CPU%c7", "Pkg%pc8"]),
                "soon" => (2, 0.2, &["CPU%c6", "Pkg%pc6", "C6", "PC6"]),
                _ => (0, 1.0, &["CPU%c1"]),
            };
            let (by_kernel, by_record) = share(state);
            assert!(by_kernel > 0.95 && by_record > 0.95, "{name}: {by_kernel} and {by_record}");
            match Residencies::of(&seen.said) {
                Some(tools) => {
                    println!("{kernel} {name}: turbostat and cpupower have, in seconds, {:?}", tools.0);
                    tools.agree(columns, held[state], late);
                }
                None => testing::skip_in_part("turbostat or cpupower is missing in the guest".to_owned()),
            }
            let joules = grown("energy") / 1e6;
            let least = 0.98 * idle_watts * inside;
            // The rest of the time at 17 W at most, and so the handlers.
            let most = idle_watts * inside + 17.0 * (grown("at") / 1e6 - 0.98 * inside + late);
            assert!(joules > least - idle_watts * late && joules < most, "{joules} J of {least} to {most}");
        }
    });
}

/// What the second CPU is at while it works alone, limited to 2 GHz and not, and while the first one works at
/// its highest. The kernel tells the frequency of the last tick alone, and within that the first CPU may have
/// had work of its own, which the second's limit does not slow: the median of five readings is without.
const BESIDE: &str = r#"c=/sys/devices/system/cpu; p=$c/cpufreq/policy1; show() { read -r v < $2; echo $1 $v; }; \
    work() { local t=${EPOCHREALTIME/./}; readings $p/scaling_cur_freq 300; \
    echo $1-micros $(( ${EPOCHREALTIME/./} - t )); median $1-khz; }; \
    taskset -pc 1 $$ > /dev/null; sleep 1; work solo; echo 2000000 > $p/scaling_max_freq; sleep 1; work limited; \
    taskset -c 0 sh -c "while :; do :; done" & b=$!; sleep 1; work beside; kill $b; echo 4200000 > $p/scaling_max_freq"#;

#[test]
fn cores_that_share_a_frequency_get_the_highest_that_a_busy_one_asks_for_and_turbo_falls() {
    if !testing::is_measured_in_turn(4) {
        return;
    }
    in_guests(|place, kernel| {
        let table = slower(place, "i7-6700k-hwp");
        let levels =
            [("turbo", "governor = \"performance\""), ("base", "governor = \"performance\", turbo = 0")];
        let machine = Machine { vcpus: 2, script: BESIDE, repeats: 1 };
        let Some(seen) = run(&machine, place, kernel, &table, &levels) else { return };
        for (level, solo) in [("turbo", 4.2e6), ("base", 4e6)] {
            let (seen, _) = &seen[level];
            println!("{kernel} {level}: {:?}", seen.said);
            // The first CPU has work of its own now and then, during which there is no turbo.
            for (when, khz, least) in [("solo", solo, 0.94), ("beside", 4e6, 0.98)] {
                let share = seen.number(&format!("{when}-khz")) / khz;
                assert!(share > least && share < 1.02, "{level}, {when}: {:?}", seen.said);
            }
            let has_turbo =
                seen.pacing.vcpus[1].states.iter().any(|state| state.frequency == Hertz::from_mhz(4200));
            assert_eq!(has_turbo, level == "turbo", "{:?}", seen.pacing.vcpus[1].states);
            // And nothing limits that work.
            let limited = seen.number("limited-khz");
            assert!(limited > 1.96e6 && limited < 3e6, "{level}: {:?}", seen.said);
            let ratio = seen.number("limited-micros") / seen.number("beside-micros");
            assert!(ratio > 1.6 && ratio < 2.5, "{ratio}: {:?}", seen.said);
        }
    });
}

/// A shipped table at half its pace, for guests of two CPUs.
fn slower(place: &Place, name: &str) -> String {
    let (_, shipped) = lab::pstates::shipped().find(|(shipped, _)| *shipped == name).unwrap();
    let path = place.path("slower.toml");
    assert!(shipped.contains("pace = 20e6"));
    std::fs::write(&path, shipped.replace("pace = 20e6", "pace = 10e6")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Writes garbage to each register that the lab answers, switches the driver, takes turbo away and back, and
/// takes the second CPU out and in.
const HOSTILE: &str = r#"c=/sys/devices/system/cpu; modprobe msr; \
    for cpu in 0 1; do for r in 0xce 0xe7 0xe8 0x198 0x199 0x1a0 0x1ad 0x1b0 0x606 0x611 0x770 0x771 0x773 0x774 0x777 0xc0010015 0xc00102b1 0xc00102b3; do \
    for b in \\xff \\x00 \\xa5; do printf "$b$b$b$b$b$b$b$b" | dd of=/dev/cpu/$cpu/msr bs=8 seek=$((r)) oflag=seek_bytes conv=notrunc status=none; done; done; done; \
    for mode in passive active passive active; do echo $mode > $c/intel_pstate/status; done; \
    echo status $(cat $c/intel_pstate/status); echo driver $(cat $c/cpu0/cpufreq/scaling_driver); \
    echo 1 > $c/intel_pstate/no_turbo; echo 0 > $c/intel_pstate/no_turbo; \
    for k in 1 2 3; do echo 0 > $c/cpu1/online; sleep 0.1; echo 1 > $c/cpu1/online; sleep 0.1; done; echo online $(cat $c/online); \
    echo warnings $(dmesg | grep -cE "WARNING|BUG|Oops|leaked IRQ state|unchecked MSR")"#;

#[test]
fn a_guest_that_writes_garbage_to_registers_and_takes_cpus_out_goes_on() {
    if !testing::is_measured_in_turn(5) {
        return;
    }
    in_guests(|place, kernel| {
        let table = slower(place, "i7-6700k-hwp");
        let levels = [("a", "governor = \"powersave\""), ("b", "governor = \"performance\"")];
        let study = study(&Machine { vcpus: 2, ..ONE_CPU }, &table, &levels);
        let file = place.study("hostile", &study);
        let output =
            place.output(&["lab", "exec", "--kernel", kernel, "--study", &file, "--", "bash", "-c", HOSTILE]);
        let (told, complaint) = (String::from_utf8_lossy(&output.stdout), support::stderr(&output));
        if TOO_BUSY.iter().any(|reason| complaint.contains(reason)) {
            return println!("skipped: {}", complaint.trim());
        }
        assert_eq!(told, "status active\ndriver intel_pstate\nonline 0-1\nwarnings 0\n", "{complaint}");
    });
}

/// Debian's own turbostat on a CPU that works all the time, under two limits.
const TURBOSTAT: &str = r#"modprobe msr; p=/sys/devices/system/cpu/cpufreq/policy0; while :; do :; done & \
    for most in 4200000 2000000; do echo performance > $p/scaling_governor; echo $most > $p/scaling_max_freq; \
    turbostat --quiet --show Busy%,Bzy_MHz,TSC_MHz,PkgWatt --interval 2 --num_iterations 1 | tail -n 1; done; kill $!"#;

#[test]
fn turbostat_reads_the_frequency_and_the_watts_of_the_table() {
    if !testing::is_measured_in_turn(4) {
        return;
    }
    if !std::path::Path::new("/usr/sbin/turbostat").exists() {
        return println!("skipped: needs turbostat (Debian's linux-cpupower)");
    }
    in_guests(|place, kernel| {
        let exec =
            ["lab", "exec", "--kernel", kernel, "--pstates", "i7-6700k-hwp", "--", "bash", "-c", TURBOSTAT];
        let output = place.output(&exec);
        let (told, complaint) = (String::from_utf8_lossy(&output.stdout), support::stderr(&output));
        if TOO_BUSY.iter().any(|reason| complaint.contains(reason)) {
            return println!("skipped: {}", complaint.trim());
        }
        let rows: Vec<Vec<f64>> =
            told.lines().map(|line| line.split_whitespace().map(|n| n.parse().unwrap()).collect()).collect();
        println!("{kernel}: busy %, MHz while busy, TSC's MHz, watts: {rows:?}");
        // Of 2 GHz the table has 5.5 W, of 4.2 GHz 17 W.
        for (row, expected) in rows.iter().zip([[100.0, 4200.0, 4000.0, 17.0], [100.0, 2000.0, 4000.0, 5.5]])
        {
            for (read, expected) in row.iter().zip(expected) {
                assert!((read / expected - 1.0).abs() < 0.02, "{row:?}: {complaint}");
            }
        }
        assert_eq!(rows.len(), 2, "{told}{complaint}");
    });
}

/// Debian's own perf stat in the same way. Its first start reads much from the disk.
const PERF_STAT: &str = r#"modprobe msr; modprobe rapl; p=/sys/devices/system/cpu/cpufreq/policy0; while :; do :; done & \
    e=power/energy-pkg/,msr/aperf/,msr/mperf/,msr/tsc/; perf stat -a -e $e true 2> /dev/null; \
    for most in 4200000 2000000; do echo performance > $p/scaling_governor; echo $most > $p/scaling_max_freq; \
    perf stat -a -x, -e $e sleep 2 2>&1; done; kill $!"#;

#[test]
fn perf_stat_counts_the_energy_and_the_cycles_of_the_table() {
    if !testing::is_measured_in_turn(4) {
        return;
    }
    if let Some(reason) = without(&["perf"]) {
        return println!("skipped: {reason}");
    }
    in_guests(|place, kernel| {
        let table = slow_table(place, "i7-6700k-hwp");
        let exec = ["lab", "exec", "--kernel", kernel, "--pstates", &table, "--", "bash", "-c", PERF_STAT];
        let output = place.output(&exec);
        let (told, complaint) = (String::from_utf8_lossy(&output.stdout), support::stderr(&output));
        if TOO_BUSY.iter().any(|reason| complaint.contains(reason)) {
            return println!("skipped: {}", complaint.trim());
        }
        // Each counter has a time of its own, in ns: of joules these are watts, of cycles GHz.
        let rate = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            let number =
                |at: usize| fields[at].parse::<f64>().unwrap_or_else(|_| panic!("{line}: {complaint}"));
            let per = if fields[1] == "Joules" { 1e9 } else { 1.0 };
            per * number(0) / number(3)
        };
        let rates: Vec<f64> = told.lines().map(rate).collect();
        println!("{kernel}: watts, and GHz of APERF, MPERF and TSC: {rates:?}");
        // Of 2 GHz the table has 5.5 W, of 4.2 GHz 17 W.
        let expected = [17.0, 4.2, 4.0, 4.0, 5.5, 2.0, 4.0, 4.0];
        assert_eq!(rates.len(), expected.len(), "{told}{complaint}");
        for (read, expected) in rates.iter().zip(expected) {
            assert!((read / expected - 1.0).abs() < 0.02, "{rates:?}");
        }
    });
}

/// Debian's own powertop in the same way. It writes the lowest frequency into the limit and back for a
/// moment, which a lower limit of the same height keeps from any effect.
const POWERTOP: &str = r#"modprobe msr; p=/sys/devices/system/cpu/cpufreq/policy0; while :; do :; done & \
    echo performance > $p/scaling_governor; \
    for most in 3600000 2000000; do echo 800000 > $p/scaling_min_freq; echo $most > $p/scaling_max_freq; echo $most > $p/scaling_min_freq; \
    powertop --csv=/run/powertop.csv --time=3 > /dev/null 2>&1; grep ^Average /run/powertop.csv; done; kill $!"#;

#[test]
fn powertop_reads_the_frequency_of_the_table() {
    if !testing::is_measured_in_turn(4) {
        return;
    }
    if let Some(reason) = without(&["powertop"]) {
        return println!("skipped: {reason}");
    }
    in_guests(|place, kernel| {
        let table = slow_table(place, "i7-6700t-hwp");
        let exec = ["lab", "exec", "--kernel", kernel, "--pstates", &table, "--", "bash", "-c", POWERTOP];
        let output = place.output(&exec);
        let (told, complaint) = (String::from_utf8_lossy(&output.stdout), support::stderr(&output));
        if TOO_BUSY.iter().any(|reason| complaint.contains(reason)) {
            return println!("skipped: {}", complaint.trim());
        }
        println!("{kernel}: {told}");
        let read: Vec<&str> =
            told.lines().filter_map(|line| line.split_once(';')).map(|(_, at)| at.trim()).collect();
        assert_eq!(read, ["3.6 GHz", "2.0 GHz"], "{complaint}");
    });
}

#[test]
fn a_qemu_in_which_the_plugin_does_not_find_itself_is_ended_and_told() {
    in_guests(|place, kernel| {
        let refused = |line: &str, reason: &str| {
            let exec = ["lab", "exec", "--kernel", kernel, "--pstates", "i7-6700k-hwp", "--", "true"];
            let output =
                place.flyball(&exec).env("FLYBALL_QEMU", instead_of_qemu(place, line)).output().unwrap();
            let told = support::stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert!(told.contains(reason), "{told}");
        };
        // The vendor's name is not where it should be, as where the registers lie elsewhere.
        refused(
            r#"exec qemu-system-x86_64 "${@/vendor=GenuineIntel/vendor=AuthenticAMD}""#,
            "`CPUX86State` of this QEMU is laid out otherwise",
        );
        // One that takes plugins of version 7 alone; Debian 12's does not know it.
        refused(
            r#"[[ $1 = --version ]] && exec echo QEMU emulator version 11.1.0; exec qemu-system-x86_64 "$@""#,
            "requires API version 7",
        );
    });
}
