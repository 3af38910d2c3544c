//! Names that change their meaning all the time: somebody exchanges a file of Flyball's own with a link to
//! another's, as fast as the kernel does it, while it is opened, locked, replaced and read.

#![allow(clippy::unwrap_used)]

use files::durable::{self, Permissions};
use files::lock::Lock;
use files::own::{self, Access};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use testing::Extent;

/// Exchanges two names until it is told to stop.
fn exchange(a: &Path, b: &Path, stop: &AtomicBool, count: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        if renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn whatever_a_name_means_at_any_moment_nothing_is_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("victim"), "precious").unwrap();
    fs::write(path("file"), "").unwrap();
    std::os::unix::fs::symlink(path("victim"), path("link")).unwrap();
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut written, mut refused) = (0_u64, 0_u64);
    let wanted = Extent::of(1_000, 100_000).count;
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&path("file"), &path("link"), &stop, &count));
        while count.load(Ordering::Relaxed) < wanted || written == 0 || refused == 0 {
            match own::open_or_make(&path("file"), Access::Append, 0o600) {
                Ok(mut file) => {
                    file.write_all(b"x").unwrap();
                    written += 1;
                }
                Err(_) => refused += 1,
            }
            match Lock::try_take(&path("file")) {
                Ok(Some(mut lock)) => lock.sign(&path("file"), "4711").unwrap(),
                Ok(None) => {}
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(path("victim")).unwrap(), "precious");
    testing::promise(
        "swapped-files",
        count.into_inner(),
        format_args!("{written} written, {refused} refused"),
    );
}

#[test]
fn a_file_that_is_replaced_while_its_name_changes_leaves_the_other_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("victim"), "precious").unwrap();
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    fs::write(path("file"), "").unwrap();
    std::os::unix::fs::symlink(path("victim"), path("link")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&path("file"), &path("link"), &stop, &count));
        for _ in 0..200 {
            // Where the name of what is written aside was taken from under it, it may fail.
            let _ = durable::replace(&path("file"), b"new", Permissions::Plain);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(path("victim")).unwrap(), "precious");
}
