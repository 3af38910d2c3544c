//! `docs/promises.json`: the figures that were reached last, from which the document is written. A run of
//! some promises keeps the figures of the others.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// What was reached, by the promises' ids.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    pub figures: BTreeMap<String, Figure>,
}

/// One promise's figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    pub tried: u64,
    pub broken: u64,
    /// What the tests said beside.
    pub words: Vec<String>,
    /// Tests that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    pub date: String,
    pub machine: String,
    pub command: String,
    pub seconds: u64,
}

/// A file of this repository.
pub fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(name)
}

impl Kept {
    pub fn read() -> Result<Self, Box<dyn Error>> {
        let path = path("docs/promises.json");
        if !path.exists() {
            return Ok(Self::default());
        }
        Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
    }

    pub fn write(&self) -> Result<(), Box<dyn Error>> {
        fs::write(path("docs/promises.json"), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(())
    }
}

/// The machine and the day, as a figure names them.
pub struct Here {
    pub machine: String,
    pub date: String,
}

impl Here {
    pub fn look() -> Result<Self, Box<dyn Error>> {
        let said = |program: &str, arguments: &[&str]| -> Result<String, Box<dyn Error>> {
            let output = Command::new(program).args(arguments).output()?;
            Ok(String::from_utf8(output.stdout)?.trim().to_owned())
        };
        let cpus = std::thread::available_parallelism()?;
        let machine = format!("{cpus} CPUs, Linux {}", said("uname", &["-r"])?);
        Ok(Self { machine, date: said("date", &["-u", "+%Y-%m-%d"])? })
    }
}
