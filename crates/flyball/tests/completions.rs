//! Completion in a real bash, fish and zsh: the installed script asks the program, and what a notebook holds
//! is harmless.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Place, files};
use std::fs;
use std::process::Command;

const RUN: &str = "quick-20261120-140502-7f3a";

/// Names that a shell or a terminal would obey.
const HOSTILE: [&str; 6] =
    ["quick $(touch ran)", "quick`touch ran`", "quick;touch ran", "quick\u{1b}[2J", "quick*", "-quick"];

fn with_runs() -> Place {
    let place = Place::new();
    for name in HOSTILE.iter().chain(&[RUN, "quick-20261121-140502-0000", "other-20261120-140502-7f3a"]) {
        fs::create_dir_all(place.path("notebook/runs").join(name)).unwrap();
    }
    place
}

/// What bash offers behind these words, the last of which is begun.
fn offered(place: &Place, words: &[&str]) -> Vec<String> {
    let program = env!("CARGO_BIN_EXE_flyball");
    let script = "source <(\"$0\" completions bash) || exit 1
        COMP_WORDS=(\"$0\" \"$@\"); COMP_CWORD=$#
        how=$(complete -p flyball) || exit 1
        [[ $how =~ -F\\ ([_a-z]+) ]] && \"${BASH_REMATCH[1]}\" \"$0\" \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"
        printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", script, program]).args(words).current_dir(place.folder.path());
    let output = command.env("FLYBALL_NOTEBOOK", place.path("notebook")).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).filter(|l| !l.is_empty()).collect()
}

#[test]
fn names_are_offered_where_they_belong() {
    let place = with_runs();
    assert_eq!(offered(&place, &["show", "quick-20261120"]), [RUN]);
    assert_eq!(offered(&place, &["show", "ot"]), ["other", "other-20261120-140502-7f3a"]);
    assert_eq!(offered(&place, &["compare", RUN, "o"]).len(), 2);
    assert_eq!(offered(&place, &["run", "published/raid1"]), ["published/raid10"]);
    fs::write(place.path("mine.toml"), "").unwrap();
    assert_eq!(offered(&place, &["run", "mi"]), ["mine.toml"]);
    assert_eq!(offered(&place, &["run", "quick", "--on", "sim", "--machine", "server"]), ["server-nvme"]);
    assert_eq!(offered(&place, &["tune", "--set", "=", "governo"]), ["governor"]);
    assert!(offered(&place, &["settings", "vm.dirty_r"]).contains(&"vm.dirty_ratio".to_owned()));
    // Commands and options are clap's.
    assert_eq!(offered(&place, &["diag"]), ["diagnose"]);
    assert!(offered(&place, &["show", "--fu"]).contains(&"--full".to_owned()));
    assert_eq!(offered(&place, &["--notebook", "elsewhere", "show", "quick"]), [""; 0]);
}

/// What fish offers behind a line, without its descriptions.
fn offered_by_fish(place: &Place, line: &str) -> Vec<String> {
    let script = place.path("flyball.fish");
    fs::write(&script, place.output(&["completions", "fish"]).stdout).unwrap();
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_flyball")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("fish");
    command.args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"]).arg(&script).arg(line);
    command.env("PATH", path).env("HOME", place.folder.path()).current_dir(place.folder.path());
    let output = command.env("FLYBALL_NOTEBOOK", place.path("notebook")).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|offer| offer.split('\t').next().unwrap().to_owned()).collect()
}

/// Whether a shell is installed.
fn is_missing(shell: &str) -> bool {
    let is_missing = Command::new(shell).arg("--version").output().is_err();
    if is_missing {
        testing::skip(format!("needs {shell} (Debian's {shell})"));
    }
    is_missing
}

#[test]
fn fish_offers_names_and_neither_files_beside_them_nor_hidden_commands() {
    if is_missing("fish") {
        return;
    }
    let place = with_runs();
    fs::write(place.path("a-file"), "").unwrap();
    let runs = offered_by_fish(&place, "flyball show ");
    assert!(runs.contains(&RUN.to_owned()) && !runs.contains(&"a-file".to_owned()), "{runs:?}");
    assert_eq!(offered_by_fish(&place, "flyball la"), ["lab"]);
    assert!(offered_by_fish(&place, "flyball tune --set governo").contains(&"governor".to_owned()));
    assert!(offered_by_fish(&place, "flyball show --fu").contains(&"--full".to_owned()));
    assert_eq!(offered_by_fish(&place, "flyball run quick --machine serv"), ["server-nvme"]);
    assert!(offered_by_fish(&place, "flyball import a-f").contains(&"a-file".to_owned()));
}

#[test]
fn zsh_reads_its_script_and_offers_no_hidden_commands() {
    if is_missing("zsh") {
        return;
    }
    let place = Place::new();
    let script = place.path("_flyball");
    let text = place.output(&["completions", "zsh"]).stdout;
    fs::write(&script, &text).unwrap();
    let read =
        "autoload -U compinit; compinit -D; source $1; (( $+functions[_flyball] )) && print $_comps[flyball]";
    let output = Command::new("zsh").args(["-f", "-c", read, "zsh"]).arg(&script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "_flyball", "{output:?}");
    let text = String::from_utf8(text).unwrap();
    assert!(["lab-guest", "supervise", "read-foreign"].iter().all(|hidden| !text.contains(hidden)));
}

#[test]
fn hostile_names_are_not_offered_and_nothing_is_run_or_written() {
    let place = with_runs();
    let before = files(&place.path("."));
    let all = offered(&place, &["show", ""]);
    assert_eq!(all, ["other", "other-20261120-140502-7f3a", "quick", RUN, "quick-20261121-140502-0000"]);
    assert_eq!(files(&place.path(".")), before);
    assert!(!place.path("ran").exists());
}

#[test]
fn nothing_is_said_where_there_is_nothing_to_offer() {
    let place = Place::new();
    fs::write(place.path("notebook"), "no folder").unwrap();
    for words in [&["show", ""][..], &["no-such-command", "x"], &["rm", "--no-such", "x"], &["$(id)"], &[]] {
        let output = place.output(&[&["complete", "--"], words].concat());
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout.iter().all(u8::is_ascii_whitespace) && output.stderr.is_empty(), "{output:?}");
    }
}
