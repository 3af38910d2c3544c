//! bonnie++ 2.00 or 1.9x (bonnie++(8)), in a folder of its own beside the target's file.
//!
//! Its CSV is read, which is exact; its table is kept as it is. How many seeks there are, and by how many
//! processes, it has fixed, and of Bonnie 1.x Debian has no package: what a study asks otherwise is refused
//! here, and simulated with `--on sim`.

use crate::bonnie::options::{Bonnie, Flavour};
use crate::bonnie::report as bonnie;
use crate::job::text;
use crate::{Error, Invocation, Job, User};
use domain::outcome::Outcome;
use domain::units::Bytes;
use std::io::BufRead;

/// `Seeks` and `SeekProcCount` of its `port.h` and `bonnie.h`; a file of a set is 1 GiB at the most
/// (`IOFileSize`).
const SEEKS: u32 = 8192;
const SEEKERS: u32 = 5;
const FILE: Bytes = Bytes::from_mib(1024);

fn load(job: &Job<'_>) -> Result<Bonnie, Error> {
    Bonnie::parse(&job.workload.options).map_err(|error| job.refused("bonnie++", &error))
}

pub(super) fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let load = load(job)?;
    check(&load)?;
    // In a plan the memory is that of a machine that is not known yet.
    let memory = if job.folder.is_some() { memory(job)? } else { Bytes::new(0) };
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
    let folder = job.folder.map_or_else(|| "FOLDER".to_owned(), text);
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
    if job.host.user == User::Root {
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
fn memory(job: &Job<'_>) -> Result<Bytes, Error> {
    let unknown = || Error::Tool("`/proc/meminfo` does not say how much memory there is".into());
    job.host.memory.ok_or_else(unknown)
}

pub(super) fn outcome(job: &Job<'_>, version: &str, report: &mut dyn BufRead) -> Result<Outcome, Error> {
    let text = job.text("bonnie++", report)?;
    let line = text.lines().rev().find(|line| bonnie::is_csv(line)).unwrap_or(&text);
    let outcome = bonnie::csv(line).map_err(|e| job.unusable(&e))?.outcome;
    Ok(Outcome { tool: version.to_owned(), ..outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use domain::study::{Tool, Workload};
    use std::path::Path;

    fn made(options: &[(&str, &str)], folder: Option<&str>) -> String {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let workload = Workload { name: "b".into(), tool: Tool::Bonnie, options };
        let raw = Path::new("/n/raw");
        let folder = folder.map(Path::new);
        let host = Host { cpus: 2, memory: Some(Bytes::from_mib(2048)), user: User::Other };
        let job = Job {
            workload: &workload,
            target: None,
            raw,
            server: None,
            folder,
            access: Default::default(),
            host,
        };
        invocation(&job).map_or_else(|error| error.to_string(), |made| made.argv.join(" "))
    }

    #[test]
    fn the_command_is_literal() {
        let small = [("size", "64MiB"), ("ram", "0"), ("per_char", "false"), ("chunk", "16k")];
        assert_eq!(made(&small, Some("/w/b")), "bonnie++ -d /w/b -s 64:16384 -r 0 -n 0 -m flyball -f -q");
        assert_eq!(made(&[], None), "bonnie++ -d FOLDER -s SIZE:8192 -r 0 -n 0 -m flyball -q");
    }

    #[test]
    fn root_says_that_it_is_meant() {
        let workload = Workload { name: "b".into(), tool: Tool::Bonnie, options: [].into() };
        let planned = Job::planned(&workload, None, Path::new("/n/raw"));
        let job = Job { host: Host { user: User::Root, ..planned.host }, ..planned };
        assert!(invocation(&job).unwrap().argv.join(" ").ends_with(" -m flyball -u root -q"));
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
