//! A machine's load in the lab: a guest with a real kernel, by the commands that a user types.
//!
//! A machine with a frequency driver has CPUs of 128 million instructions a second, on a clock that is eight
//! times slower than the host's. One without is as fast as the emulator, on the host's clock.
//!
//! Runs are kept: a load whose study is the same is not run again, and what was run is judged by the rules
//! as they are.

use crate::draw::of;
use crate::exam::{Bench, Said};
use crate::recipe::{Cpu, Disk, Driver, Means, Recipe};
use domain::finding::Confidence;
use domain::rng::Rng;
use domain::setting::{SettingName, SettingRequest};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Guests of a program.
pub struct Lab {
    /// The program.
    pub flyball: PathBuf,
    /// Where studies and what they gave are kept.
    pub folder: PathBuf,
}

/// The table of P-states of `benches/replay`, whose lowest state is no slower than a guest can bear.
const ACPI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/replay/laptop-4.toml");

/// A CPU of the lab.
pub fn cpu(rng: &mut Rng) -> Cpu {
    let driver = of(
        rng,
        &[Driver::None, Driver::None, Driver::None, Driver::Acpi, Driver::IntelPstate, Driver::IntelHwp],
    );
    let mhz = match driver {
        Driver::Acpi => [1050, 2800, 2800],
        Driver::IntelPstate | Driver::IntelHwp => [800, 4000, 4200],
        Driver::None => [1000, 1000, 1000],
    };
    let count = if driver == Driver::None { 2 } else { 1 };
    Cpu { count, driver, governor: "performance", epp: "balance_performance", mhz, deep_us: 0 }
}

/// Whether the lab has what this illness is made of. Its CPUs have one way to encrypt.
pub fn can_have(illness: &str) -> bool {
    illness != "cipher without instructions"
}

/// What the lab cannot run, or not within a minute, is made so that it can.
pub fn mend(recipe: &mut Recipe) {
    // A spinning disk serves a hundred requests while a slowed clock goes on for a second.
    let is_paced = recipe.cpu.driver != Driver::None;
    recipe.disk = match recipe.disk {
        Disk::Hdd if is_paced => Disk::Sata,
        // Emulated flash answers too late on the host's clock.
        Disk::Sata if !is_paced => Disk::Hdd,
        // Devices in memory are alike, and what streams of writes fill is the host's memory.
        Disk::Nvme if recipe.slow_member || recipe.load.access == "write" => {
            if is_paced {
                Disk::Sata
            } else {
                Disk::Hdd
            }
        }
        disk => disk,
    };
    // What the page cache took in seconds a spinning disk writes for minutes, and the trial ends with it.
    let is_buffered = !recipe.load.is_direct && !recipe.load.is_synced;
    recipe.load.is_direct |= recipe.disk == Disk::Hdd && recipe.load.writes() && is_buffered;
    // The driver takes a limit to the state below it, and what is read back is not what was asked for.
    if let Some(limit) = recipe.settings.get_mut("max_freq")
        && recipe.cpu.driver == Driver::Acpi
    {
        "1400MHz".clone_into(limit);
    }
    // Intel's tables have deep states, as deep as the table says; a machine without is one that may not enter
    // them.
    if !has_deep_states(&recipe.cpu) {
        recipe.cpu.deep_us = 0;
    }
    // Such a CPU encrypts two and a half megabytes a second.
    if is_paced && !recipe.load.is_random() {
        recipe.crypt = None;
    }
}

const fn has_deep_states(cpu: &Cpu) -> bool {
    matches!(cpu.driver, Driver::IntelPstate | Driver::IntelHwp)
}

impl Bench for Lab {
    fn throughput(&self, recipe: &Recipe, also: &[SettingRequest]) -> Result<f64, String> {
        throughput(&self.run(recipe, also)?)
    }

    fn watched(&self, recipe: &Recipe) -> Result<(f64, Vec<Said>), String> {
        let report = self.run(recipe, &[])?;
        let said = |finding: &Value| -> Option<Said> {
            let confidence = match finding["confidence"].as_str()? {
                "shown" => Confidence::Shown,
                "likely" => Confidence::Likely,
                _ => Confidence::Possible,
            };
            let settings = finding["remedy"]["settings"].as_array().map_or(&[][..], Vec::as_slice);
            let settings = settings.iter().filter_map(|text| request(text.as_str()?)).collect();
            Some(Said { rule: finding["rule"].as_str()?.to_owned(), confidence, settings })
        };
        let findings = report["findings"].as_array().ok_or("a report without findings")?;
        Ok((throughput(&report)?, findings.iter().filter_map(said).collect()))
    }
}

/// `NAME = VALUE`, as reports show a setting. The object is left out: a guest's device has another name in
/// each run.
fn request(text: &str) -> Option<SettingRequest> {
    let (name, value) = text.split_once(" = ")?;
    let setting = SettingName { object: None, ..SettingName::parse(name) };
    Some(SettingRequest { setting, value: value.to_owned() })
}

fn throughput(report: &Value) -> Result<f64, String> {
    let cell = report["cells"].get(0).ok_or("a report without a cell")?;
    cell["median"].as_f64().ok_or_else(|| "no trial counts".to_owned())
}

impl Lab {
    /// What `flyball explain --json` says of a machine's run.
    fn run(&self, recipe: &Recipe, also: &[SettingRequest]) -> Result<Value, String> {
        let mut recipe = recipe.clone();
        for SettingRequest { setting, value } in also {
            recipe.settings.insert(setting.to_string(), value.clone());
        }
        let text = study(&recipe);
        let kept = self.folder.join(format!("{:016x}", hash(&text)));
        let (file, name) = (kept.with_extension("toml"), kept.with_extension("run"));
        let run = match std::fs::read_to_string(&name) {
            Ok(run) => run,
            Err(_) => {
                write(&file, &text)?;
                let file = file.to_string_lossy();
                let report = self.json(&["lab", "run", &file, "--new", "--seed", "1"])?;
                let run = report["run"]["id"].as_str().ok_or("a report without a run")?.to_owned();
                write(&name, &run)?;
                run
            }
        };
        self.json(&["explain", &run])
    }

    fn json(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut command = Command::new(&self.flyball);
        command.arg("--notebook").arg(self.folder.join("notebook")).args(arguments).arg("--json");
        let output =
            command.output().map_err(|error| format!("cannot start {}: {error}", self.flyball.display()))?;
        let told = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("`flyball {}`: {told}", arguments.join(" ")));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{arguments:?}: {error}: {told}"))
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The study of one cell with its lab machine.
pub fn study(recipe: &Recipe) -> String {
    let mut recipe = recipe.clone();
    let Recipe { cpu, settings, .. } = &mut recipe;
    if cpu.driver != Driver::None {
        settings.insert("governor".into(), cpu.governor.into());
    }
    if cpu.driver == Driver::IntelHwp && cpu.governor != "performance" {
        settings.insert("epp".into(), cpu.epp.into());
    }
    if has_deep_states(cpu) && cpu.deep_us == 0 {
        settings.insert("cpu_dma_latency".into(), "10us".into());
    }
    let devices = |layer: &str| match (recipe.disk, layer) {
        // A device in memory that answers after a tenth of a millisecond.
        (Disk::Nvme, _) => "null_blk = \"1GiB\"\nattributes = \"irqmode=2 completion_nsec=100000\"".into(),
        (_, "journal") => "lab = [\"journal0\"]".into(),
        _ if recipe.slow_member => {
            let mut names: Vec<String> =
                (0..recipe.disks() - 1).map(|number| format!("\"disk{number}\"")).collect();
            names.push("\"slow0\"".into());
            format!("lab = [{}]", names.join(", "))
        }
        _ => "lab = [\"disk\"]".into(),
    };
    let is_paced = recipe.cpu.driver != Driver::None;
    let (runtime, repeats) = match (is_paced, recipe.disk) {
        (true, _) => ("2s", 1),
        (false, Disk::Hdd) => ("4s", 3),
        (false, _) => ("2s", 3),
    };
    let of_array = &["stripe_cache_size", "group_thread_cnt"];
    let mut text =
        recipe.study_with(&Means { devices: &devices, file: "128MiB", runtime, repeats, of_array });
    // Two kernels: one machine in three has the older.
    let kernel = if hash(&recipe.name).is_multiple_of(3) { "6.1" } else { "6.12" };
    let _ =
        writeln!(text, "\n[lab]\nkernel = \"{kernel}\"\nvcpus = {}\nmemory = \"1536MiB\"", recipe.cpu.count);
    let table = match recipe.cpu.driver {
        Driver::Acpi => Some(ACPI),
        Driver::IntelPstate => Some("i7-6700k-pstate"),
        Driver::IntelHwp => Some("i7-6700k-hwp"),
        Driver::None => None,
    };
    if let Some(table) = table {
        let _ = writeln!(text, "pstates = \"{table}\"\npace = 16e6\ndilation = 8");
    }
    let mut disks = |name: &str, model: &str, count: u32| {
        let _ = writeln!(
            text,
            "\n[[lab.disk]]\nname = \"{name}\"\ncount = {count}\nmodel = \"{model}\"\nsize = \"512MiB\""
        );
    };
    let model = match recipe.disk {
        Disk::Hdd => "plain-7200",
        Disk::Sata => "samsung-850-evo",
        Disk::Nvme => return text,
    };
    disks("disk", model, recipe.disks() - u32::from(recipe.slow_member));
    if recipe.slow_member {
        disks("slow", if recipe.disk == Disk::Hdd { "maxtor-5400-120gb" } else { "plain-7200" }, 1);
    }
    if recipe.has_journal_disk() {
        disks("journal", model, 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw;
    use crate::illness::ILLNESSES;
    use domain::rng::Seed;

    /// Fifty machines of each of four seeds.
    fn machines() -> impl Iterator<Item = Recipe> {
        let numbers = |seed| (0..50).map(move |number| draw::lab_machine(Seed(seed), number).0);
        (1..=4).flat_map(numbers)
    }

    #[test]
    fn the_studies_of_machines_and_of_each_cured_one_are_accepted() {
        for recipe in machines() {
            let cured = ILLNESSES.iter().filter_map(|illness| (illness.cure)(&recipe));
            for recipe in cured.chain([recipe.clone()]) {
                let text = study(&recipe);
                if let Err(errors) = parse::study::parse(&text) {
                    panic!("{}: {errors}\n{text}", recipe.name);
                }
            }
        }
    }

    #[test]
    fn a_cause_that_is_cured_is_another_study() {
        for recipe in machines() {
            for cured in ILLNESSES.iter().filter_map(|illness| (illness.cure)(&recipe)) {
                assert_ne!(study(&cured), study(&recipe), "{}", recipe.name);
            }
        }
    }

    #[test]
    fn no_machine_has_what_the_lab_cannot_run() {
        let mut seen = [0; 2];
        for recipe in machines() {
            let is_paced = recipe.cpu.driver != Driver::None;
            seen[usize::from(is_paced)] += 1;
            let refused = if is_paced { Disk::Hdd } else { Disk::Sata };
            assert_ne!(recipe.disk, refused, "{}", recipe.name);
            assert!(recipe.crypt.is_none_or(|crypt| crypt.has_instructions), "{}", recipe.name);
        }
        assert!(seen.iter().all(|count| *count >= 50), "{seen:?}");
    }

    #[test]
    fn a_setting_is_read_as_reports_show_it_and_without_its_object() {
        let read = request("read_ahead_kb@md0 = 4096").unwrap();
        assert_eq!((read.setting.to_string().as_str(), read.value.as_str()), ("read_ahead_kb", "4096"));
        assert_eq!(request("a sentence"), None);
    }
}
