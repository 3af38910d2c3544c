//! `/proc/loadavg`: how many threads there are, and which was made last (proc_loadavg(5)).

use super::Error;

/// What it says besides the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loadavg {
    /// Threads of the system.
    pub threads: u32,
    /// The thread id that was given out last in this PID namespace. Where it has not moved, no thread was
    /// made since; it starts again from low numbers at `pid_max`.
    pub last_tid: u32,
}

/// Reads `0.20 0.18 0.12 1/80 11206`.
///
/// # Errors
/// Where it does not look so.
pub fn loadavg(text: &str) -> Result<Loadavg, Error> {
    let read = || {
        let mut words = text.split_ascii_whitespace().skip(3);
        let (_, threads) = words.next()?.split_once('/')?;
        Some(Loadavg { threads: threads.parse().ok()?, last_tid: words.next()?.parse().ok()? })
    };
    read().ok_or_else(|| Error::new("/proc/loadavg", 1, "threads and the last thread id", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_the_last_thread_id_are_read() {
        let expected = Loadavg { threads: 95, last_tid: 11357 };
        assert_eq!(loadavg("0.11 0.12 0.06 1/95 11357\n"), Ok(expected));
        assert!(loadavg("0.11 0.12 0.06 1/95\n").is_err());
    }
}
