//! Running the programs that the lab is built with.

use crate::{Error, Result};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Output {
    program: String,
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Where Debian keeps programs, and where people put their own. The path of whoever runs this is not asked: a
/// guest image must not depend on it.
const FOLDERS: [&str; 6] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where a program is.
pub fn find(program: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|file| file.is_file())
}

fn found(doing: &str, program: &str, package: &'static str) -> Result<PathBuf> {
    find(program).ok_or_else(|| Error::MissingProgram {
        doing: doing.to_owned(),
        program: program.to_owned(),
        package,
    })
}

/// Runs a program that `package` has, to its end.
pub(crate) fn run(
    program: &str,
    package: &'static str,
    arguments: &[&str],
    folder: Option<&Path>,
) -> Result<Output> {
    let path = found(&format!("run `{program}`"), program, package)?;
    let mut command = Command::new(&path);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null());
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let output = command.output().map_err(|e| Error::file("run", &path, e))?;
    Ok(Output {
        program: program.to_owned(),
        status: output.status,
        stdout: output.stdout,
        stderr: output.stderr,
    })
}

/// Runs a program that reads standard input and writes standard output.
pub(crate) fn filter(
    program: &str,
    package: &'static str,
    arguments: &[&str],
    input: &[u8],
) -> Result<Output> {
    let path = found(&format!("run `{program}`"), program, package)?;
    let mut command = Command::new(&path);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| Error::file("run", &path, e))?;
    let mut stdin = child.stdin.take().expect("it was asked for");
    let output = std::thread::scope(|scope| {
        // A program that ends early closes the pipe; why it did, it says itself.
        scope.spawn(move || {
            let _: io::Result<()> = stdin.write_all(input);
        });
        child.wait_with_output()
    });
    let output = output.map_err(|e| Error::file("run", &path, e))?;
    Ok(Output {
        program: program.to_owned(),
        status: output.status,
        stdout: output.stdout,
        stderr: output.stderr,
    })
}

impl Output {
    /// What it printed, however it ended.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// What it printed, where it ended well.
pub(crate) fn check(doing: &str, output: Output) -> Result<String> {
    Ok(String::from_utf8_lossy(&check_bytes(doing, output)?).into_owned())
}

/// The same, as bytes.
pub(crate) fn check_bytes(doing: &str, output: Output) -> Result<Vec<u8>> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.trim().lines().rev().take(3).collect();
    let said = last.into_iter().rev().collect::<Vec<_>>().join("; ");
    Err(Error::Program {
        doing: doing.to_owned(),
        program: output.program,
        how: output.status.to_string(),
        said: if said.is_empty() { "it said nothing".into() } else { said },
    })
}
