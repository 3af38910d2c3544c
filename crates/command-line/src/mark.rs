//! The arguments of `flyball mark`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct Mark {
    /// What begins now, in one line of at most 64 characters: `load`, `64 threads`
    #[arg(value_name = "NAME", value_parser = name)]
    pub name: String,
    /// Mark the recording that is written to this directory, as `record --out` named it
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

fn name(text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if length > domain::phase::Mark::MAX_NAME {
        return Err(format!(
            "a mark's name has at most {} characters, and this one {length}",
            domain::phase::Mark::MAX_NAME
        ));
    }
    domain::phase::Mark::name_of(text).ok_or_else(|| "a mark has a name, and this one is empty".to_owned())
}
