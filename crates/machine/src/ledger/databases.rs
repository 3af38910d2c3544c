//! Databases of Flyball's own in servers that are somebody's: written down before they appear, and dropped
//! only by a name that Flyball gives, in the server that they were made in.

use super::Ledger;
use super::built::Built;
use super::report::UndoOutcome;
use crate::Machine;
use crate::database::{Client, Error, Login, NamedBy};
use crate::stack::names;
use domain::database::{Address, Kind, OWN_PREFIX, check_name, is_own_name};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A database of ours, and how its server is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnDatabase {
    /// Its name, which has a random part.
    pub name: String,
    /// The kind of its server, as a study has it.
    pub server: String,
    /// Where that listens.
    pub address: String,
    /// As whom Flyball comes there.
    pub user: String,
    /// A file whose first line is that user's password. The password is in no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,
    /// The database that PostgreSQL's client connects to.
    pub connect: String,
    /// What tells the server's data from another's, where it says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The folder of its data, and the number of the device that this is on, where it is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<(String, u64)>,
}

impl OwnDatabase {
    /// `Err` says what is wrong with the record.
    pub(super) fn login(&self) -> Result<Login, String> {
        let kind =
            Kind::of_name(&self.server).ok_or_else(|| format!("`{}` is no kind of server", self.server))?;
        let address = Address::parse(&self.address).map_err(|why| format!("the address {why}"))?;
        for name in [&self.user, &self.connect] {
            check_name(name).map_err(|why| format!("a name {why}"))?;
        }
        if !is_own_name(&self.name) {
            return Err(format!("`{}` is no name that Flyball gives to a database", self.name));
        }
        let (user, database) = (self.user.clone(), self.connect.clone());
        // Only a study has a database made.
        let named_by = NamedBy::Study;
        Ok(Login { kind, address, user, password_file: self.password_file.clone(), database, named_by })
    }

    pub(super) fn what(&self) -> String {
        let kind = Kind::of_name(&self.server).map_or(self.server.as_str(), |kind| kind.title());
        format!("database {} of {kind} at {}", self.name, self.address)
    }

    /// Whether it is gone with all of its server: the folder of its data is not there, in the filesystem
    /// where it was.
    fn went_with_its_server(&self) -> bool {
        let Some((path, device)) = &self.data else { return false };
        let path = Path::new(path);
        let is_absent =
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let above = path.parent().and_then(|parent| fs::metadata(parent).ok());
        is_absent && above.is_some_and(|above| above.dev() == *device)
    }
}

impl Ledger<'_> {
    /// A name for a database that nobody else has at the time.
    ///
    /// # Errors
    /// Where there are no random numbers.
    pub fn name_database(&self) -> io::Result<String> {
        Ok(format!("{OWN_PREFIX}{}", names::token()?))
    }

    /// Makes an empty database in a server that is there, under a name of [`Ledger::name_database`]. It is
    /// dropped with all that is put into it when the ledger is finished, and after a crash.
    ///
    /// # Errors
    /// [`Error::Exists`] where there is one of that name, which is not touched; [`Error::Refused`];
    /// [`Error::Ledger`].
    pub fn make_database(&mut self, client: &Client, name: &str) -> Result<(), Error> {
        if client.has(self.machine, name)? {
            let server = client.login().to_string();
            return Err(Error::Exists { name: name.to_owned(), server });
        }
        let login = client.login();
        let data = client.process().and_then(|process| process.data).and_then(|path| {
            let device = fs::metadata(&path).ok()?.dev();
            Some((path.to_str().filter(|path| !path.starts_with("/proc/"))?.to_owned(), device))
        });
        let database = OwnDatabase {
            name: name.to_owned(),
            server: login.kind.name().to_owned(),
            address: login.address.to_string(),
            user: login.user.clone(),
            password_file: login.password_file.clone(),
            connect: login.database.clone(),
            identity: client.identity(self.machine),
            data,
        };
        self.announce_built(Built::Database(database))?;
        client.create(self.machine, name)
    }
}

/// Drops it. `Err` says why it is still there, or may be.
pub(super) fn remove(machine: &dyn Machine, database: &OwnDatabase) -> Result<UndoOutcome, String> {
    if database.went_with_its_server() {
        return Ok(UndoOutcome::Gone("the data of its server are not there any more".into()));
    }
    let client = reach(machine, database)?;
    let said = |error: Error| error.to_string();
    // What was begun when this process's like was killed may only appear now.
    let was_there = client.has(machine, &database.name).map_err(said)?;
    client.drop_database(machine, &database.name).map_err(said)?;
    if client.has(machine, &database.name).map_err(said)? {
        return Err("it is still there after it was dropped; run `flyball restore`".into());
    }
    Ok(if was_there { UndoOutcome::Removed } else { UndoOutcome::Untouched })
}

/// Whether it is there now.
pub(super) fn is_there(machine: &dyn Machine, database: &OwnDatabase) -> Result<bool, String> {
    if database.went_with_its_server() {
        return Ok(false);
    }
    reach(machine, database)?.has(machine, &database.name).map_err(|error| error.to_string())
}

/// The server that it was made in, and no other that listens there now.
fn reach(machine: &dyn Machine, database: &OwnDatabase) -> Result<Client, String> {
    let client = Client::open(database.login()?).map_err(|error| error.to_string())?;
    let answers = client.ask(machine, &["SELECT 1"]);
    answers.map_err(|error| format!("{error}; once that server answers again, run `flyball restore`"))?;
    match (&database.identity, client.identity(machine)) {
        (Some(made_in), Some(now)) if *made_in != now => Err(format!(
            "another server answers at {} now (its identity is {now}, and was {made_in}); start the one that it was made in, then run `flyball restore`",
            database.address
        )),
        _ => Ok(client),
    }
}
