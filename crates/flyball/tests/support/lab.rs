//! Lab machines for tests: what they need, and one at a time.

use super::Place;
use domain::lab::Pacing;
use domain::trial::Trial;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// What a host says that is too slow, or too busy, for the table's pace.
pub const TOO_BUSY: [&str; 3] =
    ["is too fast for this host", "this host is too busy with other things", "the guest said nothing"];

/// What the plugin recorded of a trial's virtual CPUs.
pub fn pacing(trial: &Trial) -> &Pacing {
    trial.lab.as_ref().unwrap().pacing.as_ref().unwrap()
}

/// The share of its time that the virtual CPU which kept its pace worst was late by.
pub fn lateness(trial: &Trial) -> f64 {
    pacing(trial).lateness().unwrap_or(1.0)
}

/// The kernels of the tests: the series of Debian 12 and of its backports.
pub const KERNELS: [&str; 2] = ["6.1", "6.12"];

/// The kernels that a test of each boots: one that the seed chooses, and all where the whole is asked for.
pub fn kernels() -> Vec<&'static str> {
    let all = KERNELS.len();
    let extent = testing::Extent::of(1, all as u64);
    let first = extent.seed as usize % all;
    KERNELS.into_iter().cycle().skip(first).take(all.min(extent.count as usize)).collect()
}

/// Why no lab machine can be started here; `None` where one can. A program of tests asks once for each
/// kernel, for apt takes seconds to list them.
pub fn missing(place: &Place, kernel: &str) -> Option<String> {
    static ASKED: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());
    if !Path::new("/usr/bin/qemu-system-x86_64").exists() {
        return Some("needs QEMU (Debian's qemu-system-x86)".into());
    }
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let get = || {
        // Kernels that are not unpacked yet are downloaded.
        let output = place.output(&["lab", "kernels", "--get", kernel]);
        let needs = || format!("needs a kernel {kernel}: {}", super::stderr(&output).trim());
        (!output.status.success()).then(needs)
    };
    asked.entry(kernel.to_owned()).or_insert_with(get).clone()
}

/// Why no lab machine can have P-states here.
pub fn without_plugin() -> Option<String> {
    let beside = Path::new(env!("CARGO_BIN_EXE_flyball")).with_file_name("libpstate_plugin.so");
    (!beside.exists()).then(|| "needs the plugin (`cargo build --release -p pstate-plugin`)".into())
}

/// A file with the states of laptop-5, as [`slow_table`].
pub fn slow_pstates(place: &Place) -> String {
    slow_table(place, "laptop-5")
}

/// A file with the states of a shipped table, so slow that every host keeps up with them however busy it is:
/// for what is not measured.
pub fn slow_table(place: &Place, name: &str) -> String {
    let (_, text) = ::lab::pstates::shipped().find(|(shipped, _)| *shipped == name).unwrap();
    let slow =
        |line: &str| if line.starts_with("pace = ") { "pace = 1e6".to_owned() } else { line.to_owned() };
    let path = place.path(&format!("slow-{name}.toml"));
    std::fs::write(&path, text.lines().map(|line| slow(line) + "\n").collect::<String>()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A program that stands for QEMU: this shell line, with QEMU's arguments.
pub fn instead_of_qemu(place: &Place, line: &str) -> String {
    let path = place.path("qemu");
    std::fs::write(&path, format!("#!/bin/bash\n{line}\n")).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Why a program of the host, which the guest would get, is missing.
pub fn without(programs: &[&str]) -> Option<String> {
    let is_missing = |program: &&&str| {
        !["/usr/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(program).exists())
    };
    programs
        .iter()
        .find(is_missing)
        .map(|program| format!("needs `{program}`, for the guest gets this host's"))
}

/// The QEMU processes that a process started.
pub fn machines_of(parent: u32) -> Vec<u32> {
    let output =
        Command::new("ps").args(["-o", "pid=,comm=", "--ppid", &parent.to_string()]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let qemu = |line: &str| {
        let (pid, name) = line.trim().split_once(' ')?;
        name.trim().starts_with("qemu-system").then(|| pid.parse().unwrap())
    };
    text.lines().filter_map(qemu).collect()
}

/// One guest of a kernel for several tests of a file, which boots once and runs the script of each, one after
/// another. A script has a bash of its own, and the next one runs whatever becomes of it.
pub struct SharedGuest(Mutex<BTreeMap<String, Result<Answers, String>>>);

/// What each script said, by its name.
type Answers = BTreeMap<String, Said>;

/// What a script said.
#[derive(Clone, Debug, Default)]
pub struct Said {
    code: String,
    text: String,
    told: String,
}

impl Said {
    /// Wants that it ended well; gives its standard output.
    pub fn ok(self) -> String {
        assert_eq!(self.code, "0", "{}\n{}", self.text, self.told);
        self.text
    }
}

impl SharedGuest {
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// What one of these scripts said. The first test that asks boots the guest, and the others wait for it.
    pub fn said(
        &self,
        place: &Place,
        kernel: &str,
        options: &[&str],
        scripts: &[(&str, String)],
        name: &str,
    ) -> Said {
        let mut guests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let guest = guests.entry(kernel.to_owned()).or_insert_with(|| run(place, kernel, options, scripts));
        match guest {
            Ok(all) => all.get(name).cloned().unwrap_or_else(|| panic!("`{name}` did not end: {all:?}")),
            Err(why) => panic!("the guest in which `{name}` ran failed: {why}"),
        }
    }
}

/// What is before each part of what the scripts said.
const PART: &str = "\n@@@ ";

fn run(place: &Place, kernel: &str, options: &[&str], scripts: &[(&str, String)]) -> Result<Answers, String> {
    let mut all = "mkdir -p /run/scripts\n".to_owned();
    for (name, script) in scripts {
        let file = format!("/run/scripts/{name}");
        all += &format!("cat > {file} << 'END OF A SCRIPT'\n{script}\nEND OF A SCRIPT\n");
        all += &format!("bash {file} > {file}.text 2> {file}.told < /dev/null\n");
        all += &format!("printf '\\n@@@ {name} code %s' $?\n");
        for part in ["text", "told"] {
            all += &format!("printf '\\n@@@ {name} {part} '; cat {file}.{part}\n");
        }
    }
    let arguments = [&["lab", "exec", "--kernel", kernel], options, &["--", "bash", "-c", &all]].concat();
    let output = place.output(&arguments);
    if !output.status.success() {
        return Err(super::stderr(&output));
    }
    let mut said = Answers::new();
    for part in String::from_utf8_lossy(&output.stdout).split(PART).skip(1) {
        let mut words = part.splitn(3, ' ');
        let (name, what) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let rest = words.next().unwrap_or_default().to_owned();
        let one = said.entry(name.to_owned()).or_default();
        match what {
            "code" => one.code = rest,
            "text" => one.text = rest,
            _ => one.told = rest,
        }
    }
    Ok(said)
}
