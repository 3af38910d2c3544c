//! The arguments of `flyball record`.

use super::values::{interval, server_kind, span};
use clap::Args;
use domain::Nanos;
use domain::database::{Address, ExistingServer, Kind, name_of};
use domain::event_set::Sets;
use domain::study::Measure;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct Record {
    /// The sampling interval, whatever it costs [default: 10ms, or what keeps sampling within 2% of a CPU]
    #[arg(long, value_name = "TIME", value_parser = interval, allow_hyphen_values = true)]
    pub interval: Option<Nanos>,
    /// Write the recording to this directory, outside any notebook [default: a run in the notebook]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Stop after this time [default: when what is recorded ends, or at Ctrl-C]
    #[arg(long = "for", alias = "duration", value_name = "TIME", value_parser = span)]
    pub duration: Option<Nanos>,
    /// Follow this running process and all that it starts; nothing is done to it
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,
    #[command(flatten)]
    pub events: Events,
    #[command(flatten)]
    pub server: Server,
    /// The command to run and record
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Which of the kernel's events the trials of a study record.
#[derive(Args, Clone, Debug, Default)]
pub struct StudyEvents {
    #[command(flatten)]
    pub events: Events,
    /// Record them in one more trial of each cell, which is not counted, rather than in all
    #[arg(long, requires = "sets")]
    pub events_apart: bool,
}

impl StudyEvents {
    /// Has a study's trials record them, where any were asked for.
    pub fn add_to(&self, measure: &mut Measure) {
        if let Some(sets) = &self.events.sets {
            measure.events = Some(sets.clone());
            measure.events_apart |= self.events_apart;
        }
    }
}

/// Which of the kernel's events are recorded beside the samples.
#[derive(Args, Clone, Debug, Default)]
pub struct Events {
    /// Record the kernel's events too: default, all, or power, sched, block, work, timer, lock, irq,
    /// hardirq, bios, calls, profile, with commas between
    #[arg(
        long = "events",
        value_name = "SET",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "default",
        value_parser = str::parse::<Sets>
    )]
    pub sets: Option<Sets>,
}

/// A database server that is watched by its own counters.
#[derive(Args, Clone, Debug, Default)]
pub struct Server {
    /// Read the counters of this database server too; nothing in it is changed
    #[arg(long, value_name = "KIND", value_parser = server_kind())]
    server: Option<Kind>,
    /// Its socket, PostgreSQL's folder of sockets, or HOST:PORT [default: Debian's socket]
    #[arg(long, value_name = "ADDRESS", requires = "server", value_parser = Address::parse)]
    server_address: Option<Address>,
    /// Ask it as this user [default: this user's name]
    #[arg(long, value_name = "NAME", requires = "server", value_parser = name_of)]
    server_user: Option<String>,
    /// A file whose first line is that user's password
    #[arg(long, value_name = "FILE", requires = "server")]
    server_password_file: Option<String>,
    /// The database that PostgreSQL's client connects to [default: postgres]
    #[arg(long, value_name = "NAME", requires = "server", value_parser = name_of)]
    server_database: Option<String>,
}

impl Server {
    /// Which one; `None` for none.
    pub fn named(&self) -> Option<(Kind, ExistingServer)> {
        let kind = self.server?;
        let address = self.server_address.clone().unwrap_or_else(|| kind.usual_address());
        let (user, database) = (self.server_user.clone(), self.server_database.clone());
        let password_file = self.server_password_file.clone();
        Some((kind, ExistingServer { address, user, password_file, database }))
    }
}
