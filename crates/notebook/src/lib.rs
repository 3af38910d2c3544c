//! The notebook: the folder where runs, their trials and their traces are kept.
//!
//! ```text
//! NOTEBOOK/
//!   notebook.json                 {"flyball_notebook": 1, "written_by": VERSION}
//!   index.sqlite                  rebuilt from the folders at any time
//!   runs/RUN/run.json  study.toml  machine.json  .lock
//!   runs/RUN/trials/KEY/          trial.json  trace.parquet  events.bin  storage.json  raw/…  reproduce.sh
//!   recordings/NAME/              recording.json  trace.parquet  raw/…   (of versions before 0.2)
//!   staging/                      what is being written
//! ```
//!
//! **A trial is there once and whole, or not at all.** Everything is written in `staging/`, made durable and
//! then renamed into its place; a rename over a trial that is there fails. What a killed program left in
//! `staging/` is removed when the notebook is next opened.
//!
//! **The folders are the truth.** The index serves `list` and people's own SQL; it is made again whenever it
//! differs from the folders, and can be thrown away. What cannot be read is skipped and reported as a
//! [`Problem`], and never stops anybody from reading the rest.
//!
//! Not here: what trials mean. That is `analysis`.

mod error;
mod index;
mod isolated;
pub mod kept;
mod notebook;
mod reading;
pub mod record;
mod recording;
mod removal;
mod run_folder;
mod selector;
mod trace;
mod whole_run;

pub use error::{Error, Result};
pub use index::{Index, TrialCounts};
pub use notebook::Notebook;
pub use reading::{Problem, RunEntry};
pub use recording::{Recording, RecordingFolder};
pub use run_folder::{RunFolder, Staging};
pub use trace::{TIME_COLUMN, TraceReader, TraceSink};
pub use whole_run::WholeRun;
