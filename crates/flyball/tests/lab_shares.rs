//! What CPU time was spent in, by sampled call stacks, held against what the virtual CPU executed: the QEMU
//! plugin counts the kernel's instructions by block (`crates/pstate-plugin/src/blocks.rs`), the guest's
//! `/proc/kallsyms` says of which function a block is, and a CPU at one P-state takes the same time for each
//! instruction. Compared is what ran: the innermost function of each call stack, by its module. What handlers
//! of devices execute has no call stack; where they are recorded, it is compared as a part of the core
//! kernel.
//!
//! Where QEMU, a kernel or the plugin is missing, or the host stayed too busy to pace in time, a line
//! `skipped:` says so.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use crate::support;
use crate::support::Place;
use crate::support::lab::{TOO_BUSY, kernels, missing, without, without_plugin};
use domain::profile::{Profile, Subsystem};
use events::{Facts, HEADER, Kind, MAGIC, Tables, header};
use std::collections::BTreeMap;
use std::io::Cursor;

/// By how many percentage points a share may differ.
const POINTS: f64 = 5.0;

/// By how many percent of its time the CPU may be late.
const MOST_LATE: f64 = 5.0;

/// A host is quiet where at least so much of the time is to be had that is wanted. On another one the CPU
/// catches up more often than it waits, and samples are of where it waits: ciphers were off by 15.5 points
/// beside three builds of a lower priority, though the CPU was not late.
const QUIET: f64 = 0.95;

/// The same on disks whose completions are handled in interrupts: 3.6 and 5.7 were seen of user space, 7
/// and 12 where nothing was moved. What an interrupt takes beside its handler is in no event.
const POINTS_OF_DISKS: f64 = 8.0;

/// Instructions a second, as `laptop-5` has them at its highest P-state; and the least share of them that has
/// to be executed: the loads keep the CPU busy, for what the idle task executes is counted and not sampled.
const PACE: f64 = 20e6;
const LEAST_OF_PACE: f64 = 0.9;

/// How many times slower than the host's the guest's clock is, so that the tick takes what it takes a
/// machine of 200 million instructions a second. With the host's clock ciphers were 5.9 to 10.5 points off,
/// for they are most of what the tick interrupts. And with a slowed one the plugin looks each 64
/// instructions whether the CPU has to wait and not each 500 (`check_every`): blocks of AES are longer than
/// those, and short pieces of code between them were seldom where it waited.
const SLOW: f64 = 10.0;

/// How long each load is recorded, by the guest's clock; the lead is longer, for until a CPU is paced the
/// clock is the host's, and the recorder has taken 2.4 s to begin on a host with other load.
const TIMES: &str = "lead=3.5 span=2.8 all=7.3 interval=20ms\n";

/// The machine of a study is one way to a clock that is slower.
const STUDY: &str = r#"
flyball = 1
name = "shares"
question = "What is CPU time spent in?"
[workload.load]
tool = "command"
argv = ["true"]
[factor.governor]
setting = "governor"
levels = ["performance", "powersave"]
[measure]
metric = "elapsed"
[lab]
pstates = "laptop-5"
"#;

/// What each script begins with: disks of memory that keep nothing and answer at once, and `measure NAME
/// MARK SETS`, which records while `$load` runs. Between two marks the plugin's counts are taken; the
/// recording begins before and ends after them.
const BEGIN: &str = r#"
set -e
exec 3>&1 >&2
cd /run
export FLYBALL_NOTEBOOK=/run/notebook
echo performance > /sys/devices/system/cpu/cpufreq/policy0/scaling_governor
modprobe configfs
modprobe null_blk nr_devices=0
mount -t configfs none /sys/kernel/config || true # It may be there.
null() {
    null=/sys/kernel/config/nullb/$1
    mkdir $null
    echo 512 > $null/size
    echo 0 > $null/irqmode
    echo 1 > $null/power
    for wait in $(seq 100); do [ -b /dev/$1 ] && break; sleep 0.1; done
}
load() {
    fio --name=load --rw=randrw --direct=1 --ioengine=libaio --time_based --runtime=100000 --size=400m "$@" > fio.out &
    load=$!
    sleep 2
}
mark() {
    read uptime idle < /proc/uptime
    printf "\\x$1" | dd of=/dev/port bs=1 seek=$FLYBALL_LAB_CONTROL_PORT conv=notrunc status=none
    echo "@@ mark $1 $uptime" >&3
}
measure() {
    rm -rf $FLYBALL_NOTEBOOK
    flyball record --events=$3 --interval $interval --for ${all}s &
    recording=$!
    sleep $lead
    mark $2
    sleep $span
    mark $(($2 + 1))
    kill -INT $load
    wait $load || cat fio.out
    wait $recording
    echo "@@ events $1" >&3
    od -An -v -tx1 $(find $FLYBALL_NOTEBOOK -name events.bin) >&3
}
"#;

/// And ends with: the functions of the kernel and of all modules that were used.
const END: &str = r#"
echo "@@ functions" >&3
grep -i ' [tw] ' /proc/kallsyms >&3
echo "@@ end" >&3
"#;

/// Two copies of each write, whose work is in the thread that submits; in pieces of one page, so that much of
/// the work is md's. Then small encrypted requests.
const ON_MEMORY: &str = r#"
for disk in a b c d e; do null $disk; done
mdadm --build /dev/md/array --level=10 --layout=n2 --chunk=4K --raid-devices=4 --assume-clean /dev/a /dev/b /dev/c /dev/d
load --bs=64k --iodepth=8 --filename=/dev/md/array
measure raid10 2 profile
modprobe dm_crypt
printf 32-bytes-of-a-key-of-no-secrecy. | cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 \
    --key-file - /dev/e vault
load --bs=4k --iodepth=4 --filename=/dev/mapper/vault
measure crypt 4 profile
"#;

/// The array on disks whose completions are handled with interrupts off: where each CPU has a queue of the
/// device, as NVMe's have, its interrupt does that.
const ON_DISKS: &str = r#"
mdadm --build /dev/md/array --level=10 --layout=n2 --chunk=64K --raid-devices=4 --assume-clean /dev/sd[a-d]
load --bs=64k --iodepth=16 --filename=/dev/md/array
measure disks 2 profile,irq
"#;

const DISKS: [&str; 8] =
    ["--disk", "nvme:512MiB", "--disk", "nvme:512MiB", "--disk", "nvme:512MiB", "--disk", "nvme:512MiB"];

/// Instructions, or samples, by what ran: programs, modules by what they belong to, and the rest of the
/// kernel.
type Counts = BTreeMap<String, u64>;

const USER: &str = "user space";
const CORE: &str = "core kernel";

/// XTS, a module, and AES in C and what calls it, which are built in.
const CIPHERS: &str = "ciphers";

/// What a guest said, and what the plugin counted in it.
struct Measured {
    text: String,
    blocks: String,
    /// What of the time that it wanted a thread of the host's had meanwhile.
    had: f64,
}

impl Measured {
    /// Fails for shares that are off; says so of a host that was not quiet.
    fn judge(&self, off: &[String]) {
        if !off.is_empty() && self.had < QUIET {
            let had = 100.0 * self.had;
            return testing::skip(format!(
                "not measured, for the host was too busy: a thread had {had:.0}% of the time that it wanted; {}",
                off.join("; ")
            ));
        }
        assert!(off.is_empty(), "{off:?}");
    }
}

/// Runs a script; `None` where the host cannot, or is too busy, which is told.
fn measured(options: &[&str], script: &str) -> Option<Measured> {
    let place = Place::new();
    let kernel = kernels()[0];
    let reason = without_plugin().or_else(|| without(&["fio", "mdadm", "cryptsetup"]));
    if let Some(reason) = reason.or_else(|| missing(&place, kernel)) {
        testing::skip(reason);
        return None;
    }
    let file = place.path("blocks");
    let study = place.study("shares", &format!("{STUDY}dilation = {SLOW}\n"));
    let machine = ["lab", "exec", "--kernel", kernel, "--study", &study, "--memory", "1GiB"];
    let script = [TIMES, BEGIN, script, END].concat();
    let arguments = [&machine[..], options, &["--", "bash", "-c", &script]].concat();
    let crowd = testing::Crowd::watch();
    let output = place.flyball(&arguments).env("FLYBALL_PLUGIN_BLOCKS", &file).output();
    let had = crowd.share();
    let (output, load) = (output.unwrap(), std::fs::read_to_string("/proc/loadavg").unwrap_or_default());
    let told = support::stderr(&output);
    if TOO_BUSY.iter().any(|reason| told.contains(reason)) {
        testing::skip(told.trim());
        return None;
    }
    assert!(output.status.success(), "{told}");
    let late = late(&told);
    println!(
        "kernel {kernel}; the CPU was late for {late:.1}% of its time (0.0: for less than 2%); the host's load {}, a thread had {:.0}% of the time that it wanted",
        load.trim(),
        100.0 * had
    );
    if late > MOST_LATE {
        testing::skip(format!("not measured, for the host was too busy: {late:.1}% late"));
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(Measured { text, blocks: std::fs::read_to_string(file).unwrap(), had })
}

/// The share, in percent, that the warning names: `… behind its pace in 43.3 s (2.1%; the bound is 2%)`.
fn late(told: &str) -> f64 {
    let share = |line: &str| line.split_once('(')?.1.split_once('%')?.0.parse().ok();
    let line = told.lines().find(|line| line.contains("behind its pace"));
    line.map_or(0.0, |line| share(line).unwrap_or_else(|| panic!("{line}")))
}

/// What was said behind a mark, up to the next.
fn part<'a>(text: &'a str, mark: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("@@ {mark}")).unwrap_or_else(|| panic!("no `{mark}`"));
    rest.split_once("@@ ").map_or(rest, |(part, _)| part)
}

/// The functions of the kernel by where they begin: `name`, or `name [module]`.
fn functions(text: &str) -> BTreeMap<u64, String> {
    let named = |function: parse::kernel::kallsyms::Function<'_>| match function.module {
        Some(module) => (function.address, format!("{} [{module}]", function.name)),
        None => (function.address, function.name.to_owned()),
    };
    let functions: BTreeMap<u64, String> =
        part(text, "functions").lines().filter_map(parse::kernel::kallsyms::function).map(named).collect();
    assert!(functions.len() > 10_000, "{} functions", functions.len());
    functions
}

/// What a function belongs to.
fn owner(function: &str) -> &str {
    let (name, module) = function.split_once(" [").unwrap_or((function, ""));
    let is_cipher = || ["crypto_", "aes_", "skcipher_"].iter().any(|start| name.starts_with(start));
    match module.trim_end_matches(']') {
        "md_mod" | "raid10" => "md",
        "xts" => CIPHERS,
        "" if is_cipher() => CIPHERS,
        "" => CORE,
        module => module,
    }
}

/// When a mark was made, by the host's clock, and what the CPU had executed since its machine's start.
fn counted(blocks: &str, value: u8, functions: &BTreeMap<u64, String>) -> (u64, Counts) {
    // The last one: before, the speed of the host was measured with another machine.
    let marks = blocks.rsplit("mark ns=");
    let mark = marks.filter_map(|mark| mark.split_once(&format!(" value={value}\n"))).next();
    let (ns, lines) = mark.unwrap_or_else(|| panic!("no mark {value}"));
    let mut counts = Counts::new();
    for line in lines.lines().take_while(|line| *line != "end") {
        let (words, instructions) = line.rsplit_once(" instructions=").unwrap();
        let owner = match words.split_once(" address=") {
            None if words.starts_with("user") => USER,
            None => "no room",
            Some((_, address)) => {
                let address = u64::from_str_radix(address, 16).unwrap();
                functions.range(..=address).next_back().map_or(CORE, |(_, name)| owner(name))
            }
        };
        *counts.entry(owner.to_owned()).or_default() += instructions.parse::<u64>().unwrap();
    }
    (ns.parse().unwrap(), counts)
}

/// The guest's monotonic clock at a mark: nothing suspends it, so that it is `/proc/uptime`.
fn clock_ns(text: &str, mark: u8) -> u64 {
    let secs: f64 = part(text, &format!("mark {mark} ")).trim().parse().unwrap();
    (secs * 1e9) as u64
}

/// The recording of a load, as `od` prints it.
fn events(text: &str, name: &str) -> Vec<u8> {
    let bytes = part(text, &format!("events {name}\n")).split_ascii_whitespace();
    bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Of perf's records, a sample, and where its time stands (perf_event_open(2)): behind the header of a
/// tracepoint's, and behind the thread's numbers in a call stack.
const SAMPLE: u32 = 9;
const TIME_AT: [(Kind, usize); 2] = [(Kind::Data, 8), (Kind::Profile, 16)];

/// The same recording with the events and call stacks of a span of time alone, and without the names of
/// functions.
fn within(events: &[u8], from_ns: u64, to_ns: u64) -> Vec<u8> {
    let mut kept = MAGIC.to_vec();
    // A frame may end within a record.
    let mut rings: BTreeMap<(u8, u16), Vec<u8>> = BTreeMap::new();
    let mut rest = &events[MAGIC.len()..];
    while let Some((head, behind)) = rest.split_at_checked(HEADER) {
        let (body, behind) = behind.split_at(u32::from_le_bytes(head[4..].try_into().unwrap()) as usize);
        rest = behind;
        if TIME_AT.iter().any(|(kind, _)| *kind as u8 == head[0]) {
            let cpu = u16::from_le_bytes(head[2..4].try_into().unwrap());
            rings.entry((head[0], cpu)).or_default().extend(body);
        } else if head[0] != Kind::Symbol as u8 {
            kept.extend([head, body].concat());
        }
    }
    for ((kind, cpu), ring) in rings {
        let (kind, at) = TIME_AT.into_iter().find(|(other, _)| *other as u8 == kind).unwrap();
        let mut records: Vec<u8> = Vec::new();
        let mut rest = ring.as_slice();
        while !rest.is_empty() {
            let (record, behind) = rest.split_at(u16::from_ne_bytes(rest[6..8].try_into().unwrap()).into());
            rest = behind;
            let is_sample = record[..4] == SAMPLE.to_ne_bytes();
            let time = || u64::from_ne_bytes(record[at..at + 8].try_into().unwrap());
            if !is_sample || (from_ns..to_ns).contains(&time()) {
                records.extend(record);
            }
        }
        kept.extend(header(kind, cpu, records.len()));
        kept.extend(records);
    }
    kept
}

fn facts(events: &[u8], names: BTreeMap<u64, String>) -> Facts {
    Facts::read_naming(|| Ok(Cursor::new(events)), |_| names).unwrap()
}

/// What ran when call stacks were sampled: the profile's own functions, each by the name of what it belongs
/// to.
fn sampled(events: &[u8], functions: &BTreeMap<u64, String>) -> Counts {
    let owners = functions.iter().map(|(address, name)| (*address, owner(name).to_owned()));
    let profile = facts(events, owners.collect()).profile.unwrap();
    assert_eq!(profile.lost, 0);
    let mut counts = profile.functions.clone();
    counts.insert(USER.to_owned(), profile.count(|_, part| part == Subsystem::User));
    if let Some(interrupts) = &profile.interrupts {
        *counts.entry(CORE.to_owned()).or_default() += interrupts.all_held_off() + interrupts.unsampled;
    }
    let unnamed = profile.all() - counts.values().sum::<u64>();
    assert!(unnamed * 100 <= profile.all(), "{unnamed} of {} samples are in no function", profile.all());
    counts
}

/// Shares in percent.
fn shares(counts: &Counts) -> BTreeMap<String, f64> {
    let all = counts.values().sum::<u64>().max(1) as f64;
    counts.iter().map(|(name, count)| (name.clone(), *count as f64 * 100.0 / all)).collect()
}

/// What was executed, and what samples say of it.
struct Compared {
    /// In percent: of instructions, and of samples.
    shares: BTreeMap<String, (f64, f64)>,
    /// Of the instructions that the CPU could have executed, the share that it has.
    of_pace: f64,
    /// The share of the time, in percent, in which it handled interrupts of devices, where that was recorded.
    in_interrupts: f64,
}

impl Compared {
    fn of(measured: &Measured, name: &str, mark: u8) -> Self {
        let Measured { text, blocks, .. } = measured;
        let functions = functions(text);
        let (from, to) = (clock_ns(text, mark), clock_ns(text, mark + 1));
        let recorded = events(text, name);
        let tables = Tables::read(Cursor::new(&recorded)).unwrap();
        let (begin, end) = (tables.begin.unwrap().get(), tables.end.unwrap().get());
        assert!(
            begin < from && to < end,
            "{name}: recorded from {begin} to {end}, counted from {from} to {to}"
        );
        let (recorded, span) = (within(&recorded, from, to), to - from);
        let samples = sampled(&recorded, &functions);

        let ((from, before), (to, after)) =
            (counted(blocks, mark, &functions), counted(blocks, mark + 1, &functions));
        let since =
            |(name, count): (&String, &u64)| (name.clone(), count - before.get(name).copied().unwrap_or(0));
        let executed: Counts = after.iter().map(since).collect();
        assert_eq!(executed["no room"], 0);
        let of_pace = executed.values().sum::<u64>() as f64 / (PACE * SLOW * (to - from) as f64 / 1e9);

        let (told, truth) = (shares(&samples), shares(&executed));
        let names = truth.keys().chain(told.keys());
        let share = |shares: &BTreeMap<String, f64>, name: &String| shares.get(name).copied().unwrap_or(0.0);
        let shares = names.map(|name| (name.clone(), (share(&truth, name), share(&told, name)))).collect();
        let facts = facts(&recorded, functions);
        let handled = facts.cpus.values().flat_map(|cpu| cpu.irqs.values()).map(|(_, ns)| *ns).sum::<u64>();
        let in_interrupts = handled as f64 * 100.0 / span as f64;
        let compared = Self { shares, of_pace, in_interrupts };
        println!(
            "{name}: {} samples; {:.1}% of the pace was executed, {in_interrupts:.1}% of the time was in interrupts",
            samples.values().sum::<u64>(),
            100.0 * of_pace,
        );
        compared.print(&facts.profile.unwrap());
        compared
    }

    /// With the profile as it is shown: helpers count to who called them.
    fn print(&self, shown: &Profile) {
        println!("  {:<16} {:>12} {:>8} {:>10}", "what ran", "instructions", "samples", "difference");
        for (name, (truth, told)) in self.shares.iter().filter(|(_, (truth, told))| truth.max(*told) >= 0.1) {
            println!("  {name:<16} {truth:>11.2}% {told:>7.2}% {:>+10.2}", told - truth);
        }
        let percent = |count: u64| count as f64 * 100.0 / shown.all().max(1) as f64;
        if let Some(interrupts) = &shown.interrupts {
            let of = |(part, count): (&Subsystem, &u64)| format!("{part} {:.2}%", percent(*count));
            let held_off: Vec<String> = interrupts.held_off.iter().map(of).collect();
            let unsampled = percent(interrupts.unsampled);
            println!("  held off by interrupts: {}; without a sample {unsampled:.2}%", held_off.join(", "));
        }
        println!("  {:<16} {:>12} {:>8}", "as it is shown", "inclusive", "self");
        for (part, inclusive) in &shown.inclusive {
            let own = shown.count(|_, other| other == *part);
            println!("  {:<16} {:>11.2}% {:>7.2}%", part.name(), percent(*inclusive), percent(own));
        }
    }

    /// Those that are off by more than so many points.
    fn off(&self, points: f64) -> Vec<String> {
        let off = self.shares.iter().filter(|(_, (truth, told))| (told - truth).abs() > points);
        off.map(|(name, (truth, told))| format!("{name}: {truth:.2}% executed, {told:.2}% sampled")).collect()
    }

    /// A share that is there to be seen: more percent than that were executed, and it is not told by half or
    /// by twice as much.
    fn is_seen(&self, name: &str, least: f64) {
        let (truth, told) = self.shares[name];
        assert!(truth > least, "{name}: {truth:.2}% executed");
        assert!((0.5..2.0).contains(&(told / truth)), "{name}: {truth:.2}% executed, {told:.2}% sampled");
    }

    /// The load left nothing to the idle task, whose instructions are counted and not sampled; and all was
    /// counted.
    fn is_kept_busy(&self) {
        let of_pace = self.of_pace;
        assert!(
            (LEAST_OF_PACE..1.05).contains(&of_pace),
            "{of_pace} of the instructions of the pace were counted"
        );
    }
}

#[test]
fn shares_of_md_and_of_dm_crypt_are_those_of_the_instructions_executed() {
    if !testing::is_measured_in_turn(1) {
        return;
    }
    let Some(measured) = measured(&[], ON_MEMORY) else { return };
    let array = Compared::of(&measured, "raid10", 2);
    array.is_kept_busy();
    array.is_seen("md", 5.0);
    measured.judge(&array.off(POINTS));
    let vault = Compared::of(&measured, "crypt", 4);
    vault.is_kept_busy();
    vault.is_seen(CIPHERS, 30.0);
    measured.judge(&vault.off(POINTS));
}

#[test]
fn what_interrupts_execute_is_not_counted_to_what_they_interrupt() {
    if !testing::is_measured_in_turn(2) {
        return;
    }
    let Some(measured) = measured(&DISKS, ON_DISKS) else { return };
    let compared = Compared::of(&measured, "disks", 2);
    let interrupts = compared.in_interrupts;
    assert!(interrupts > POINTS, "interrupts took {interrupts:.1}% of the time");
    measured.judge(&compared.off(POINTS_OF_DISKS));
}
