//! Data sets in a server that is somebody's: each in a database of Flyball's own, which the ledger knows
//! before it is made. One is there at a time, as with servers of Flyball's own.

use super::steps::Steps;
use super::{Access, Trial, write_readable};
use crate::{Error, ExistingServer, tools};
use domain::study::Workload;
use domain::units::Bytes;
use machine::Ledger;
use machine::serving::ChangeSet;
use std::path::Path;
use workloads::server::{Connection, DataSet, Load};
use workloads::sysbench::script;

/// The database that is there, if any.
#[derive(Debug, Default)]
pub struct Databases {
    standing: Option<Standing>,
}

#[derive(Debug)]
struct Standing {
    data: DataSet,
    /// The database, and the folder of the clients' scripts.
    made: ChangeSet,
    access: Access,
}

impl Databases {
    /// Sees to it that the data are there that a workload asks for, in a database of their own. `work` takes
    /// the clients' scripts; only this user can write to it.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Database`], [`Error::Tool`] where the data cannot be made,
    /// [`Error::Interrupted`], [`Error::Stack`] where something cannot be made or taken down.
    pub fn ready(
        &mut self,
        ledger: &mut Ledger<'_>,
        workload: &Workload,
        server: &ExistingServer,
        work: &Path,
        trial: &Trial<'_>,
    ) -> Result<Access, Error> {
        let load = workloads::of(&workload.tool).server(&workload.options);
        let load =
            load.ok_or_else(|| Error::Unsupported(format!("{} asks no server", workload.tool.name())))?;
        let load = load.map_err(|error| Error::Unsupported(error.to_string()))?;
        let keeps = |standing: &&Standing| standing.data == load.data && !load.server.rebuild;
        if let Some(standing) = self.standing.as_ref().filter(keeps) {
            return Ok(standing.access.clone());
        }
        self.clear(ledger)?;
        server.check_room(Bytes::new(load.data.size()))?;
        let (access, made) = ledger.making(|ledger| make(ledger, &load, server, work, trial));
        match access {
            Ok(access) => {
                self.standing = Some(Standing { data: load.data, made, access: access.clone() });
                Ok(access)
            }
            Err(error) => {
                // That something stays in somebody's server matters more than why it was not finished.
                ledger.clear(&made)?;
                Err(error)
            }
        }
    }

    /// Every command that made the data that are there.
    pub fn commands(&self) -> &[Vec<String>] {
        self.standing.as_ref().map_or(&[], |standing| standing.access.commands.as_slice())
    }

    /// Drops the database.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn clear(&mut self, ledger: &mut Ledger<'_>) -> Result<(), Error> {
        match self.standing.take() {
            Some(standing) => Ok(ledger.clear(&standing.made)?),
            None => Ok(()),
        }
    }
}

fn make(
    ledger: &mut Ledger<'_>,
    load: &Load,
    server: &ExistingServer,
    work: &Path,
    trial: &Trial<'_>,
) -> Result<Access, Error> {
    let client = server.client();
    let options_file = match load.data {
        DataSet::Sysbench { .. } => client.options_file()?,
        DataSet::Pgbench { .. } => None,
    };
    let scripts = ledger.make_tree(work, "scripts")?;
    for (name, text) in script::all() {
        write_readable(&scripts.join(name), &text)?;
    }
    let name = ledger.name_database().map_err(|e| Error::file("read", Path::new("/dev/urandom"), e))?;
    ledger.make_database(client, &name)?;
    let connection = Connection {
        scripts,
        address: client.login().address.clone(),
        user: client.login().user.clone(),
        database: name,
        prefix: Vec::new(),
        programs: None,
        environment: client.environment(),
        options_file,
    };
    let mut steps = Steps { trial, user: None, environment: &connection.environment, commands: Vec::new() };
    steps.run("make the data set", "prepare", load.fill(&connection, &tools::host()))?;
    let commands = steps.commands;
    Ok(Access { connection, pid: server.pid(), about: server.shown(), commands })
}
