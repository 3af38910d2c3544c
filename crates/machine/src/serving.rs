//! What servers of ours need on a machine: a folder of their own, and a network of their own. Each part is
//! written down in the [ledger](crate::Ledger) before it appears, or has no name and dies with its last user.
//!
//! Where Flyball is root, its servers are not: they run as `nobody`. That user cannot go through the folders
//! of others, such as `/root`, so the folder is bound to a place below `/run` as well, which also makes it a
//! short path for a socket.

use crate::ledger::{Built, Ledger};
use crate::stack::{Error, names};
use crate::{LocalMachine, Machine};
use domain::units::Bytes;
use parse::kernel::mounts;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Debian's `nobody` and `nogroup` (base-passwd).
pub const NOBODY: u32 = 65534;

/// How long each of these small programs may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A folder of ours for a server, empty at first.
#[derive(Clone, Debug)]
pub struct Room {
    /// Where the server and its clients find it. A path without links.
    pub path: PathBuf,
    /// Where it lies. Both are the same where it is not bound.
    pub place: PathBuf,
    /// Whom it belongs to, and the server runs as; none: this user.
    pub user: Option<u32>,
}

/// Changes in the ledger that are undone together.
#[derive(Clone, Debug, Default)]
pub struct ChangeSet(BTreeSet<u64>);

impl ChangeSet {
    /// Adds other changes.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl Ledger<'_> {
    /// Makes an empty folder of ours in `folder`, which only this user can write to and is a path without
    /// links. It is removed with all that is put into it.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Ledger`].
    pub fn make_tree(&mut self, folder: &Path, what: &str) -> Result<PathBuf, Error> {
        let token = names::token().map_err(|e| failed("read", Path::new("/dev/urandom"), e))?;
        let place = folder.join(format!("flyball-{token}-{what}"));
        self.announce_built(Built::Tree { path: utf8(&place)? })?;
        DirBuilder::new().mode(0o700).create(&place).map_err(|e| failed("make the folder", &place, e))?;
        Ok(place)
    }

    /// The same for a server, which is another user where this one is root.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Command`], [`Error::Ledger`]. What was made until then is undone with the
    /// rest of the ledger, or with [`Ledger::clear`].
    pub fn make_room(&mut self, folder: &Path, what: &str) -> Result<Room, Error> {
        let place = self.make_tree(folder, what)?;
        if !rustix::process::geteuid().is_root() {
            return Ok(Room { path: place.clone(), place, user: None });
        }
        chown(&place, Some(NOBODY), Some(NOBODY)).map_err(|e| failed("give away the folder", &place, e))?;
        let path = run_folder().join(place.file_name().expect("it was joined just now"));
        let (text, at) = (utf8(&place)?, utf8(&path)?);
        self.announce_built(Built::Folder { path: at.clone() })?;
        DirBuilder::new().mode(0o755).create(&path).map_err(|e| failed("make the folder", &path, e))?;
        let (source, number) = mount_of(&place)?;
        self.announce_built(Built::Mount { folder: at.clone(), source, number })?;
        run("bind the server's folder", &["mount", "--bind", &text, &at])?;
        Ok(Room { path, place, user: Some(NOBODY) })
    }

    /// Writes down that a server is about to be started, which will work in `folder`.
    ///
    /// # Errors
    /// [`Error::Ledger`].
    pub fn announce_server(&mut self, program: &Path, folder: &Path) -> Result<(), Error> {
        let (program, folder) = (utf8(program)?, utf8(folder)?);
        Ok(self.announce_built(Built::Server { program, folder })?)
    }

    /// Runs something that changes the machine, and gives what it changed with its result.
    pub fn making<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> (T, ChangeSet) {
        let last = self.last();
        let result = make(self);
        let made = ChangeSet(self.since(last));
        (result, made)
    }

    /// Undoes what was made, the last first.
    ///
    /// # Errors
    /// [`Error::NotDown`].
    pub fn clear(&mut self, made: &ChangeSet) -> Result<(), Error> {
        let report = self.undo_these(&made.0);
        let left: Vec<String> = report.failed().chain(report.foreign()).map(ToString::to_string).collect();
        if left.is_empty() { Ok(()) } else { Err(Error::NotDown(left.join("; "))) }
    }

    /// Makes two network namespaces with a link between them, as slow as is asked for. Nothing of it has a
    /// name: it is gone when this is dropped and the processes in it have ended, whatever becomes of this
    /// process. Neither end is connected to anything else.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where this is not root, or the kernel lacks something; [`Error::Missing`].
    pub fn make_link(&mut self, slow: Slow) -> Result<Link, Error> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Unsupported(
                "a network between client and server needs root: it is made of two network namespaces".into(),
            ));
        }
        let wanted = [
            ("veth", true),
            ("sch_tbf", slow.bandwidth.is_some() && slow.delay_us == 0),
            ("sch_netem", slow.delay_us > 0),
        ];
        for (module, _) in wanted.iter().filter(|(module, is_wanted)| *is_wanted && !is_loaded(module)) {
            // The kernel loads it when it is asked for one; where it is built in, there is nothing to undo.
            self.announce_built(Built::Module { name: (*module).to_owned() })?;
        }
        let link = Link { server: namespace()?, client: namespace()?, slow };
        link.set_up()?;
        Ok(link)
    }
}

/// How slow a link is, each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// From one end to the other, each way.
    pub delay_us: u64,
    /// Bytes a second, each way; none: as much as there is.
    pub bandwidth: Option<Bytes>,
}

/// Two network namespaces and the link between them.
#[derive(Debug)]
pub struct Link {
    server: File,
    client: File,
    slow: Slow,
}

/// From a block that is set aside for measuring (RFC 2544). Nobody but the two ends sees them.
const SERVER: &str = "198.18.0.1";
const CLIENT: &str = "198.18.0.2";
const PREFIX: &str = "/30";

impl Link {
    /// The server's address.
    pub const ADDRESS: &str = SERVER;
    /// Both addresses, as a network.
    pub const NETWORK: &str = "198.18.0.0/30";

    /// What to write before a command that is to run at the server's end.
    pub fn at_server(&self) -> Vec<String> {
        enter(&self.server)
    }

    /// Likewise, at the client's.
    pub fn at_client(&self) -> Vec<String> {
        enter(&self.client)
    }

    fn set_up(&self) -> Result<(), Error> {
        // `ip` takes a path for a namespace where it expects a name.
        let client = path_of(&self.client);
        let add =
            ["ip", "link", "add", "server0", "type", "veth", "peer", "name", "client0", "netns", &client];
        run_words("make the link", &within(&self.server, &add))?;
        for (file, device, address) in [(&self.server, "server0", SERVER), (&self.client, "client0", CLIENT)]
        {
            let address = format!("{address}{PREFIX}");
            for words in [
                vec!["ip", "address", "add", address.as_str(), "dev", device],
                vec!["ip", "link", "set", "lo", "up"],
                vec!["ip", "link", "set", device, "up"],
            ] {
                run_words("set up the link", &within(file, &words))?;
            }
            self.make_slow(file, device)?;
        }
        Ok(())
    }

    fn make_slow(&self, file: &File, device: &str) -> Result<(), Error> {
        let Some(discipline) = self.discipline() else { return Ok(()) };
        let mut argv = within(file, &["tc", "qdisc", "add", "dev", device, "root"]);
        argv.extend(discipline);
        let (what, option, config) = if self.slow.delay_us > 0 {
            ("delay packets", "network_delay", "CONFIG_NET_SCH_NETEM")
        } else {
            ("bound a network's bandwidth", "network_bandwidth", "CONFIG_NET_SCH_TBF")
        };
        run_words("make the link slow", &argv).map_err(|error| match error {
            Error::Command { said, .. } => Error::Unsupported(format!(
                "this kernel cannot {what}: `{}` said: {said}; it needs {config}; take `{option}` out, or run it on another machine",
                argv[ENTER_WORDS..].join(" ")
            )),
            other => other,
        })
    }

    /// What makes one direction slow. netem does both; tbf(8) needs a bucket of what comes between two ticks
    /// of its clock, and of one segment of 64 KiB at least.
    fn discipline(&self) -> Option<Vec<String>> {
        let bits = self.slow.bandwidth.map(|rate| format!("{}bit", rate.get().saturating_mul(8)));
        let words: Vec<String> = match (self.slow.delay_us, bits) {
            (0, None) => return None,
            (0, Some(rate)) => {
                let burst = self.slow.bandwidth.map_or(0, |rate| rate.get() / 250).max(65_536 * 2);
                vec![
                    "tbf".into(),
                    "rate".into(),
                    rate,
                    "burst".into(),
                    burst.to_string(),
                    "latency".into(),
                    "50ms".into(),
                ]
            }
            (delay, rate) => {
                let mut words = vec![
                    "netem".into(),
                    "delay".into(),
                    format!("{delay}us"),
                    "limit".into(),
                    "100000".into(),
                ];
                words.extend(rate.into_iter().flat_map(|rate| ["rate".to_owned(), rate]));
                words
            }
        };
        Some(words)
    }
}

/// A namespace that only its descriptor holds. A thread makes it: this process stays where it is.
fn namespace() -> Result<File, Error> {
    const PATH: &str = "/proc/thread-self/ns/net";
    let make = || -> io::Result<File> {
        // SAFETY: it changes where this thread's sockets are made, and nothing that other threads share.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        File::open(PATH)
    };
    let made =
        std::thread::spawn(make).join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
    made.map_err(|error| {
        Error::Unsupported(format!(
            "cannot make a network namespace ({error}); the kernel needs CONFIG_NET_NS"
        ))
    })
}

fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// How many words enter a namespace.
const ENTER_WORDS: usize = 3;

fn enter(file: &File) -> Vec<String> {
    vec!["nsenter".into(), format!("--net={}", path_of(file)), "--".into()]
}

fn within(file: &File, words: &[&str]) -> Vec<String> {
    let mut argv = enter(file);
    argv.extend(words.iter().map(|word| (*word).to_owned()));
    argv
}

fn is_loaded(module: &str) -> bool {
    Path::new("/sys/module").join(module).exists()
}

/// Where every user can go, and which is in memory: `/run` on all systems that follow the FHS 3.0.
fn run_folder() -> PathBuf {
    let run = Path::new("/run");
    if run.is_dir() { run.to_owned() } else { std::env::temp_dir() }
}

/// Source and number of the mount that a path is on, as mountinfo shows them of a bind of it too.
fn mount_of(path: &Path) -> Result<(String, String), Error> {
    const PATH: &str = "/proc/self/mountinfo";
    let text = fs::read_to_string(PATH).map_err(|e| failed("read", Path::new(PATH), e))?;
    let on = |mount: &mounts::MountInfo| path.starts_with(&mount.mountpoint);
    let longest = mounts::mountinfo(&text).flatten().filter(on).max_by_key(|mount| mount.mountpoint.len());
    longest.map(|mount| (mount.source, mount.number)).ok_or_else(|| {
        failed("find the mount of", path, io::Error::other("no line of mountinfo is above it"))
    })
}

fn run(doing: &str, argv: &[&str]) -> Result<(), Error> {
    let words: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    run_words(doing, &words)
}

fn run_words(doing: &str, argv: &[String]) -> Result<(), Error> {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let output = match LocalMachine.run(&words, LIMIT) {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::Missing {
                doing: doing.into(),
                program: argv[0].clone(),
                package: "util-linux",
            });
        }
        Err(source) => return Err(Error::File { what: "run", path: argv[0].clone(), source }),
    };
    let said = output.last_words();
    match output.code {
        Some(0) => Ok(()),
        Some(127) => {
            let program = argv.get(ENTER_WORDS).unwrap_or(&argv[0]).clone();
            Err(Error::Missing { doing: doing.into(), program, package: "iproute2" })
        }
        _ => Err(Error::Command { doing: doing.into(), command: argv.join(" "), said }),
    }
}

fn utf8(path: &Path) -> Result<String, Error> {
    let text = path.to_str().ok_or_else(|| failed("name", path, io::ErrorKind::InvalidFilename.into()));
    Ok(text?.to_owned())
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File { what, path: path.display().to_string(), source }
}
