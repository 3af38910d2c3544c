//! Servers that are somebody's and run already: asked through their own client programs, and never started,
//! stopped or configured. What Flyball makes in one is a database of its own, which the ledger knows before
//! it appears ([`Ledger::make_database`](crate::Ledger::make_database)).
//!
//! The clients are the servers' own (`psql`, `mariadb`), as mdadm and lvm are for storage: they know each way
//! to authenticate, and sysbench and pgbench are installed with them. They get no variable and no option file
//! of the user's.

mod client;
mod counters;
mod error;
mod login;
mod look;
mod password;
mod process;
mod session;

pub use client::{Client, Rows};
pub use counters::Questions;
pub use error::Error;
pub use login::{Login, NamedBy};
pub use look::Found;
pub use process::{ServerProcess, find as find_process};
pub use session::Session;
