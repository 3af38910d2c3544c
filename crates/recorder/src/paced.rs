//! The virtual CPUs of a lab machine, while something is measured on them.
//!
//! They run at the speed of their P-states only while they are paced, and as fast as the host can otherwise:
//! a program would take minutes to start at some million instructions a second, and its start is not what is
//! measured. The lab's agent paces what it measures itself, and tells the commands that it runs the port by
//! which they do. Whoever measures in such a command holds the CPUs paced meanwhile; on any other machine
//! nothing is done.
//!
//! A process that is killed leaves them paced, until the next one that measures has ended.

use crate::{Error, Result};
use domain::lab::CONTROL_PORT_VARIABLE;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;

/// The virtual CPUs are paced until this is dropped. A process has one at a time.
#[derive(Debug)]
pub struct Paced {
    /// The plugin's I/O port; `None` on a machine that nobody paces.
    port: Option<u64>,
}

impl Paced {
    /// Begins to pace, in a lab machine that has virtual P-states.
    ///
    /// # Errors
    /// Where the port's number cannot be read, or the port not be written.
    pub fn hold() -> Result<Self> {
        let port = port(std::env::var_os(CONTROL_PORT_VARIABLE).as_deref()).map_err(Error::Pace)?;
        port.map_or(Ok(()), |port| write(port, 1)).map_err(Error::Pace)?;
        Ok(Self { port })
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        if let Some(port) = self.port {
            // It could be written a moment ago; what is measured next would be told.
            let _ = write(port, 0);
        }
    }
}

/// The port that the variable names; `None` where it is unset or empty.
fn port(variable: Option<&OsStr>) -> io::Result<Option<u64>> {
    let number = |text: &OsStr| text.to_str()?.parse().ok();
    let unread = |text: &OsStr| io::Error::other(format!("`{}` is no I/O port", text.display()));
    let text = variable.filter(|text| !text.is_empty());
    text.map(|text| number(text).ok_or_else(|| unread(text))).transpose()
}

/// 1 paces all virtual CPUs from now on, 0 lets them run (crates/pstate-plugin).
fn write(port: u64, value: u8) -> io::Result<()> {
    OpenOptions::new().write(true).open("/dev/port")?.write_all_at(&[value], port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_names_a_port() {
        let read = |text: &str| port(Some(OsStr::new(text)));
        assert_eq!(port(None).unwrap(), None);
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read("1470").unwrap(), Some(1470));
        for wrong in ["0x5be", "-1", "many"] {
            assert!(read(wrong).unwrap_err().to_string().contains(wrong));
        }
    }
}
