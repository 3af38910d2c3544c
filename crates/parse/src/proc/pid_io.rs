//! `/proc/PID/io`: what a process has read and written (proc_pid_io(5)).

use super::Error;

/// Counters of a process, its threads, and its children that have ended and were waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PidIo {
    /// Bytes that read(2) and its like returned, from wherever.
    pub read_chars: u64,
    /// Bytes that write(2) and its like took, to wherever.
    pub written_chars: u64,
    /// Such calls that read.
    pub read_calls: u64,
    /// Such calls that wrote.
    pub write_calls: u64,
    /// Bytes that were fetched from storage on its behalf.
    pub read_bytes: u64,
    /// Bytes that it caused to be sent to storage: counted when a page becomes dirty, or when it writes
    /// directly.
    pub written_bytes: u64,
}

/// Reads the file.
///
/// # Errors
/// Where a line that is counted is missing or has no number.
pub fn pid_io(text: &str) -> Result<PidIo, Error> {
    let counter = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let error = || Error::new("/proc/PID/io", 1, "a counter of I/O", text);
        value.and_then(|value| value.trim().parse().ok()).ok_or_else(error)
    };
    Ok(PidIo {
        read_chars: counter("rchar")?,
        written_chars: counter("wchar")?,
        read_calls: counter("syscr")?,
        write_calls: counter("syscw")?,
        read_bytes: counter("read_bytes")?,
        written_bytes: counter("write_bytes")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "rchar: 4292\nwchar: 17\nsyscr: 13\nsyscw: 2\nread_bytes: 40960\nwrite_bytes: 4096\n\
                        cancelled_write_bytes: 8192\n";

    #[test]
    fn each_counter_is_that_of_its_own_line() {
        let io = pid_io(TEXT).unwrap();
        assert_eq!((io.read_chars, io.written_chars), (4292, 17));
        assert_eq!((io.read_calls, io.write_calls), (13, 2));
        assert_eq!((io.read_bytes, io.written_bytes), (40960, 4096));
    }

    #[test]
    fn a_cut_file_is_an_error() {
        assert!(pid_io(&TEXT[..40]).is_err());
        assert!(pid_io(&TEXT.replace("13", "x")).is_err());
    }
}
