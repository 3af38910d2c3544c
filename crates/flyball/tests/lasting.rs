//! `flyball tune` on this machine's own sysctls and a loop device of the test's own; the configuration goes
//! to a folder.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, prints its figures, and says why it skips"
)]

use crate::support;
use crate::support::{Place, is_root};
use domain::rng::Seed;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use testing::Extent;

/// Of no weight: how hard the kernel tries before it compacts memory, and how often it folds counters.
const SYSCTLS: [&str; 2] = ["/proc/sys/vm/extfrag_threshold", "/proc/sys/vm/stat_interval"];

fn value(path: &str) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// The sysctls as they were, put back whatever happens.
struct Before(Vec<(&'static str, String)>);

impl Before {
    fn look() -> Self {
        Self(SYSCTLS.map(|path| (path, value(path))).into())
    }

    fn is_now(&self) -> bool {
        self.0.iter().all(|(path, before)| value(path) == *before)
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        for (path, before) in &self.0 {
            let _ = fs::write(path, before);
        }
    }
}

/// A loop device of the test's own.
struct Loop {
    name: String,
}

impl Loop {
    fn new(place: &Place) -> Option<Self> {
        let file = place.path("disk");
        fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().ok()?;
        let name = String::from_utf8(output.stdout).unwrap().trim().strip_prefix("/dev/")?.to_owned();
        Some(Self { name })
    }

    fn queue(&self, file: &str) -> String {
        format!("/sys/block/{}/queue/{file}", self.name)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &format!("/dev/{}", self.name)]).status();
    }
}

fn tune(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.flyball(&["tune"]);
    command.args(arguments).env("FLYBALL_ROOT", place.path("root"));
    command
}

fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", support::stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(command: &mut Command, code: i32) -> String {
    let output: Output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", support::stderr(&output));
    support::stderr(&output)
}

fn status(place: &Place) -> Value {
    let mut command = place.flyball(&["status", "--json"]);
    serde_json::from_str(&ok(command.env("FLYBALL_ROOT", place.path("root")))).unwrap()
}

fn etc(place: &Place, file: &str) -> PathBuf {
    place.path("root/etc").join(file)
}

fn skipped() -> bool {
    if !is_root() {
        eprintln!("skipped: lasting changes need root");
    }
    !is_root()
}

#[test]
fn what_lacks_a_measure_says_so_and_changes_nothing() {
    let place = Place::new();
    let told = refused(&mut tune(&place, &["--set", "vm.stat_interval=2"]), 2);
    assert!(told.contains("--persist") && told.contains("-- COMMAND"), "{told}");
    let told = refused(&mut tune(&place, &["a-finding"]), 2);
    assert!(told.contains("a-finding") && told.contains("RUN:NUMBER"), "{told}");
    refused(&mut tune(&place, &["a-run:1"]), 1);
    refused(&mut tune(&place, &[]), 2);
    refused(&mut tune(&place, &["--", "true"]), 2);
    refused(&mut tune(&place, &["--set", "nothing"]), 2);
    refused(&mut tune(&place, &["--set", "a=1", "--persist", "--undo"]), 2);
    refused(&mut tune(&place, &["--set", "vm.stat_interva=1", "--", "true"]), 2);
    // What could not be kept is not measured first.
    let told = refused(&mut tune(&place, &["--set", "read_ahead_kb=512", "--persist", "--", "true"]), 1);
    assert!(told.contains("read_ahead_kb@sda"), "{told}");
    assert!(!place.path("root").exists() && !place.path("state").exists());
}

/// A command that takes as long as the sysctl says.
const WAITS: [&str; 4] = ["--", "sh", "-c", "sleep 0.$(cat /proc/sys/vm/extfrag_threshold)"];

/// Tunes by that command; what is said on both streams.
fn tuned(place: &Place, arguments: &[&str]) -> String {
    let output = tune(place, &[arguments, &WAITS].concat()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn a_change_is_measured_and_kept_only_where_it_is_better() {
    if skipped() {
        return;
    }
    let (place, before) = (Place::new(), Before::look());
    fs::write(SYSCTLS[0], "500").unwrap();
    let worse = tuned(&place, &["--set", "vm.extfrag_threshold=900", "--persist"]);
    assert!(worse.contains("the change is not kept: it is worse"), "{worse}");
    assert_eq!(value(SYSCTLS[0]), "500");
    assert!(!place.path("root").exists());
    let better = tuned(&place, &["--set", "vm.extfrag_threshold=100"]);
    assert!(better.contains("after is better than before") || better.contains("change decides"), "{better}");
    assert!(better.contains("tune --set vm.extfrag_threshold=100 --persist`"), "{better}");
    assert_eq!(value(SYSCTLS[0]), "500", "nothing lasts unless that is asked for");
    let persist = ["--json", "--set", "vm.extfrag_threshold=100", "--persist"];
    let kept = tune(&place, &[&persist[..], &WAITS].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&kept.stderr);
    assert!(kept.status.success() && said.contains("better, so it is kept"), "{said}");
    serde_json::from_slice::<serde_json::Value>(&kept.stdout).expect("standard output is one JSON document");
    assert_eq!(value(SYSCTLS[0]), "100");
    let undone = tune(&place, &["--undo"]).output().unwrap();
    assert!(undone.status.success() && value(SYSCTLS[0]) == "500", "{undone:?}");
    drop(before);
}

#[test]
fn a_sysctl_lasts_is_understood_by_sysctl_drifts_and_is_taken_back() {
    if skipped() {
        return;
    }
    let (place, before) = (Place::new(), Before::look());
    let set = ["--set", "vm.extfrag_threshold=510", "--persist", "--comment", "a test"];
    let shown = ok(tune(&place, &set).arg("--dry-run"));
    assert!(shown.contains("vm.extfrag_threshold = 510") && before.is_now(), "{shown}");
    assert!(!place.path("root").exists() && !place.path("state").exists());
    ok(&mut tune(&place, &set));
    assert_eq!(value(SYSCTLS[0]), "510");
    assert!(place.ok(&["restore"]).contains("nothing is changed"));
    assert_eq!(value(SYSCTLS[0]), "510", "the next start has undone it");
    let file = etc(&place, "sysctl.d/90-flyball.conf");
    // Somebody else's value, and then what the boot does.
    fs::write(SYSCTLS[0], "520").unwrap();
    let told = status(&place);
    assert!(told["lasting"]["settings"][0]["drift"][0].as_str().unwrap().contains("520"), "{told}");
    match Command::new("sysctl").arg("-p").arg(&file).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", support::stderr(&output));
            assert_eq!(value(SYSCTLS[0]), "510", "sysctl did not take the file");
        }
        Err(_) => {
            testing::skip_in_part("sysctl is not installed");
            fs::write(SYSCTLS[0], "510").unwrap();
        }
    }
    assert_eq!(status(&place)["lasting"]["settings"][0]["drift"], serde_json::json!([]));
    let told = ok(&mut tune(&place, &["--undo"]));
    assert!(told.contains("removed") && told.contains("put back"), "{told}");
    assert!(before.is_now() && !file.exists());
    assert!(ok(&mut tune(&place, &["--undo"])).contains("nothing lasts"));
}

#[test]
fn a_rule_for_a_block_device_is_taken_by_udev() {
    a_rule_is_taken(None);
}

#[test]
fn a_rule_goes_by_the_serial_number_that_udev_has_found_whatever_is_in_it() {
    a_rule_is_taken(Some("Flyball_T3st[1]*|?_{x}"));
}

/// With a serial number, where one is given, which a rule before ours finds.
fn a_rule_is_taken(serial: Option<&str>) {
    if skipped() {
        return;
    }
    let place = Place::new();
    let Some(device) = Loop::new(&place) else {
        eprintln!("skipped: no loop device can be made here");
        return;
    };
    let rules = place.path("root/etc/udev/rules.d");
    if let Some(serial) = serial {
        let number = value(&format!("/sys/block/{}/dev", device.name));
        let database = place.path("root/run/udev/data");
        fs::create_dir_all(&database).unwrap();
        fs::write(database.join(format!("b{number}")), format!("E:ID_SERIAL={serial}\n")).unwrap();
        fs::create_dir_all(&rules).unwrap();
        let rule = format!("KERNEL==\"{}\", ENV{{ID_SERIAL}}=\"{serial}\"\n", device.name);
        fs::write(rules.join("10-serial.rules"), rule).unwrap();
    }
    let (ahead, scheduler) = (device.queue("read_ahead_kb"), device.queue("scheduler"));
    let (ahead_before, scheduler_before) = (value(&ahead), value(&scheduler));
    let sets = [
        format!("nr_requests@{}=64", device.name),
        format!("scheduler@{}=mq-deadline", device.name),
        format!("read_ahead_kb@{}=512", device.name),
    ];
    let mut command = tune(&place, &["--persist"]);
    for set in &sets {
        command.args(["--set", set]);
    }
    ok(&mut command);
    let text = fs::read_to_string(rules.join("90-flyball.rules")).unwrap();
    assert_eq!(text.contains("KERNEL=="), serial.is_none(), "{text}");
    // The rounding of 333 KiB to pages is noticed, and nothing of the order is kept.
    let told =
        refused(&mut tune(&place, &["--persist", "--set", &format!("read_ahead_kb@{}=333", device.name)]), 1);
    assert!(told.contains("did not take `333`"), "{told}");
    assert_eq!(value(&ahead), "512");
    fs::write(&ahead, "256").unwrap();
    fs::write(&scheduler, "none").unwrap();
    // In a namespace of its own, where udev's rules are ours alone and its database is nobody's.
    let script = format!(
        "mount -t tmpfs none /run && mkdir -p /run/udev && mkdir -p /etc/udev/rules.d && mount --bind {} /etc/udev/rules.d && udevadm test --action=add /sys/block/{}",
        rules.display(),
        device.name
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
    match output {
        Ok(output) if output.status.success() => {
            let told = support::stderr(&output);
            assert!(!told.contains("90-flyball.rules:") || !told.contains("nvalid"), "{told}");
            assert_eq!(value(&ahead), "512", "{told}");
            assert!(value(&scheduler).contains("[mq-deadline]"), "{told}");
            assert_eq!(value(&device.queue("nr_requests")), "64", "{told}");
        }
        _ => {
            let told = output.map(|o| support::stderr(&o));
            testing::skip_in_part(format!("udevadm cannot be run apart here: {told:?}"));
            fs::write(&ahead, "512").unwrap();
            fs::write(&scheduler, "mq-deadline").unwrap();
            fs::write(device.queue("nr_requests"), "64").unwrap();
        }
    }
    assert_eq!(status(&place)["lasting"]["settings"][0]["drift"], serde_json::json!([]));
    ok(&mut tune(&place, &["--undo"]));
    assert_eq!((value(&ahead), value(&scheduler)), (ahead_before, scheduler_before));
    assert!(!rules.join("90-flyball.rules").exists());
}

#[test]
fn what_the_kernel_reads_at_boot_alone_is_printed_for_its_command_line() {
    const PARAMETER: &str = "/sys/module/loop/parameters/max_part";
    if skipped() {
        return;
    }
    let writable = fs::metadata(PARAMETER).map(|m| m.permissions().mode() & 0o222 != 0);
    if writable.unwrap_or(true) {
        eprintln!("skipped: there is no `{PARAMETER}` here that is only read at boot");
        return;
    }
    let (place, before) = (Place::new(), value(PARAMETER));
    let output = tune(&place, &["--persist", "--set", &format!("{PARAMETER}=9")]).output().unwrap();
    let told = support::stderr(&output);
    assert!(output.status.success() && told.contains("loop.max_part=9"), "{told}");
    assert_eq!(value(PARAMETER), before);
    let told = status(&place);
    let drift = told["lasting"]["settings"][0]["drift"][0].as_str().unwrap();
    assert!(drift.contains("next start"), "{told}");
    assert_eq!(told["lasting"]["files"], serde_json::json!([]));
    ok(&mut tune(&place, &["--undo"]));
    assert_eq!(status(&place)["lasting"]["settings"], serde_json::json!([]));
}

#[test]
fn the_service_at_boot_is_installed_and_removed_by_a_program_that_lies_well() {
    if skipped() {
        return;
    }
    let place = Place::new();
    let restore = |argument: &str| {
        let mut command = place.flyball(&["restore", argument]);
        command.env("FLYBALL_ROOT", place.path("root"));
        command
    };
    let unit = etc(&place, "systemd/system/flyball-recover.service");
    let output = restore("--install").output().unwrap();
    if !output.status.success() {
        // Where this was built below a folder that anybody may write, that is what it has to say.
        let told = support::stderr(&output);
        assert!(told.contains("everybody may write") || told.contains("does not outlast"), "{told}");
        eprintln!("skipped: {told}");
        return;
    }
    let text = fs::read_to_string(&unit).unwrap();
    assert!(text.contains(&format!("ExecStart={} restore\n", env!("CARGO_BIN_EXE_flyball"))), "{text}");
    assert!(text.contains(place.path("state").to_str().unwrap()), "{text}");
    assert!(ok(&mut restore("--uninstall")).contains("removed"));
    assert!(!unit.exists());
    assert!(ok(&mut restore("--uninstall")).contains("not installed"));
}

#[test]
fn kill_9_leaves_nothing_or_a_complete_lasting_change() {
    if skipped() {
        return;
    }
    let extent = Extent::of(60, 500);
    let (place, before) = (Place::new(), Before::look());
    let file = etc(&place, "sysctl.d/90-flyball.conf");
    let persist = ["--set", "vm.extfrag_threshold=510", "--set", "vm.stat_interval=3", "--persist"];
    // How long each takes here: the kills are spread over that, and it follows what the rounds show. A run
    // that had ended by itself took at most the time that it was given; one that had not begun to change
    // anything late in its span needs more.
    let took = |arguments: &[&str]| {
        let begun = Instant::now();
        ok(&mut tune(&place, arguments));
        begun.elapsed().as_secs_f64()
    };
    let (mut persist_s, mut undo_s) = (took(&persist), took(&["--undo"]));
    let mut points = Seed(extent.seed).stream("kill points");
    let (mut whole, mut nothing, mut in_the_middle, mut rounds) = (0, 0, 0, 0);
    // A loaded host makes the times vary: until each kind was seen, for ten times as many rounds at most.
    while rounds < extent.count || (in_the_middle == 0 && rounds < 10 * extent.count) {
        let (lasts, round) = (file.exists(), rounds);
        rounds += 1;
        let (arguments, span_s): (&[&str], &mut f64) =
            if lasts { (&["--undo"], &mut undo_s) } else { (&persist, &mut persist_s) };
        let mut child = tune(&place, arguments).stdout(std::process::Stdio::null()).spawn().unwrap();
        let given_s = 1.3 * *span_s * points.unit();
        std::thread::sleep(Duration::from_secs_f64(given_s));
        let ended = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        let found = status(&place);
        let undecided = found["lasting"]["unfinished"] == true || found["changed"] != serde_json::json!([]);
        in_the_middle += u32::from(undecided);
        if ended {
            *span_s = span_s.min(given_s);
        } else if !undecided && file.exists() == lasts && given_s > *span_s {
            *span_s *= 1.2;
        }
        ok(place.flyball(&["restore"]).env("FLYBALL_ROOT", place.path("root")));
        let told = status(&place);
        let case = format!("round {round}: {told}");
        assert_eq!(told["changed"], serde_json::json!([]), "{case}");
        assert_eq!(told["lasting"]["unfinished"], false, "{case}");
        let settings = told["lasting"]["settings"].as_array().unwrap();
        if settings.is_empty() {
            assert!(before.is_now() && !file.exists(), "{case}");
            nothing += 1;
        } else {
            assert_eq!(settings.len(), 2, "{case}");
            assert!(settings.iter().all(|s| s["drift"] == serde_json::json!([])), "{case}");
            assert_eq!(told["lasting"]["files"][0]["state"], "as_written", "{case}");
            assert_eq!((value(SYSCTLS[0]).as_str(), value(SYSCTLS[1]).as_str()), ("510", "3"), "{case}");
            whole += 1;
        }
    }
    ok(&mut tune(&place, &["--undo"]));
    assert!(before.is_now());
    let left: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let figure = format!("{whole} left all of it, {nothing} nothing; {in_the_middle} were cut in the middle");
    testing::promise("killed-tune", rounds, figure);
    if in_the_middle == 0 {
        testing::skip_in_part(format!("no kill of {rounds} came while settings were being changed"));
    }
}
