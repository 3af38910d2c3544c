//! bonnie++ 2.00 or 1.9x (bonnie++(8)), in a folder of its own beside the target's file.
//!
//! Its CSV is read, which is exact; its table is kept as it is. How many seeks there are, and by how many processes, it has fixed,
//! and of Bonnie 1.x Debian has no package: what a study asks otherwise is refused here, and simulated with `--on sim`.

use super::{Driver, Invocation, Job};
use crate::Error;
use domain::outcome::Outcome;
use domain::units::Bytes;
use std::path::Path;
use workloads::bonnie::options::{Bonnie, Flavour};
use workloads::bonnie::report as bonnie;

pub(super) const DRIVER: Driver = Driver {
    program: Some(("bonnie++", "bonnie++")),
    invocation,
    outcome,
    complaints: &[super::STDERR, super::STDOUT],
};

/// `Seeks` and `SeekProcCount` of its `port.h` and `bonnie.h`; a file of a set is 1 GiB at the most (`IOFileSize`).
const SEEKS: u32 = 8192;
const SEEKERS: u32 = 5;
const FILE: Bytes = Bytes::from_mib(1024);

fn load(job: &Job<'_>) -> Result<Bonnie, Error> {
    Bonnie::parse(&job.workload.options).map_err(|error| super::refused("bonnie++", job, &error))
}

fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let load = load(job)?;
    check(&load)?;
    // In a plan the memory is that of a machine that is not known yet.
    let memory = if job.folder.is_some() { memory()? } else { Bytes::new(0) };
    let ram = load.ram.unwrap_or(memory);
    let size = load.total(memory);
    if size.get() < 2 * ram.get() {
        let why = format!(
            "it is less than twice the memory of {ram}, so that much of it would stay in memory; make it larger, or say \
             `ram = \"0\"` where that is meant"
        );
        return Err(Error::Option { tool: "bonnie++", key: "size".into(), value: size.to_string(), why });
    }
    let mib = |size: Bytes| size.get() >> 20;
    let folder = job.folder.map_or_else(|| "FOLDER".to_owned(), super::text);
    let size =
        if job.folder.is_none() && load.size.is_none() { "SIZE".to_owned() } else { mib(size).to_string() };
    let mut argv: Vec<String> = ["bonnie++", "-d", &folder, "-s"].map(str::to_owned).to_vec();
    argv.push(format!("{size}:{}", load.chunk.get()));
    argv.extend([
        "-r".to_owned(),
        mib(ram).to_string(),
        "-n".into(),
        "0".into(),
        "-m".into(),
        "flyball".into(),
    ]);
    if !load.per_char {
        argv.push("-f".into());
    }
    // It asks root for a user, and the folder is ours alone.
    if rustix::process::geteuid().is_root() {
        argv.extend(["-u".to_owned(), "root".into()]);
    }
    argv.push("-q".into());
    Ok(Invocation { argv, folder: Some(job.raw.to_owned()) })
}

/// What it cannot be told.
fn check(load: &Bonnie) -> Result<(), Error> {
    let refuse = |what: String| {
        Err(Error::Unsupported(format!("{what}; take it out, or run it with `flyball run STUDY --on sim`")))
    };
    match load {
        Bonnie { flavour: Flavour::Bonnie1, .. } => {
            refuse("there is no Bonnie 1.x here, which `flavour = \"bonnie-1\"` means".into())
        }
        Bonnie { seeks, .. } if *seeks != SEEKS => {
            refuse(format!("bonnie++ always does {SEEKS} `seeks`, not {seeks}"))
        }
        Bonnie { seekers, .. } if *seekers != SEEKERS => {
            refuse(format!("bonnie++ always has {SEEKERS} `seekers`, not {seekers}"))
        }
        Bonnie { file_size: Some(size), .. } if *size != FILE => {
            refuse(format!("bonnie++ always makes files of {FILE}, and a `file_size` of {size} is none"))
        }
        _ => Ok(()),
    }
}

/// The machine's memory.
fn memory() -> Result<Bytes, Error> {
    const PATH: &str = "/proc/meminfo";
    let text = std::fs::read_to_string(PATH).map_err(|e| Error::file("read", Path::new(PATH), e))?;
    let total = parse::kernel::meminfo::parse(&text).ok().and_then(|info| info.total);
    total.ok_or_else(|| Error::Tool(format!("`{PATH}` does not say how much memory there is")))
}

fn outcome(job: &Job<'_>, version: &str) -> Result<Outcome, Error> {
    let text = super::read_end(&job.raw.join(super::STDOUT), super::MOST_TEXT)?;
    let line = text.lines().rev().find(|line| bonnie::is_csv(line)).unwrap_or(&text);
    let outcome = bonnie::csv(line).map_err(|e| super::unusable(job, &e))?.outcome;
    Ok(Outcome { tool: version.to_owned(), ..outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::study::{Tool, Workload};

    fn made(options: &[(&str, &str)], folder: Option<&str>) -> String {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let workload = Workload { name: "b".into(), tool: Tool::Bonnie, options };
        let raw = Path::new("/n/raw");
        let job = Job { workload: &workload, target: None, raw, server: None, folder: folder.map(Path::new) };
        invocation(&job).map_or_else(|error| error.to_string(), |made| made.argv.join(" "))
    }

    #[test]
    fn the_command_is_literal() {
        let user = if rustix::process::geteuid().is_root() { " -u root" } else { "" };
        let small = [("size", "64MiB"), ("ram", "0"), ("per_char", "false"), ("chunk", "16k")];
        assert_eq!(
            made(&small, Some("/w/b")),
            format!("bonnie++ -d /w/b -s 64:16384 -r 0 -n 0 -m flyball -f{user} -q")
        );
        assert_eq!(made(&[], None), format!("bonnie++ -d FOLDER -s SIZE:8192 -r 0 -n 0 -m flyball{user} -q"));
    }

    #[test]
    fn a_set_that_stays_in_memory_is_refused_unless_it_is_meant() {
        let told = made(&[("size", "64MiB")], Some("/w/b"));
        assert!(
            told.starts_with("cannot give `size = 64 MiB` to bonnie++: it is less than twice the memory"),
            "{told}"
        );
    }

    #[test]
    fn what_it_cannot_be_told_is_refused() {
        for (option, value) in [("seeks", "4000"), ("seekers", "3"), ("flavour", "bonnie-1")] {
            let told = made(&[(option, value)], None);
            assert!(told.contains(&format!("`{option}")) && told.contains("--on sim"), "{told}");
        }
    }
}
