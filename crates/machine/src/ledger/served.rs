//! Taking down servers of ours, and the folders that they filled.

use super::built::{LIMIT, is_folder, mounted_below, text, until_gone};
use super::report::UndoOutcome;
use crate::{Machine, workload};

/// PostgreSQL writes down there which segment of shared memory it has (its `pidfile.h`).
const PID_FILE: &str = "postmaster.pid";
/// The line of that file, from 0: the segment's key and id.
const SEGMENT_LINE: usize = 6;

/// Removes a folder with all that is in it; where something is mounted there, it waits until that is gone.
pub(super) fn remove_tree(machine: &dyn Machine, path: &str) -> Result<UndoOutcome, String> {
    if let Some(top) = mounted_below(machine, path)?.pop() {
        return Err(format!(
            "`{}` is mounted on `{}`; unmount that, then run `flyball restore`",
            top.source, top.mountpoint
        ));
    }
    if !is_folder(machine, path)? {
        return Ok(UndoOutcome::Untouched);
    }
    until_gone(machine, &["rm", "-rf", "--one-file-system", "--", path], || is_folder(machine, path))
}

/// Kills what executes this program in this folder. What it holds there is worth nothing, so it is not asked
/// to end.
///
/// A process is known by these two and not by its mark: PostgreSQL's write what they do over their
/// environment.
pub(super) fn stop(machine: &dyn Machine, program: &str, folder: &str) -> Result<UndoOutcome, String> {
    let killed = workload::end_working_in(program, folder);
    if workload::works_in(program, folder) {
        return Err("it does not end, even by SIGKILL; it waits for a device that does not answer".into());
    }
    let freed = free_segment(machine, folder)?;
    Ok(if killed > 0 || freed { UndoOutcome::Removed } else { UndoOutcome::Untouched })
}

/// A segment of System V's outlives the processes that had it, unless they were in a namespace of their own.
fn free_segment(machine: &dyn Machine, folder: &str) -> Result<bool, String> {
    let Some(file) = text(machine, &format!("{folder}/{PID_FILE}"))? else { return Ok(false) };
    let Some((key, id)) = file.lines().nth(SEGMENT_LINE).and_then(segment) else { return Ok(false) };
    if !is_unused(machine, key, id)? {
        return Ok(false);
    }
    let argv = ["ipcrm", "--shmem-id", &id.to_string()];
    let ran = machine.run(&argv, LIMIT);
    if !is_unused(machine, key, id)? {
        return Ok(true);
    }
    let said = ran.map_or_else(|error| error.to_string(), |output| output.last_words());
    Err(format!("its segment of shared memory stays: `{}` said: {said}", argv.join(" ")))
}

fn segment(line: &str) -> Option<(i64, i64)> {
    let mut numbers = line.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Whether there is this segment, and nobody has it (`ipc/shm.c`: key, id, …, attached as the seventh).
fn is_unused(machine: &dyn Machine, key: i64, id: i64) -> Result<bool, String> {
    let all = text(machine, "/proc/sysvipc/shm")?.unwrap_or_default();
    let is_it = |line: &str| {
        let fields: Vec<i64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        fields.first() == Some(&key) && fields.get(1) == Some(&id) && fields.get(6) == Some(&0)
    };
    Ok(all.lines().any(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalMachine;
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_tree_goes_with_all_that_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("flyball-1");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(tree.join("a/file"), "x").unwrap();
        std::os::unix::fs::symlink(folder.path(), tree.join("link")).unwrap();
        let path = tree.to_str().unwrap();
        assert_eq!(remove_tree(&LocalMachine, path), Ok(UndoOutcome::Removed));
        assert_eq!(remove_tree(&LocalMachine, path), Ok(UndoOutcome::Untouched));
        assert!(folder.path().exists() && !tree.exists());
    }

    #[test]
    fn a_server_is_what_executes_its_program_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at =
            |path: &Path| std::process::Command::new("sleep").arg("1000").current_dir(path).spawn().unwrap();
        let (mut ours, mut other) = (at(folder.path()), at(Path::new("/")));
        let program = fs::canonicalize("/usr/bin/sleep").unwrap();
        let (program, place) = (program.to_str().unwrap(), folder.path().to_str().unwrap());
        while !workload::works_in(program, place) {
            std::thread::yield_now();
        }
        assert_eq!(stop(&LocalMachine, program, place), Ok(UndoOutcome::Removed));
        assert_eq!(stop(&LocalMachine, program, place), Ok(UndoOutcome::Untouched));
        assert!(ours.try_wait().unwrap().is_some() && other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
        ours.wait().unwrap();
    }

    #[test]
    fn the_line_of_a_segment_is_two_numbers() {
        assert_eq!(segment("  10108963   1081349"), Some((10_108_963, 1_081_349)));
        assert_eq!(segment(""), None);
        assert_eq!(segment("ready"), None);
    }
}
