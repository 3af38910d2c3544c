//! A database server that is somebody's and runs already: looked at, and asked to hold a database of
//! Flyball's own. It is never started, stopped or configured, and nothing else in it is read.
//!
//! What Flyball decides at servers of its own (how durable a commit is, how much memory there is) is decided
//! by somebody else here, so that it is read and kept with each trial. Where the server runs on this machine,
//! its process leads to the folder of its data, and that to the storage below.

use crate::existing_folder::Room;
use crate::{Error, environment, fill};
use domain::database::Kind;
use domain::study;
use domain::units::Bytes;
use machine::LocalMachine;
use machine::database::{Client, Found, Login, NamedBy, ServerProcess};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A server that answers, as it is now.
#[derive(Debug)]
pub struct ExistingServer {
    client: Client,
    found: Found,
    process: Option<ServerProcess>,
    /// The disk below its data, as settings know it.
    device: Option<String>,
}

impl PartialEq for ExistingServer {
    fn eq(&self, other: &Self) -> bool {
        let identity = |server: &Self| (server.client.login().clone(), server.process.clone());
        identity(self) == identity(other)
    }
}

impl Eq for ExistingServer {}

impl ExistingServer {
    /// Asks a server of this kind about itself.
    ///
    /// # Errors
    /// [`Error::Database`] where it does not answer, or lets this user not in; [`Error::Unsupported`] where
    /// no database can be made in it.
    pub fn find(kind: Kind, server: &study::ExistingServer) -> Result<Self, Error> {
        let server = Self::look(kind, server, NamedBy::Study)?;
        if let Some(why) = &server.found.against {
            let login = server.client.login();
            return Err(Error::Unsupported(format!("cannot make a database in {login}: {why}")));
        }
        Ok(server)
    }

    /// The same, whether or not a database can be made in it.
    ///
    /// # Errors
    /// [`Error::Database`] where it does not answer, or lets this user not in.
    pub fn look(kind: Kind, server: &study::ExistingServer, named_by: NamedBy) -> Result<Self, Error> {
        let client = Client::open(Login::of(kind, server, named_by)?)?;
        let found = client.look(&LocalMachine)?;
        let process = client.process();
        let data = process.as_ref().and_then(|process| process.data.as_deref());
        let device = data.and_then(|data| environment::devices_below(&LocalMachine, data).into_iter().next());
        Ok(Self { client, found, process, device })
    }

    /// How it is asked.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// As whom Flyball comes there.
    pub fn user(&self) -> &str {
        &self.client.login().user
    }

    /// Its first process, where that is on this machine and visible.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// The folder of its data, where that is on this machine and visible.
    pub fn data(&self) -> Option<&Path> {
        self.process.as_ref()?.data.as_deref()
    }

    /// The disk below its data, as settings know it.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Looks whether tables of this size leave enough of the filesystem of its data free; how much is free is
    /// not known where that is not visible.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn check_room(&self, size: Bytes) -> Result<(), Error> {
        let Some(data) = self.data() else { return Ok(()) };
        fill::check_room(data, size, Room::look(data)?.reserve)
    }

    /// What it is and where its data are, a line each, for people.
    pub fn in_words(&self) -> Vec<String> {
        let process = self.pid().map_or_else(String::new, |pid| format!(", process {pid}"));
        let mut lines = vec![format!("{}{process}", self.found.version)];
        lines.push(match self.data() {
            None => "its data are not visible from here, so that neither the space there nor the storage below is known".into(),
            Some(data) => {
                let room = Room::look(data).map_or_else(|error| error.to_string(), |room| room.in_words());
                let device = self.device().map_or_else(String::new, |device| format!(", on {device}"));
                format!("its data are in {}{device} ({room})", data.display())
            }
        });
        let commits = DURABILITY
            .into_iter()
            .filter_map(|name| Some(format!("{name} = {}", shown(self.found.settings.get(name)?))));
        lines.push("its settings stay as they are; what a commit waits for:".into());
        lines.extend(commits.map(|setting| format!("  {setting}")));
        lines
    }

    /// For a trial's environment: which server it is, and its settings by their own names.
    pub(crate) fn shown(&self) -> BTreeMap<String, String> {
        let Login { kind, address, .. } = self.client.login();
        let target = format!("a database in {} at {address}, which ran already", kind.title());
        let mut all = self.state();
        all.insert("target".to_owned(), target);
        all
    }

    /// The same of a server that is only watched: its version, where its data are, its settings.
    pub(crate) fn state(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::from([("server".to_owned(), self.found.version.clone())]);
        let data = self.data().map_or_else(|| "not visible".to_owned(), |data| data.display().to_string());
        all.insert("server data".into(), data);
        all.extend(self.found.settings.iter().map(|(name, value)| (format!("server.{name}"), value.clone())));
        all
    }

    /// What is to be said of each trial: a commit that waits for no disk is another thing than one that does.
    pub(crate) fn warning(&self) -> Option<String> {
        let setting = self.found.not_durable()?;
        Some(format!(
            "this server may lose what it has committed (`{setting}`): its commits wait for no disk"
        ))
    }

    /// Why it is not the server any more that was found; `None` where nothing is known against it.
    pub(crate) fn changed(&self) -> Option<String> {
        let pid = self.pid()?;
        let now = self.client.process().map(|process| process.pid);
        (now != Some(pid)).then(|| match now {
            Some(now) => format!("the process {now} listens there, and {pid} did"),
            None => format!("its process {pid} is gone"),
        })
    }

    /// Where it listens, as a path or an address.
    pub(crate) fn address(&self) -> PathBuf {
        self.client.login().address.to_string().into()
    }
}

/// The settings that decide what a commit waits for, of either server.
const DURABILITY: [&str; 9] = [
    "fsync",
    "synchronous_commit",
    "synchronous_standby_names",
    "full_page_writes",
    "wal_sync_method",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "log_bin",
    "sync_binlog",
];

/// A value of a setting, which may be empty.
fn shown(value: &str) -> &str {
    if value.is_empty() { "(empty)" } else { value }
}
