//! The text of `perf script`, with the fields that it prints of tracepoints by default:
//!
//! ```text
//!     dd 14211 [001] 76739.423327:    block:block_rq_issue: 254,0 RS 65536 () 350642176 + 128 [dd]
//!     comm tid [cpu] seconds: event: what the tracepoint's own format prints
//! ```
//! Of a recording of one command there is no `[cpu]`. Of samples a period stands before the name, and the
//! call stack follows, the function that ran first, or that function alone behind the name (`process_event`
//! of the kernel's `tools/perf/builtin-script.c`):
//!
//! ```text
//!     dd  8859 26762.822236:     250000 cpu-clock:
//!             ffffffff8158a361 generic_perform_write+0xa1 ([kernel.kallsyms])
//!             address symbol+offset (file or [module])
//! ```

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'t> {
    /// The thread's name.
    pub comm: &'t str,
    /// Its process, where that is printed.
    pub pid: Option<u32>,
    /// The thread that ran; `None` where perf did not know it any more (-1).
    pub tid: Option<u32>,
    /// The CPU; of a recording of one command none is printed.
    pub cpu: Option<u32>,
    /// Since whatever perf's clock counts from.
    pub time_ns: u64,
    /// How much a sample stands for: nanoseconds of a clock, or what the event counts.
    pub period: Option<u64>,
    /// `group:name`, or what perf calls a record of its own.
    pub event: &'t str,
    /// All that follows.
    pub fields: &'t str,
}

/// A function on a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'t> {
    /// Where it was, as perf prints it: of the kernel the address in memory.
    pub address: u64,
    /// Its name; `None` where perf knows none.
    pub name: Option<&'t str>,
    /// The kernel's module that it is in.
    pub module: Option<&'t str>,
    /// Whether it is the kernel's.
    pub is_kernel: bool,
}

/// The events that count CPU time, or CPU cycles: their samples tell what it was spent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// `cpu-clock`: a timer of each CPU.
    Cpu,
    /// `task-clock`: one of each thread.
    Task,
    /// `cycles`.
    Cycles,
}

impl Clock {
    /// By perf's name of an event, with whatever modifiers: `cpu-clock:pppH`, `cycles:P`,
    /// `cpu_core/cycles/P`.
    pub fn of(event: &str) -> Option<Self> {
        let plain = match event.split_once('/') {
            Some((_, rest)) => rest.split(['/', ',']).next().unwrap_or_default(),
            None => event.split(':').next().unwrap_or_default(),
        };
        match plain {
            "cpu-clock" => Some(Self::Cpu),
            "task-clock" => Some(Self::Task),
            "cycles" | "cpu-cycles" | "cpu_cycles" => Some(Self::Cycles),
            _ => None,
        }
    }

    /// Whether it counts nanoseconds.
    pub const fn counts_time(self) -> bool {
        matches!(self, Self::Cpu | Self::Task)
    }
}

/// How many lines are looked at to know the text.
const LOOKED_AT: usize = 50;

/// Whether a text begins so.
pub fn is_perf_script(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let is_event = |line: Line<'_>| match line.cpu {
        Some(_) if line.event.contains(':') => true,
        _ => line.period.is_some() && Clock::of(line.event).is_some(),
    };
    lines.take(LOOKED_AT).filter_map(line).any(is_event)
}

/// Reads a line; `None` of what is no event.
pub fn line(text: &str) -> Option<Line<'_>> {
    on_a_cpu(text).or_else(|| of_one_command(text))
}

fn on_a_cpu(text: &str) -> Option<Line<'_>> {
    // A thread's name may hold anything: the first place where all that follows fits is the end of it.
    text.match_indices(" [").find_map(|(at, _)| {
        let (comm, pid, tid) = thread(&text[..at])?;
        let (cpu, rest) = text[at + 2..].split_once(']')?;
        let is_number = !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit());
        let cpu = cpu.parse().ok().filter(|_| is_number)?;
        let (time, rest) = rest.trim_start().split_once(':')?;
        let time_ns = nanoseconds(time)?;
        let (period, event, fields) = event(rest.trim())?;
        Some(Line { comm, pid, tid, cpu: Some(cpu), time_ns, period, event, fields })
    })
}

/// Without the CPU, samples alone are read.
fn of_one_command(text: &str) -> Option<Line<'_>> {
    text.match_indices(": ").find_map(|(at, _)| {
        let (before, time) = text[..at].rsplit_once(' ')?;
        let time_ns = nanoseconds(time)?;
        let (comm, pid, tid) = thread(before)?;
        let (period, event, fields) = event(text[at + 1..].trim())?;
        let is_sample = period.is_some() && Clock::of(event).is_some();
        is_sample.then_some(Line { comm, pid, tid, cpu: None, time_ns, period, event, fields })
    })
}

/// The longest number of an address.
const DIGITS: usize = 16;

/// Reads a line of a call stack.
pub fn frame(text: &str) -> Option<Frame<'_>> {
    let text = text.trim();
    let (digits, rest) = text.split_once(' ')?;
    let is_address = digits.len() <= DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let address = u64::from_str_radix(digits, 16).ok().filter(|_| is_address)?;
    // Without a file where perf is told so, or where the line was cut.
    let (symbol, file) = match rest.rsplit_once(" (") {
        Some((symbol, file)) => (symbol, file.strip_suffix(')')?),
        None => (rest, ""),
    };
    // perf -F +symoff prints the offset; it does so by default.
    let name = symbol.rsplit_once("+0x").map_or(symbol, |(name, _)| name).trim();
    let name = Some(name).filter(|name| !name.is_empty() && *name != UNKNOWN);
    let module = module(file);
    Some(Frame { address, name, module, is_kernel: module.is_some() || is_kernels(address, file) })
}

const UNKNOWN: &str = "[unknown]";

/// What stands in brackets and is no module.
const NO_MODULES: [&str; 12] = [
    "unknown", "vdso", "vdso32", "vdsox32", "vsyscall", "heap", "stack", "anon", "uprobes", "vectors",
    "inlined", "sigpage",
];

/// The module of the kernel that a file is: `[raid10]`, or
/// `/lib/modules/6.12.0/kernel/drivers/md/raid10.ko.xz`.
pub fn module(file: &str) -> Option<&str> {
    let in_brackets = file.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    if let Some(name) = in_brackets {
        let is_module = !name.contains("kernel") && !NO_MODULES.contains(&name);
        return Some(name).filter(|name| is_module && !name.is_empty());
    }
    let (_, name) = file.rsplit_once('/')?;
    let (name, packing) = name.split_once(".ko")?;
    matches!(packing, "" | ".xz" | ".gz" | ".zst").then_some(name)
}

/// The upper half of all addresses is the kernel's, but for one page (`arch/x86/entry/vsyscall`); on a
/// machine where it is not, the file's name tells.
fn is_kernels(address: u64, file: &str) -> bool {
    let is_named = file.starts_with("[kernel") || file.starts_with("[guest.kernel") || file == "/proc/kcore";
    is_named || address >> 63 == 1 && file != "[vsyscall]"
}

/// `comm tid` or `comm pid/tid`.
fn thread(text: &str) -> Option<(&str, Option<u32>, Option<u32>)> {
    let (comm, numbers) = text.trim_end().rsplit_once(char::is_whitespace)?;
    let (pid, tid) = numbers.split_once('/').map_or((None, numbers), |(pid, tid)| (Some(pid), tid));
    let tid = match tid {
        "-1" => None,
        number => Some(number.parse().ok()?),
    };
    Some((comm.trim(), pid.and_then(|pid| pid.parse().ok()), tid))
}

/// `76739.423327`, or with `--ns` nine digits.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    let fraction = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - fraction.len() as u32);
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// The period, where there is one, the name, and what follows it.
fn event(text: &str) -> Option<(Option<u64>, &str, &str)> {
    let is_period = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let (period, text) = match text.split_once(' ') {
        Some((word, rest)) if is_period(word) => (word.parse().ok(), rest.trim_start()),
        _ => (None, text),
    };
    let (name, fields) = match text.split_once(": ") {
        Some((name, fields)) if !name.contains(' ') => (name, fields),
        _ => match text.split_once(' ') {
            Some((name, fields)) => (name.trim_end_matches(':'), fields),
            None => (text.strip_suffix(':').unwrap_or(text), ""),
        },
    };
    (!name.is_empty()).then_some((period, name, fields.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (Option<u32>, u32, u64, &str, &str) {
        let Line { tid, cpu, time_ns, event, fields, .. } = line(text).unwrap();
        (tid, cpu.unwrap(), time_ns, event, fields)
    }

    #[test]
    fn a_line_is_read_whatever_the_thread_is_called() {
        let fields = "comm=dd pid=7 prio=120 target_cpu=001";
        let wanted = (Some(18), 3, 76_739_420_914_000, "sched:sched_waking", fields);
        for name in ["migration/0", "Web Content", "tokio [io] 5", "a: b", ":18"] {
            let text = format!(" {name:>15}    18 [003] 76739.420914:      sched:sched_waking: {fields}");
            assert_eq!(read(&text), wanted, "{name}");
        }
        assert_eq!(read(&format!("dd 4/18 [003] 76739.420914000: sched:sched_waking: {fields}")), wanted);
    }

    #[test]
    fn what_perf_does_not_know_and_what_is_no_tracepoint_is_read_too() {
        assert_eq!(read(":-1 -1 [1] 1.5: power:cpu_idle: state=1 cpu_id=1").0, None);
        let sample = "dd 7 [000] 1.000001:    1000000 cpu-clock:pppH:  ffffffff81 memcpy ([kernel.kallsyms])";
        assert_eq!(read(sample).3, "cpu-clock:pppH");
        assert_eq!(read("dd 7 [000] 1.0: workqueue:x:").3, "workqueue:x");
        let fork = "kthreadd 0 [000] 0.000000: PERF_RECORD_FORK(3:3):(2:2)";
        assert_eq!(read(fork).3, "PERF_RECORD_FORK(3:3):(2:2)");
        let lost = read("dd 7 [000] 1.0: PERF_RECORD_LOST lost 12");
        assert_eq!((lost.3, lost.4), ("PERF_RECORD_LOST", "lost 12"));
    }

    #[test]
    fn samples_of_one_command_have_no_cpu() {
        let sample = line("Web Content 8850/8859 26762.821484:     250000 cpu-clock:pppH: ").unwrap();
        let (pid, tid, cpu) = (Some(8850), Some(8859), None);
        let (time_ns, period, event) = (26_762_821_484_000, Some(250_000), "cpu-clock:pppH");
        let wanted = Line { comm: "Web Content", pid, tid, cpu, time_ns, period, event, fields: "" };
        assert_eq!(sample, wanted);
        assert_eq!(
            line("dd 7 1.5: 4000 cycles:P: ffffffff81 f ([kernel.kallsyms])").unwrap().period,
            Some(4000)
        );
        // Of tracepoints the CPU has to be known, and prose is none of this.
        for text in ["dd 7 1.5: sched:sched_waking: comm=dd pid=7", "version 2 1.5: 3 patches: x"] {
            assert_eq!(line(text), None, "{text}");
        }
        assert!(is_perf_script(
            "# ====\n\ndd 7 1.500000:  250000 cpu-clock: \n\tffffffff81 f ([kernel.kallsyms])\n"
        ));
    }

    #[test]
    fn a_function_of_the_kernel_is_told_from_a_programs() {
        let of = |text: &'static str| {
            let Frame { name, module, is_kernel, .. } = frame(text).unwrap();
            (name.unwrap_or("?"), module.unwrap_or("-"), is_kernel)
        };
        assert_eq!(of("\tffffffff8158a361 vfs_write+0xa1 ([kernel.kallsyms])"), ("vfs_write", "-", true));
        assert_eq!(
            of("ffffffffc0400361 raid10_make_request+0xa1 ([raid10])"),
            ("raid10_make_request", "raid10", true)
        );
        let file = "ffffffffc04 crypt_map ( (/lib/modules/6.12/kernel/drivers/md/dm-crypt.ko.xz)";
        assert_eq!(of(file).1, "dm-crypt");
        assert_eq!(
            of("  f8350 __GI___libc_write+0x10 (/usr/lib/x86_64-linux-gnu/libc.so.6)"),
            ("__GI___libc_write", "-", false)
        );
        assert_eq!(of("7f2c6 [unknown] ([unknown])"), ("?", "-", false));
        assert_eq!(of("7ffd2 __vdso_gettimeofday+0x1 ([vdso])"), ("__vdso_gettimeofday", "-", false));
        assert_eq!(of("ffffffffff600000 time ([vsyscall])"), ("time", "-", false));
        assert_eq!(of("ffffffff81234560 [unknown] ([kernel.kallsyms])"), ("?", "-", true));
        assert_eq!(of("ffffffff81234560 vfs_write"), ("vfs_write", "-", true));
        // Of C++, which has spaces and parentheses.
        let long = "8d53 std::f<a, b (*)(int)>::operator()(char const*) const+0x622 (/usr/lib/libLLVM.so)";
        assert_eq!(of(long).0, "std::f<a, b (*)(int)>::operator()(char const*) const");
        for text in ["", "tea", "xyz f (y)", "12345678901234567 f (y)"] {
            assert_eq!(frame(text), None, "{text}");
        }
    }

    #[test]
    fn clocks_are_known_by_their_names() {
        for name in ["cycles", "cycles:P", "cpu-cycles:u", "cpu_core/cycles/P", "armv8_pmuv3_0/cpu_cycles,u/"]
        {
            assert_eq!(Clock::of(name), Some(Clock::Cycles), "{name}");
        }
        assert_eq!(Clock::of("cpu-clock:pppH"), Some(Clock::Cpu));
        assert_eq!(Clock::of("task-clock"), Some(Clock::Task));
        for name in ["instructions", "sched:sched_switch", "cyclesx", ""] {
            assert_eq!(Clock::of(name), None, "{name}");
        }
    }

    #[test]
    fn other_texts_are_not_taken_for_it() {
        let of_ftrace = "     dd-30656 [000] 13656.224140: block_bio_queue:      7,0 RS 0 + 128 [dd]";
        let stack = "\tffffffff8117f5e0 ksys_read+0x70 ([kernel.kallsyms])";
        for text in
            [of_ftrace, stack, "", "# cmdline : perf record", "dd 7 [x] 1.0: a:b: c", "a 1 [0] 1: a:b: c"]
        {
            assert_eq!(line(text), None, "{text}");
            assert!(!is_perf_script(text));
        }
        assert!(is_perf_script("# ====\n#\n\n  dd 7 [000] 1.000000: sched:sched_waking: comm=dd pid=7\n"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*|[a: ]{0,9}[0-9/-]{0,9} \\[[0-9]{0,12}\\] [0-9.]{0,30}:[a-z: 0-9]{0,9}") {
            let _ = line(&text);
            let _ = frame(&text);
        }
    }
}
