//! How well `flyball replay` predicts: studies of `benches/replay` are measured under several policies, and
//! each policy is predicted from each other.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where they are measured.
const PLACES: [&str; 2] = ["lab", "sim"];

/// The studies, in the order in which they are measured.
const STUDIES: [&str; 11] = [
    "crypt",
    "raid10",
    "raid5",
    "disks",
    "fsync",
    "oltp",
    "bursts",
    "pstate",
    "hwp",
    "passive",
    "passive-hwp",
];

/// Measures studies, all where none is named, and prints their tables. `--on sim` takes the model of the
/// lab's machine, `--on lab`, the default, the lab.
pub fn run(words: &[&str]) -> Result<Option<Vec<String>>, Box<dyn Error>> {
    let (place, names) = match words {
        ["--on", place, names @ ..] if PLACES.contains(place) => (*place, names),
        ["--on", ..] => return Ok(None),
        names => ("lab", names),
    };
    if names.iter().any(|name| !STUDIES.contains(name)) {
        return Ok(None);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let notebook = root.join("target/replay-truth").join(place);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built =
        Command::new(cargo).args(["build", "--release", "--locked", "--quiet", "--workspace"]).status()?;
    if !built.success() {
        return Ok(Some(vec![format!("the build: {built}")]));
    }
    let program: PathBuf = root.join("target/release/flyball");
    let mut problems = Vec::new();
    for name in if names.is_empty() { &STUDIES[..] } else { names } {
        let study = root.join(format!("benches/replay/{name}.toml"));
        let mut measure = Command::new(&program);
        measure.arg("--notebook").arg(&notebook);
        match place {
            "sim" => measure.arg("run").arg(&study).args(["--on", "sim", "--new", "--seed", "1"]),
            _ => measure.args(["lab", "run"]).arg(&study),
        };
        let measured = measure.stdout(std::process::Stdio::null()).status()?;
        // 3: some trials did not count.
        if !matches!(measured.code(), Some(0 | 3)) {
            problems.push(format!("{name}: {measured}"));
            continue;
        }
        println!("{name}, {place}");
        let mut check = Command::new(&program);
        let checked = check
            .arg("--notebook")
            .arg(&notebook)
            .args(["replay", &format!("replay-{name}"), "--check"])
            .status()?;
        if !checked.success() {
            problems.push(format!("{name}: {checked}"));
        }
    }
    Ok(Some(problems))
}
