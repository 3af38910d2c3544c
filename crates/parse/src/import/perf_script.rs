//! The text of `perf script`, with the fields that it prints of tracepoints by default:
//!
//! ```text
//!     dd 14211 [001] 76739.423327:    block:block_rq_issue: 254,0 RS 65536 () 350642176 + 128 [dd]
//!     comm tid [cpu] seconds: event: what the tracepoint's own format prints
//! ```
//! Of hardware events a period stands before the name; below an event its call stack may follow
//! (`process_event` of the kernel's `tools/perf/builtin-script.c`).

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'t> {
    /// The thread that ran; `None` where perf did not know it any more (-1).
    pub tid: Option<u32>,
    /// The CPU.
    pub cpu: u32,
    /// Since whatever perf's clock counts from.
    pub time_ns: u64,
    /// `group:name`, or what perf calls a record of its own.
    pub event: &'t str,
    /// All that follows.
    pub fields: &'t str,
}

/// How many lines are looked at to know the text.
const LOOKED_AT: usize = 50;

/// Whether a text begins so.
pub fn is_perf_script(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.take(LOOKED_AT).filter_map(line).any(|line| line.event.contains(':'))
}

/// Reads a line; `None` of what is no event.
pub fn line(text: &str) -> Option<Line<'_>> {
    // A thread's name may hold anything: the first place where all that follows fits is the end of it.
    text.match_indices(" [").find_map(|(at, _)| {
        let tid = thread(&text[..at])?;
        let (cpu, rest) = text[at + 2..].split_once(']')?;
        let is_number = !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit());
        let cpu = cpu.parse().ok().filter(|_| is_number)?;
        let (time, rest) = rest.trim_start().split_once(':')?;
        let time_ns = nanoseconds(time)?;
        let (event, fields) = event(rest.trim())?;
        Some(Line { tid, cpu, time_ns, event, fields })
    })
}

/// `comm tid` or `comm pid/tid`.
fn thread(text: &str) -> Option<Option<u32>> {
    let (_, number) = text.trim_end().rsplit_once(char::is_whitespace)?;
    match number.rsplit('/').next()? {
        "-1" => Some(None),
        number => number.parse().ok().map(Some),
    }
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

/// The name, behind a period, and what follows it.
fn event(text: &str) -> Option<(&str, &str)> {
    let is_period = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let text = match text.split_once(' ') {
        Some((word, rest)) if is_period(word) => rest.trim_start(),
        _ => text,
    };
    let (name, fields) = match text.split_once(": ") {
        Some((name, fields)) if !name.contains(' ') => (name, fields),
        _ => match text.split_once(' ') {
            Some((name, fields)) => (name.trim_end_matches(':'), fields),
            None => (text.strip_suffix(':').unwrap_or(text), ""),
        },
    };
    (!name.is_empty()).then_some((name, fields.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (Option<u32>, u32, u64, &str, &str) {
        let Line { tid, cpu, time_ns, event, fields } = line(text).unwrap();
        (tid, cpu, time_ns, event, fields)
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
        }
    }
}
