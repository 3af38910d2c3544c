//! `reproduce.sh`: a trial as a script of literal commands, for people without Flyball.
//!
//! It makes its own target in a new folder and refuses to run where that folder exists; settings are written
//! after the old value was kept, and put back at its end, whichever way it ends.

use crate::beside::BesideCommand;
use domain::setting::SettingRecord;
use domain::study::Target;
use domain::trial::Trial;
use std::fmt::Write;
use std::path::Path;
use workloads::server::PASSWORD_OPTION;

/// Where the trial's files were; these paths become variables of the script.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The target that the commands name.
    pub target: Option<&'a Path>,
    /// The target's kernel name, where it is a block device: `loop3`, `dm-0`.
    pub device: Option<&'a str>,
    /// What built the stack below the target, where Flyball built one.
    pub stack: &'a [Vec<String>],
    /// What made the server that the commands ask, where Flyball made one.
    pub server: &'a [Vec<String>],
    /// What ran beside the workload.
    pub beside: &'a [BesideCommand],
    /// The folder that took the tools' raw output.
    pub raw: &'a Path,
}

impl<'a> Places<'a> {
    /// Those of a target.
    pub fn of(target: Option<&'a crate::Target>, raw: &'a Path) -> Self {
        Self {
            target: target.map(crate::Target::path),
            device: target.and_then(crate::Target::device),
            stack: target.map_or(&[], crate::Target::built_by),
            server: &[],
            beside: &[],
            raw,
        }
    }

    /// With what ran beside the workload.
    pub fn with_beside(self, beside: &'a [BesideCommand]) -> Self {
        Self { beside, ..self }
    }

    /// With what made the server.
    pub fn with_server(self, server: &'a [Vec<String>]) -> Self {
        Self { server, ..self }
    }
}

/// The script of a trial. `commands` are what it ran, also where it failed and has no measurement.
pub fn script(trial: &Trial, target: &Target, commands: &[Vec<String>], places: &Places<'_>) -> String {
    let mut text = head(trial);
    make_target(&mut text, target, places);
    write_settings(&mut text, &trial.settings, target, places);
    drop_caches(&mut text, trial);
    name_server(&mut text, target, places.server);
    start_beside(&mut text, places);
    text.push_str("\n# What was run.\n");
    for argv in commands {
        let words = argv.iter().filter(|word| !word.starts_with(PASSWORD_OPTION));
        let words: Vec<String> = words.map(|word| argument(word, places)).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "LC_ALL=C {}", words.join(" "));
    }
    text
}

fn head(trial: &Trial) -> String {
    let comment = |text: &str| text.replace(|c: char| c.is_control(), " ");
    let mut text = String::from("#!/bin/sh\n");
    let _ = writeln!(text, "# Trial {} of {}", comment(&trial.key.folder()), comment(&trial.run.0));
    let _ = writeln!(text, "# Study {}, workload {}", comment(&trial.study), comment(&trial.workload));
    let _ = writeln!(text, "# Measured {}", trial.started.iso());
    for (name, value) in &trial.environment {
        let _ = writeln!(text, "#   {}: {}", comment(name), comment(value));
    }
    text.push_str(
        r#"#
# usage: sh reproduce.sh NEW-FOLDER    makes the folder, its target in it, and leaves the results there.
set -eu
WORK=${1:?"name a new folder to work in"}
if [ -e "$WORK" ] || [ -L "$WORK" ]; then
    echo "cannot make \`$WORK\`: it exists; name a folder that does not" >&2
    exit 1
fi
mkdir -m 700 "$WORK"
WORK=$(cd "$WORK" && pwd)
RAW=$WORK/raw
mkdir "$RAW"
LOOP=
put_back() {
    # Last written, first put back.
    while IFS=' ' read -r file value; do
        echo "$value" > "$file"
    done < "$WORK/settings.old"
    if [ -n "$LOOP" ]; then losetup --detach "$LOOP"; fi
    rm -f "$WORK/target"
}
: > "$WORK/settings.old"
trap put_back EXIT
trap 'exit 130' INT TERM HUP
"#,
    );
    text
}

fn make_target(text: &mut String, target: &Target, places: &Places<'_>) {
    if !places.stack.is_empty() {
        return name_top(text, places.stack);
    }
    let size = match target {
        Target::None | Target::Server(_) => return,
        Target::LabDevice(path) => return name_target(text, path),
        Target::ReadOnly(path) => return name_readable(text, path),
        Target::File(size) | Target::Loop(size) | Target::Folder { size, .. } => size,
    };
    let _ =
        writeln!(text, "\n# A target of {size}; Flyball filled it from a seed, which is as incompressible.");
    let _ = writeln!(text, "TARGET=$WORK/target");
    let _ = writeln!(text, "head -c {} /dev/urandom > \"$TARGET\"", size.get());
    if matches!(target, Target::Loop(_)) {
        text.push_str("LOOP=$(losetup --find --show --direct-io=on \"$TARGET\")\nTARGET=$LOOP\n");
    }
    text.push_str("sync\n");
}

/// A lab machine's device is nowhere else what it was there: the script never takes one that it was not told.
fn name_target(text: &mut String, path: &str) {
    let path = one_line(path);
    let _ = writeln!(
        text,
        "\n# The target was `{path}` of a lab machine, which held nothing; the study's [lab] makes it."
    );
    text.push_str(
        r#"# usage: sh reproduce.sh NEW-FOLDER DEVICE    reads or overwrites DEVICE
TARGET=$(readlink -f "${2:?"name the block device to run on; what it holds may be overwritten"}")
if [ ! -b "$TARGET" ]; then
    echo "cannot run on \`$TARGET\`: it is no block device" >&2
    exit 1
fi
"#,
    );
}

/// What was read is somebody's, and may be another thing elsewhere: people name what is to be read.
fn name_readable(text: &mut String, path: &str) {
    let path = one_line(path);
    let _ = writeln!(text, "\n# The target was `{path}`, which was there and was only read.");
    text.push_str(
        r#"# usage: sh reproduce.sh NEW-FOLDER TARGET    reads TARGET, a block device or a file
TARGET=$(readlink -f "${2:?"name the block device or file to read"}")
if [ ! -b "$TARGET" ] && [ ! -f "$TARGET" ]; then
    echo "cannot read \`$TARGET\`: it is neither a block device nor a file" >&2
    exit 1
fi
"#,
    );
}

/// The devices below a stack are no others' business: people build one like it, and name its top.
fn name_top(text: &mut String, commands: &[Vec<String>]) {
    text.push_str(
        "\n# The target was on a stack of storage that these commands built, on devices that held nothing:\n",
    );
    for argv in commands {
        let words: Vec<String> = argv.iter().map(|word| quoted(&one_line(word))).collect();
        let _ = writeln!(text, "#     {}", words.join(" "));
    }
    text.push_str(
        r#"# usage: sh reproduce.sh NEW-FOLDER TARGET    reads or overwrites TARGET: the block device on top of a stack like
# this one, or a file of the size in its filesystem.
TARGET=$(readlink -f "${2:?"name the block device, or the file, to run on; what it holds may be overwritten"}")
DEVICE=$TARGET
if [ ! -b "$TARGET" ]; then DEVICE=$(readlink -f "$(findmnt --noheadings --output SOURCE --target "$TARGET")"); fi
if [ ! -b "$DEVICE" ]; then
    echo "cannot run on \`$TARGET\`: it is neither a block device nor a file on one" >&2
    exit 1
fi
"#,
    );
}

/// A server is no business of a script that may be run anywhere: people make one like it, and change the
/// socket's path below.
fn name_server(text: &mut String, target: &Target, commands: &[Vec<String>]) {
    if commands.is_empty() {
        return;
    }
    text.push_str(match target {
        Target::Server(_) => {
            "\n# The server was there. Make an empty database in yours, fill it by this command, and drop it at the end.\n\
             # A password is in ~/.pgpass, or for sysbench and MariaDB in a file behind --config-file.\n"
        }
        _ => "\n# The server was made, filled, started and warmed by these commands; make one like it:\n",
    });
    for argv in commands {
        let words = argv.iter().filter(|word| !word.starts_with(PASSWORD_OPTION));
        let words: Vec<String> = words.map(|word| quoted(&one_line(word))).collect();
        let _ = writeln!(text, "#     {}", words.join(" "));
    }
}

/// Each leads a process group of its own, by which all that it starts is ended with it.
fn start_beside(text: &mut String, places: &Places<'_>) {
    let Some(lead) = places.beside.iter().map(|load| load.lead).max() else { return };
    text.push_str(
        r#"
# What ran beside it, from before its start until it had ended.
BESIDE=
# To the group, or to the process that is to lead one and does not yet.
signal_beside() {
    kill -s "$1" -- "-$2" 2> /dev/null || kill -s "$1" "$2" 2> /dev/null
}
has_ended() {
    left=$2
    while signal_beside 0 "$1"; do
        if [ "$left" -eq 0 ]; then return 1; fi
        left=$((left - 1))
        sleep 0.1
    done
}
# What has left its group and outlives its leader is not ended.
end_beside() {
    for group in $BESIDE; do
        signal_beside TERM "$group" || true
    done
    for group in $BESIDE; do
        if has_ended "$group" 30; then continue; fi
        signal_beside KILL "$group" || true
        has_ended "$group" 100 || echo "cannot end the process group $group, which ran beside the workload" >&2
    done
}
trap 'end_beside; put_back' EXIT
"#,
    );
    for load in places.beside {
        let folder = argument(&load.folder.to_string_lossy(), places);
        let words: Vec<String> = load.argv.iter().map(|word| argument(word, places)).collect();
        let _ = writeln!(text, "mkdir {folder}");
        let _ = writeln!(text, "LC_ALL=C setsid {} > /dev/null &", words.join(" "));
        text.push_str("BESIDE=\"$BESIDE $!\"\n");
    }
    let _ = writeln!(text, "sleep {}", lead.secs());
}

fn drop_caches(text: &mut String, trial: &Trial) {
    match trial.environment.get("caches").map(String::as_str) {
        Some(crate::DROPPED_ALL) => {
            text.push_str("\n# The page cache was dropped.\nsync\necho 3 > /proc/sys/vm/drop_caches\n");
        }
        Some(crate::DROPPED_TARGET) => text.push_str(
            "\n# The target's cached pages were dropped.\ndd if=\"$TARGET\" iflag=nocache count=0 status=none\n",
        ),
        _ => {}
    }
}

fn write_settings(text: &mut String, records: &[SettingRecord], target: &Target, places: &Places<'_>) {
    if records.is_empty() {
        return;
    }
    text.push_str(
        r#"
# The settings; each old value is kept first. A choice such as `none [mq-deadline]` is kept as its chosen word.
setting() {
    old=$(sed 's/.*\[\(.*\)\].*/\1/' "$1")
    { echo "$1 $old"; cat "$WORK/settings.old"; } > "$WORK/settings.new"
    mv "$WORK/settings.new" "$WORK/settings.old"
    echo "$2" > "$1"
}
"#,
    );
    for record in records {
        let _ = writeln!(
            text,
            "# {}: was {}, asked {}, got {}",
            one_line(&record.setting.to_string()),
            one_line(&record.before),
            one_line(&record.asked),
            one_line(&record.got)
        );
        if machine::settings::is_held(&record.path) {
            hold(text, record);
            continue;
        }
        let _ =
            writeln!(text, "setting {} {}", device_path(&record.path, target, places), quoted(&record.got));
    }
}

/// A limit that is in force while the script has the device open. The kernel reads text as hexadecimal.
fn hold(text: &mut String, record: &SettingRecord) {
    let path = quoted(&record.path);
    let _ = writeln!(text, "exec 9<> {path}\nprintf '0x%08x' {} >&9", quoted(&record.got));
}

/// The path of a setting; that of the target's own device goes by the one that the script makes or is told.
fn device_path(path: &str, target: &Target, places: &Places<'_>) -> String {
    let variable = match target {
        _ if !places.stack.is_empty() => "DEVICE",
        Target::LabDevice(_) => "TARGET",
        // The disk that was there is named as it is.
        Target::ReadOnly(_) | Target::Folder { .. } | Target::Server(_) => return quoted(path),
        _ => "LOOP",
    };
    let device = places.device.map(|name| format!("/sys/block/{name}/"));
    match device.and_then(|folder| path.strip_prefix(&folder).map(str::to_owned)) {
        Some(rest) => format!("\"/sys/block/${{{variable}##*/}}/\"{}", quoted(&rest)),
        None => quoted(path),
    }
}

/// One argument, with the trial's own paths turned into the script's variables.
fn argument(word: &str, places: &Places<'_>) -> String {
    let mut own = vec![(places.raw.to_string_lossy().into_owned(), "\"$RAW\"")];
    own.extend(places.target.map(|path| (path.to_string_lossy().into_owned(), "\"$TARGET\"")));
    // fio's file names have their colons escaped.
    own.extend(places.target.map(|path| (path.to_string_lossy().replace(':', "\\:"), "\"$TARGET\"")));
    let found = own.iter().find_map(|(path, variable)| Some((word.split_once(path.as_str())?, *variable)));
    match found {
        Some(((before, after), variable)) => {
            format!("{}{variable}{}", quoted_part(before), quoted_part(after))
        }
        None => quoted(word),
    }
}

fn quoted_part(text: &str) -> String {
    if text.is_empty() { String::new() } else { quoted(text) }
}

/// As sh reads it back, whatever it holds.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{CellId, RunId, TrialKey};
    use domain::setting::SettingName;
    use domain::time::{Nanos, Timestamp};
    use domain::trial::{Provenance, Validity};
    use domain::units::Bytes;
    use proptest::prelude::*;
    use std::process::Command;

    fn trial() -> Trial {
        let record = |name: &str, path: &str, got: &str| SettingRecord {
            setting: SettingName::parse(name),
            path: path.into(),
            before: "128".into(),
            asked: got.into(),
            got: got.into(),
            after: None,
        };
        Trial {
            run: RunId("quick-1".into()),
            key: TrialKey { block: 0, cell: CellId::new(["read", "4k"]), attempt: 0 },
            study: "quick".into(),
            workload: "read".into(),
            levels: Default::default(),
            provenance: Provenance::Host,
            machine: "m".into(),
            started: Timestamp::from_unix_nanos(0),
            settings: vec![
                record("read_ahead_kb@loop3", "/sys/block/loop3/queue/read_ahead_kb", "16"),
                record("vm.dirty_ratio", "/proc/sys/vm/dirty_ratio", "20"),
            ],
            environment: [("kernel".into(), "6.1\nrm -rf /".into()), ("caches".into(), "dropped all".into())]
                .into(),
            validity: Validity::Valid,
            measurement: None,
            lab: None,
            origin: None,
        }
    }

    fn places() -> Places<'static> {
        Places { target: None, device: None, stack: &[], server: &[], beside: &[], raw: Path::new("/n/raw") }
    }

    fn sh_accepts(script: &str) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reproduce.sh");
        std::fs::write(&path, script).unwrap();
        Command::new("sh").arg("-n").arg(path).status().unwrap().success()
    }

    #[test]
    fn what_is_only_read_is_named_by_whoever_runs_it() {
        let places = Places { target: Some(Path::new("/proc/self/fd/9")), device: Some("sda"), ..places() };
        let argv = ["fio", "--filename=/proc/self/fd/9", "--readonly", "--rw=read"];
        let commands = vec![argv.map(str::to_owned).to_vec()];
        let text = script(&trial(), &Target::ReadOnly("/dev/disk/by-id/x".into()), &commands, &places);
        assert!(text.contains("fio --filename=\"$TARGET\" --readonly --rw=read"), "{text}");
        assert!(text.contains("TARGET=$(readlink -f \"${2:?"), "{text}");
        assert!(!text.contains("urandom") && !text.contains("losetup --find"), "{text}");
    }

    #[test]
    fn a_limit_on_latency_is_held_open_and_not_put_back() {
        let mut trial = trial();
        trial.settings[1].path = "/dev/cpu_dma_latency".into();
        let text = script(&trial, &Target::None, &[], &places());
        assert!(sh_accepts(&text), "{text}");
        assert!(text.contains("\nexec 9<> /dev/cpu_dma_latency\nprintf '0x%08x' 20 >&9\n"), "{text}");
        assert!(!text.contains("setting /dev"), "{text}");
    }

    #[test]
    fn a_whole_script_is_clean_and_holds_no_path_of_ours() {
        let places = Places { target: Some(Path::new("/dev/loop3")), device: Some("loop3"), ..places() };
        let argv = ["fio", "--output=/n/raw/fio.json", "--filename=/dev/loop3", "--description=it's"];
        let commands = [argv.map(str::to_owned).to_vec()];
        let text = script(&trial(), &Target::Loop(Bytes::from_mib(1)), &commands, &places);
        assert!(sh_accepts(&text), "{text}");
        assert!(
            text.ends_with(
                "LC_ALL=C fio --output=\"$RAW\"/fio.json --filename=\"$TARGET\" '--description=it'\\''s'\n"
            ),
            "{text}"
        );
        assert!(text.contains("setting \"/sys/block/${LOOP##*/}/\"queue/read_ahead_kb 16\n"), "{text}");
        assert!(!text.contains("\nrm -rf"), "{text}");
    }

    #[test]
    fn what_ran_beside_the_workload_runs_beside_it_and_is_ended_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let load = format!("echo $$ > {}; exec sleep 1000", pid.display());
        let beside = [BesideCommand {
            name: "load".into(),
            argv: ["sh", "-c", &load].map(str::to_owned).to_vec(),
            working_folder: None,
            folder: "/n/raw/beside-load".into(),
            lead: Nanos::from_millis(500),
        }];
        let mut trial = trial();
        trial.settings.clear();
        trial.environment.clear();
        let commands = [["cat", &pid.to_string_lossy()].map(str::to_owned).to_vec()];
        let text = script(&trial, &Target::None, &commands, &places().with_beside(&beside));
        assert!(text.contains("mkdir \"$RAW\"/beside-load\n"), "{text}");
        let work = folder.path().join("new");
        let output = Command::new("sh").args(["-c", &text, "sh"]).arg(&work).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let stat = format!("/proc/{}/stat", String::from_utf8(output.stdout).unwrap().trim());
        // A killed process needs a moment to die.
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        assert!((0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            is_gone()
        }));
    }

    #[test]
    fn what_does_not_heed_sigterm_is_killed_before_the_script_ends() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let load = format!("trap '' TERM; echo $$ > {}; while :; do sleep 0.1; done", pid.display());
        let beside = [BesideCommand {
            name: "load".into(),
            argv: ["sh", "-c", &load].map(str::to_owned).to_vec(),
            working_folder: None,
            folder: "/n/raw/beside-load".into(),
            lead: Nanos::ZERO,
        }];
        let mut trial = trial();
        trial.settings.clear();
        trial.environment.clear();
        let wait = format!("until [ -s {0} ]; do sleep 0.1; done; cat {0}", pid.display());
        let commands = [["sh", "-c", &wait].map(str::to_owned).to_vec()];
        let text = script(&trial, &Target::None, &commands, &places().with_beside(&beside));
        let work = folder.path().join("new");
        let output = Command::new("sh").args(["-c", &text, "sh"]).arg(&work).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("cannot end"), "{output:?}");
        let stat = format!("/proc/{}/stat", String::from_utf8(output.stdout).unwrap().trim());
        assert!(std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
    }

    #[test]
    fn it_runs_and_refuses_a_folder_that_exists() {
        let mut trial = trial();
        trial.settings.clear();
        trial.environment.clear();
        let places = Places { target: Some(Path::new("/w/target")), ..places() };
        let commands = [vec!["cksum".to_owned(), "/w/target".into()]];
        let text = script(&trial, &Target::File(Bytes::from_kib(64)), &commands, &places);
        let folder = tempfile::tempdir().unwrap();
        let run = |work: &Path| Command::new("sh").args(["-c", &text, "sh"]).arg(work).output().unwrap();
        let output = run(&folder.path().join("new"));
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && stdout.contains(" 65536 "), "{stdout}");
        assert!(!folder.path().join("new/target").exists());
        let refused = run(folder.path());
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8(refused.stderr).unwrap().contains("it exists"));
    }

    #[test]
    fn a_device_of_the_lab_is_never_taken_without_being_told() {
        let commands = vec![vec!["fio".into(), "--filename=/dev/sda".into()]];
        let places = Places { target: Some(Path::new("/dev/sda")), device: Some("sda"), ..places() };
        let mut trial = trial();
        trial.settings[0].path = "/sys/block/sda/queue/read_ahead_kb".into();
        let text = script(&trial, &Target::LabDevice("/dev/sda".into()), &commands, &places);
        assert!(sh_accepts(&text), "{text}");
        let named: Vec<&str> =
            text.lines().filter(|line| line.contains("sda") && !line.starts_with('#')).collect();
        assert_eq!(named, Vec::<&str>::new());
        assert!(
            text.contains("fio '--filename='\"$TARGET\"") || text.contains("fio --filename=\"$TARGET\""),
            "{text}"
        );
        assert!(text.contains("setting \"/sys/block/${TARGET##*/}/\"queue/read_ahead_kb"), "{text}");
    }

    #[test]
    fn the_devices_below_a_stack_are_named_in_comments_alone() {
        let stack =
            [["mdadm", "--create", "/dev/md200", "--level=1", "/dev/loop8"].map(str::to_owned).to_vec()];
        let places = Places {
            target: Some(Path::new("/w/m/target")),
            device: Some("md200"),
            stack: &stack,
            ..places()
        };
        let mut trial = trial();
        trial.settings[0].path = "/sys/block/md200/queue/read_ahead_kb".into();
        let commands = vec![vec!["fio".into(), "--filename=/w/m/target".into()]];
        let text = script(&trial, &Target::File(Bytes::from_mib(8)), &commands, &places);
        assert!(sh_accepts(&text), "{text}");
        assert!(text.contains("#     mdadm --create /dev/md200 --level=1 /dev/loop8\n"), "{text}");
        let named =
            |line: &&str| (line.contains("md200") || line.contains("loop8")) && !line.starts_with('#');
        assert_eq!(text.lines().filter(named).collect::<Vec<_>>(), [""; 0]);
        assert!(text.contains("setting \"/sys/block/${DEVICE##*/}/\"queue/read_ahead_kb"), "{text}");
    }

    #[test]
    fn settings_are_put_back_in_reverse() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scheduler");
        std::fs::write(&file, "none [mq-deadline] kyber\n").unwrap();
        let mut trial = trial();
        trial.environment.clear();
        let path = file.display().to_string();
        trial.settings.iter_mut().zip(["none", "kyber"]).for_each(|(record, value)| {
            record.path.clone_from(&path);
            record.got = value.into();
        });
        let commands = [vec!["cat".to_owned(), path]];
        let text = script(&trial, &Target::None, &commands, &places());
        let output =
            Command::new("sh").args(["-c", &text, "sh"]).arg(folder.path().join("new")).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "kyber\n");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "mq-deadline\n");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_argument_comes_back_as_it_was(word in "[^\0]{0,20}") {
            let output = Command::new("sh").args(["-c", &format!("printf %s {}", argument(&word, &places()))]).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
