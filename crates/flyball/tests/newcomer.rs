//! Somebody who has read nothing types one command of the README, and then twice what the screen says
//! next: three commands at the most and no dead end, on this host idle and busy, in a simulation, and on a
//! machine whose governor is ondemand and whose disk is encrypted.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::{Place, lab};
use assert_cmd::assert::OutputAssertExt;
use domain::rng::Seed;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const NEWCOMER: &str = include_str!("newcomer/newcomer.sh");

/// What was typed, how it ended, and what it showed.
struct Typed {
    command: String,
    took: String,
    screen: String,
}

/// The commands; each has to end well, and every screen leads on. Reasons, comparisons and what a remedy
/// would write are an end.
fn read(output: &str) -> Vec<Typed> {
    let typed: Vec<Typed> = output
        .split("@@ ")
        .skip(1)
        .map(|part| {
            let (head, screen) = part.split_once('\n').unwrap();
            let fields: Vec<&str> = head.splitn(4, '|').collect();
            let [_, code, took, command] = fields[..] else { panic!("{head}") };
            assert!(["0", "3"].contains(&code), "{command}: {code}\n{screen}");
            Typed { command: command.to_owned(), took: took.to_owned(), screen: screen.to_owned() }
        })
        .collect();
    for Typed { command, took, screen } in &typed {
        println!("{took}: {command}");
        // A file that would be written is shown as it is.
        let is_screen = screen.contains("\nNext ");
        let is_narrow = screen.lines().all(|line| line.chars().count() <= 80);
        assert!(is_narrow || !is_screen, "{command}:\n{screen}");
        assert!(!screen.trim().is_empty(), "{command}: a dead end");
    }
    let last = typed.last().unwrap();
    let is_an_end = ["explain", "compare", "tune"].iter().any(|verb| last.command.contains(verb));
    assert!(
        typed.len() == 3 || is_an_end && typed.len() == 2,
        "a dead end after {}:\n{output}",
        last.command
    );
    typed
}

/// Types it on this host.
fn here(place: &Place, command: &str) -> Vec<Typed> {
    let program = Path::new(env!("CARGO_BIN_EXE_flyball")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let paths: Vec<PathBuf> = [program.to_owned()].into_iter().chain(std::env::split_paths(&path)).collect();
    let output = Command::new("sh")
        .args(["-c", NEWCOMER, "newcomer"])
        .args(command.split(' '))
        .current_dir(place.folder.path())
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("FLYBALL_NOTEBOOK", place.path("notebook"))
        .env("FLYBALL_STATE", place.path("state"))
        .env("FLYBALL_RUN", place.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    read(&String::from_utf8(output.stdout).unwrap())
}

fn verdict(typed: &Typed) -> &str {
    let at = typed.screen.find("\nVerdict").unwrap_or_else(|| panic!("no verdict:\n{}", typed.screen));
    &typed.screen[at..]
}

/// Programs that compute, one for each CPU and one more.
struct Load(Vec<Child>);

impl Load {
    fn begin() -> Self {
        let count = std::thread::available_parallelism().unwrap().get() + 1;
        let busy = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..count).map(busy).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended by itself is gone as well.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn an_idle_and_a_busy_server_give_an_answer() {
    if !testing::is_long_in_turn(3) {
        return;
    }
    let extent = testing::Extent::of(1, 2);
    let mut cases = [false, true];
    Seed(extent.seed).stream("newcomer").shuffle(&mut cases);
    for is_busy in cases.into_iter().take(usize::try_from(extent.count).unwrap()) {
        println!("{}:", if is_busy { "busy" } else { "as it is" });
        let place = Place::new();
        let load = is_busy.then(Load::begin);
        let typed = here(&place, "flyball diagnose --for 5s");
        drop(load);
        assert_eq!(typed[1].command, "flyball check");
        // Idle or not, the disk's figures are there.
        assert!(typed[1].screen.contains("4k read, depth 1"), "{}", typed[1].screen);
        assert!(!verdict(&typed[1]).contains("Nothing can be said"), "{}", typed[1].screen);
        assert!(!is_busy || verdict(&typed[0]).contains("CPU-bound"), "{}", typed[0].screen);
    }
}

#[test]
fn a_simulated_raid5_gives_an_answer() {
    let typed = here(&Place::new(), "flyball run raid5-journal --on sim");
    assert!(verdict(&typed[0]).contains("decides"), "{}", typed[0].screen);
}

/// The README with its first example, whose run is called RUN there.
const README: &str = include_str!("../../../README.md");

#[test]
fn the_readmes_first_example_is_what_the_program_says() {
    let example = README.split("```text\n$ flyball ").nth(1).and_then(|rest| rest.split("```").next());
    let (command, shown) = example.and_then(|text| text.split_once('\n')).unwrap();
    let arguments: Vec<&str> = command.split(' ').collect();
    let place = Place::new();
    let assert = place.flyball(&arguments).env("COLUMNS", "80").assert().success();
    let said = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let run = said.lines().find_map(|line| line.strip_prefix("Run")?.split_whitespace().next()).unwrap();
    assert_eq!(said.replace(run, "RUN"), shown);
}

/// A volume of dm-crypt that is read under ondemand, by a newcomer's command.
const ENCRYPTED: &str = r#"
set -e
exec 3>&1 >&2
modprobe brd rd_nr=1 rd_size=65536
modprobe dm_crypt
printf 32-bytes-of-a-key-of-no-secrecy. | cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 \
    --key-file - /dev/ram0 vault
for policy in /sys/devices/system/cpu/cpufreq/policy*; do echo ondemand > $policy/scaling_governor; done
(while :; do dd if=/dev/mapper/vault of=/dev/null bs=64k iflag=direct; done) & load=$!
cd /run
# The states of this machine are too slow for what a screen takes to draw; crates/flyball/tests/lab_tuning.rs measures.
unset FLYBALL_LAB_CONTROL_PORT
set +e
sh -c "$0" newcomer flyball diagnose --for 5s >&3
kill $load
"#;

#[test]
fn a_machine_with_ondemand_and_an_encrypted_disk_gives_an_answer() {
    if !testing::is_long_in_turn(3) {
        return;
    }
    let place = Place::new();
    let kernel = lab::kernels()[0];
    let without = lab::without(&["cryptsetup"]).or_else(lab::without_plugin);
    if let Some(why) = without.or_else(|| lab::missing(&place, kernel)) {
        return eprintln!("skipped: {why}");
    }
    let table = lab::slow_pstates(&place);
    let machine = ["lab", "exec", "--kernel", kernel, "--pstates", &table, "--memory", "512MiB"];
    let typed = read(&place.ok(&[&machine[..], &["--", "bash", "-c", ENCRYPTED, NEWCOMER]].concat()));
    let screen = &typed[0].screen;
    assert!(screen.contains("ondemand") && screen.contains("crypt"), "{screen}");
}
