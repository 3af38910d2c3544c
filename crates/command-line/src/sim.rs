//! The arguments of `flyball sim`.

use super::values::level;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Sim {
    /// List the machines that ship with Flyball; for a study, those that fit it first
    Machines {
        /// A study: a file, or one that ships by its name
        #[arg(value_name = "STUDY")]
        study: Option<PathBuf>,
    },
    /// Compare simulated runs with measured ones, cell by cell
    Fidelity(Fidelity),
    /// Fit a machine's unknown parameters to published values, and judge the fit by held-out rows
    Calibrate(Calibrate),
}

#[derive(Args, Debug)]
pub struct Calibrate {
    /// A study with `[[published]]` values: a file, or a name (`published/raid10`)
    #[arg(value_name = "STUDY")]
    pub study: PathBuf,
    /// The machine to fit: a name or a file [default: the study's]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Hold out the rows of this level, or with `metric=NAME` of this metric: they are not fitted to and
    /// judge the fit; may be given more than once [default: every second row]
    #[arg(long, value_name = "FACTOR=LEVEL", value_parser = level)]
    pub hold_out: Vec<(String, String)>,
    /// The seed of the search and of the simulation
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The most evaluations of the model in the search
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub budget: u32,
}

#[derive(Args, Debug)]
pub struct Fidelity {
    /// Measured runs, of this host or the lab, as in `show`
    #[arg(required = true, value_name = "RUN")]
    pub measured: Vec<String>,
    /// A simulated run of the same study; may be given more than once
    #[arg(long = "model", required = true, value_name = "RUN")]
    pub modelled: Vec<String>,
    /// The metric [default: the study's]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
}
