//! Database servers that workloads ask: made, filled, warmed, started and taken down by us, in a folder of
//! our own.
//!
//! A machine's own servers, their data and their settings are never touched, but where a study names one, in
//! which its data are in a database of their own ([`Databases`]). Ours read no configuration file,
//! listen on a socket in their folder, or on an address in a network namespace that nothing else is in, and
//! run as `nobody` where Flyball is root ([`machine::serving`]). One stands at a time. Its data set is made
//! once and kept as long as cells want the same; other settings or another network cost a restart. While a
//! cell runs that asks no server, none runs.

mod databases;
mod mariadb;
mod postgresql;
mod steps;

pub use databases::Databases;

use crate::{Error, fill, tools};
use domain::study::Workload;
use domain::units::Bytes;
use machine::Ledger;
use machine::serving::{ChangeSet, Link, Room, Slow};
use rustix::process::Rlimit;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use steps::{Process, Steps};
use workloads::server::{Connection, Kind, Load};
use workloads::sysbench::options::Network;
use workloads::sysbench::script;

/// A server that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// How a client reaches it.
    pub connection: Connection,
    /// Its first process; none where that is on another machine, or not visible.
    pub pid: Option<u32>,
    /// For a trial's environment: which server it is, and with which settings.
    pub about: BTreeMap<String, String>,
    /// Every command that made it.
    pub commands: Vec<Vec<String>>,
}

/// What a workload asks for.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    load: Load,
    /// Where it works.
    place: PathBuf,
}

/// What a server takes besides its data: its log and its own tables.
const OVERHEAD: Bytes = Bytes::from_mib(320);

impl Wanted {
    fn of(workload: &Workload, place: &Path) -> Result<Option<Self>, Error> {
        let Some(load) = workloads::of(&workload.tool).server(&workload.options) else { return Ok(None) };
        let load = load.map_err(|error| Error::Unsupported(error.to_string()))?;
        Ok(Some(Self { load, place: place.to_owned() }))
    }

    /// Whether data that were made for this serve the other one too.
    fn has_data_of(&self, other: &Self) -> bool {
        let made = |wanted: &Self| (wanted.load.server.kind, wanted.load.server.data_settings());
        made(self) == made(other) && self.load.data == other.load.data && self.place == other.place
    }

    /// Whether a process that was started for this serves the other one too.
    fn has_process_of(&self, other: &Self) -> bool {
        self.load.server.settings == other.load.server.settings
            && self.load.network == other.load.network
            && self.connections() == other.connections()
    }

    /// What `max_connections` is where the study says nothing: one number for most sweeps, so that they need
    /// no restart.
    fn connections(&self) -> u32 {
        (self.load.clients + 16).next_power_of_two().max(256)
    }
}

/// What differs between servers.
struct Programs {
    /// The file of the server, without links.
    server: PathBuf,
    /// The folder of the server's programs, where they are not in the path.
    folder: Option<PathBuf>,
    /// As the server states it.
    version: String,
}

/// The server that stands, if any.
#[derive(Debug, Default)]
pub struct Servers {
    standing: Option<Standing>,
}

#[derive(Debug)]
struct Standing {
    wanted: Wanted,
    room: Room,
    /// The folder, and all that is in it.
    made: ChangeSet,
    running: Option<Running>,
    /// What made the data.
    commands: Vec<Vec<String>>,
    /// Whether a trial has worked on the data.
    used: bool,
}

#[derive(Debug)]
struct Running {
    access: Access,
    process: Process,
    made: ChangeSet,
    /// Its end is in use as long as the server runs.
    _link: Option<Link>,
}

/// What making a server needs of a trial.
pub struct Trial<'a> {
    /// Where the steps' output goes.
    pub raw: &'a Path,
    /// Set by somebody else when everything is to end.
    pub interrupt: &'a AtomicBool,
    /// The limit on open files of what is started.
    pub descriptors: Rlimit,
}

impl Servers {
    /// Sees to it that the server runs that a workload asks for, on data in `place`, which only this user can
    /// write to; or that none runs, where it asks for none. Data are made anew where other ones are asked
    /// for.
    ///
    /// # Errors
    /// [`Error::MissingTool`], [`Error::Unsupported`], [`Error::NoSpace`], [`Error::Tool`] where a step
    /// fails, [`Error::Interrupted`], [`Error::Stack`] where something cannot be made or taken down.
    pub fn ready(
        &mut self,
        ledger: &mut Ledger<'_>,
        workload: &Workload,
        place: &Path,
        trial: &Trial<'_>,
    ) -> Result<Option<Access>, Error> {
        let Some(wanted) = Wanted::of(workload, place)? else {
            self.stop(ledger)?;
            return Ok(None);
        };
        let made = self.made_ready(ledger, wanted, trial);
        if made.is_err() {
            // What was begun is no server; why it failed matters more than that it goes.
            self.clear(ledger)?;
        }
        made.map(Some)
    }

    fn made_ready(
        &mut self,
        ledger: &mut Ledger<'_>,
        wanted: Wanted,
        trial: &Trial<'_>,
    ) -> Result<Access, Error> {
        let keeps = |standing: &Standing| {
            standing.wanted.has_data_of(&wanted) && !(wanted.load.server.rebuild && standing.used)
        };
        if !self.standing.as_ref().is_some_and(keeps) {
            self.clear(ledger)?;
        }
        let runs_on = |standing: &mut Standing| {
            standing.wanted.has_process_of(&wanted)
                && standing.running.as_mut().is_some_and(|running| running.process.lives())
        };
        if !self.standing.as_mut().is_some_and(runs_on) {
            self.stop(ledger)?;
            self.start(ledger, &wanted, trial)?;
        }
        let standing = self.standing.as_mut().expect("it was started, or ran");
        standing.used = true;
        standing.wanted = wanted;
        let running = standing.running.as_ref().expect("it was started, or ran");
        steps::keep_log(&standing.room, trial.raw)?;
        Ok(running.access.clone())
    }

    /// Starts the server, on data that are made where there are none.
    fn start(&mut self, ledger: &mut Ledger<'_>, wanted: &Wanted, trial: &Trial<'_>) -> Result<(), Error> {
        let kind = wanted.load.server.kind;
        let programs = match kind {
            Kind::MariaDb => mariadb::programs()?,
            Kind::PostgreSql => postgresql::programs()?,
        };
        // What this machine cannot do is known before data are made.
        let (link, mut made) = match wanted.load.network {
            Some(network) => {
                let (link, made) = ledger.making(|ledger| ledger.make_link(slow(network)));
                (Some(link.inspect_err(|_| drop(ledger.clear(&made)))?), made)
            }
            None => (None, ChangeSet::default()),
        };
        let is_new = self.standing.is_none();
        if is_new {
            self.make_room(ledger, wanted, &programs)?;
        }
        let standing = self.standing.as_mut().expect("there is one, or it was just made");
        let mut steps = Steps { trial, user: standing.room.user, environment: &[], commands: Vec::new() };
        if is_new {
            match kind {
                Kind::MariaDb => mariadb::create(&mut steps, &standing.room, wanted)?,
                Kind::PostgreSql => postgresql::create(&mut steps, &programs, &standing.room)?,
            }
            write_scripts(&standing.room)?;
        }
        let argv = match kind {
            Kind::MariaDb => mariadb::command(&programs, &standing.room, wanted, link.as_ref()),
            Kind::PostgreSql => postgresql::command(&programs, &standing.room, wanted, link.as_ref()),
        };
        let at_server = link.as_ref().map(Link::at_server).unwrap_or_default();
        let data = standing.room.path.join(DATA);
        let (announced, more) = ledger.making(|ledger| ledger.announce_server(&programs.server, &data));
        made.extend(more);
        announced?;
        let process = steps.spawn(&at_server, &argv, &standing.room)?;
        let address = link.as_ref().map(|_| Link::ADDRESS);
        let connection = Connection {
            prefix: link.as_ref().map(Link::at_client).unwrap_or_default(),
            programs: programs.folder,
            ..Connection::to_own(kind, &standing.room.path, address)
        };
        let access = Access {
            connection,
            pid: Some(process.pid()),
            about: about(&programs.version, wanted),
            commands: Vec::new(),
        };
        // From here on it is taken down with the rest.
        let running = standing.running.insert(Running { access, process, made, _link: link });
        let is_ready = match kind {
            Kind::MariaDb => mariadb::is_ready,
            Kind::PostgreSql => postgresql::is_ready,
        };
        let host = tools::host();
        steps.wait_until_ready(&mut running.process, &standing.room, is_ready)?;
        if is_new {
            steps.run("make the data set", "prepare", wanted.load.fill(&running.access.connection, &host))?;
            standing.commands = std::mem::take(&mut steps.commands);
        }
        steps.run("warm the data set", "warm", wanted.load.warm(&running.access.connection, &host))?;
        running.access.commands = standing.commands.iter().chain(&steps.commands).cloned().collect();
        Ok(())
    }

    fn make_room(
        &mut self,
        ledger: &mut Ledger<'_>,
        wanted: &Wanted,
        programs: &Programs,
    ) -> Result<(), Error> {
        fill::check_space(&wanted.place, Bytes::new(wanted.load.data.size().saturating_add(OVERHEAD.get())))?;
        let name = wanted.load.server.kind.name();
        let make = |ledger: &mut Ledger<'_>| {
            let room = ledger.make_room(&wanted.place, name)?;
            // Making its own tables is work of the server's program too.
            ledger.announce_server(&programs.server, &room.path.join(DATA)).map(|()| room)
        };
        let (room, made) = ledger.making(make);
        let room = match room {
            Ok(room) => room,
            Err(error) => {
                ledger.clear(&made)?;
                return Err(error.into());
            }
        };
        let (wanted, commands) = (wanted.clone(), Vec::new());
        self.standing = Some(Standing { wanted, room, made, running: None, commands, used: false });
        check_socket(&self.standing.as_ref().expect("it was just put there").room)
    }

    /// Every command that made the one that runs.
    pub fn commands(&self) -> &[Vec<String>] {
        let running = self.standing.as_ref().and_then(|standing| standing.running.as_ref());
        running.map_or(&[], |running| running.access.commands.as_slice())
    }

    /// Ends the server; its data stay.
    ///
    /// # Errors
    /// [`Error::Stack`] where it does not end.
    pub fn stop(&mut self, ledger: &mut Ledger<'_>) -> Result<(), Error> {
        let Some(mut running) = self.standing.as_mut().and_then(|standing| standing.running.take()) else {
            return Ok(());
        };
        running.process.end();
        let Running { made, _link: link, .. } = running;
        // A module of the kernel is free only once the network that needs it is gone.
        drop(link);
        Ok(ledger.clear(&made)?)
    }

    /// Removes everything.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn clear(&mut self, ledger: &mut Ledger<'_>) -> Result<(), Error> {
        if let Some(running) = self.standing.as_mut().and_then(|standing| standing.running.as_mut()) {
            // Its data go: there is no sense in waiting until it has written them out.
            running.process.kill();
        }
        self.stop(ledger)?;
        match self.standing.take() {
            Some(standing) => Ok(ledger.clear(&standing.made)?),
            None => Ok(()),
        }
    }
}

/// The name of the folder of a server's data, in its room.
const DATA: &str = "data";

fn slow(network: Network) -> Slow {
    Slow { delay_us: network.delay.get().div_ceil(1000), bandwidth: network.bandwidth }
}

fn about(version: &str, wanted: &Wanted) -> BTreeMap<String, String> {
    let mut about = BTreeMap::from([("server".to_owned(), version.to_owned())]);
    about.extend(
        wanted.load.server.settings.iter().map(|(name, value)| (format!("server.{name}"), value.clone())),
    );
    if let Some(Network { delay, bandwidth }) = wanted.load.network {
        let rate = bandwidth.map_or_else(|| "as fast as there is".to_owned(), |rate| format!("{rate}/s"));
        about.insert("server network".into(), format!("{delay} and {rate} each way, by veth and tc"));
    }
    about
}

/// A socket's path is 107 bytes at the most (unix(7)); PostgreSQL's has 14 of them for its name.
fn check_socket(room: &Room) -> Result<(), Error> {
    const MOST: usize = 107 - 16;
    let length = room.path.as_os_str().len();
    if length <= MOST {
        return Ok(());
    }
    Err(Error::Unsupported(format!(
        "the path of the server's folder, `{}`, is {length} bytes long, and with more than {MOST} a socket in it has no name; use a \
         notebook with a shorter path, or run it as root",
        room.path.display()
    )))
}

/// What clients are given besides their own scripts.
fn write_scripts(room: &Room) -> Result<(), Error> {
    for (name, text) in script::all() {
        write_readable(&room.place.join(name), &text)?;
    }
    Ok(())
}

/// A new file in the server's folder that it can read, whatever the umask is. That folder may belong to the
/// server, so that nothing is written through a link there.
fn write_readable(path: &Path, text: &str) -> Result<(), Error> {
    let write = || {
        let mut file = files::durable::create_new(path, files::durable::Permissions::Plain)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())
    };
    write().map_err(|e| Error::file("write", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_shows_the_address_that_a_server_gets() {
        assert_eq!(Link::ADDRESS, workloads::server::ADDRESS);
    }
}
