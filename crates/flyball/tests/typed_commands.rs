//! Commands that screens tell the user to type: each is copied from the screen, as wide as it is, and given
//! to a shell.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Place, SIMULATED};
use std::path::Path;
use std::process::{Command, Output};

/// What a shell would be given: lines that begin with `flyball`, each with those that continue it. A program
/// of that name among the busiest threads is no command: its share of a CPU follows.
fn copied(screen: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in screen.lines() {
        if is_open {
            *commands.last_mut().unwrap() += &format!("\n{line}");
        } else if line.starts_with("    ")
            && ["flyball ", "export "].iter().any(|word| line.trim_start().starts_with(word))
            && !line.contains("% (")
        {
            commands.push(line.to_owned());
        } else {
            continue;
        }
        is_open = line.ends_with('\\');
    }
    commands
}

/// The program in this place, with its folder in PATH and so many columns.
fn shell(place: &Place, text: &str, columns: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_flyball")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", text]).current_dir(place.folder.path()).env("PATH", path).env("COLUMNS", columns);
    command.env("FLYBALL_STATE", place.path("state")).env("FLYBALL_RUN", place.folder.path());
    command.output().unwrap()
}

fn text_of(output: &Output) -> String {
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Each command of the screen, which has to be read by the program to its end; those that only read are run.
fn try_each(place: &Place, screen: &str, columns: &str, least: usize) {
    let commands = copied(screen);
    assert!(commands.len() >= least, "{columns}: {screen}");
    // What is exported holds for those after it, as in the reader's shell.
    let mut exported = String::new();
    for command in commands {
        if command.trim_start().starts_with("export ") {
            exported += &format!("{command}\n");
            let output = shell(place, &exported, columns);
            assert!(output.status.success() && output.stderr.is_empty(), "{command}: {output:?}");
            continue;
        }
        let command = format!("{exported}{command}");
        let read = shell(place, &format!("{command} --help"), columns);
        assert!(read.status.success() && read.stderr.is_empty(), "{command}: {read:?}");
        assert!(String::from_utf8_lossy(&read.stdout).contains("Usage: flyball"), "{command}: {read:?}");
        if [" explain ", " show ", " report "].iter().any(|only_reads| command.contains(only_reads)) {
            let output = shell(place, &command, columns);
            assert!(output.status.success(), "{command}: {output:?}");
        }
    }
    let width = columns.parse().unwrap();
    // A notebook's name may be longer than a line.
    let could_be_shorter = |line: &str| {
        let words = line.trim().trim_end_matches(" \\");
        words.contains(' ') && !words.starts_with("export ")
    };
    let is_long = |line: &&str| line.chars().count() > width && could_be_shorter(line);
    assert_eq!(screen.lines().find(is_long), None, "{columns}: {screen}");
}

#[test]
fn a_command_of_a_screen_runs_as_it_is_copied() {
    let place = Place::new();
    let study = place.study("study", &SIMULATED.replace("\"small\"", "\"a-study-with-a-long-name\""));
    for columns in ["60", "80"] {
        let notebook = format!("flyball --notebook 'a note book {columns}'");
        let run = format!("{notebook} run {study} --on sim --machine server-nvme --seed 7");
        let screen = text_of(&shell(&place, &run, columns));
        try_each(&place, &screen, columns, 2);
        let shown = text_of(&shell(&place, &format!("{notebook} show a-study"), columns));
        try_each(&place, &shown, columns, 2);
        assert!(columns != "60" || copied(&shown).iter().any(|command| command.contains("\\\n")), "{shown}");
    }
}

#[test]
fn a_notebook_with_a_long_name_is_exported_once_where_a_screen_has_no_room() {
    let place = Place::new();
    let name = "a-notebook-whose-name-alone-takes-more-than-a-line-of-a-screen-as-those-of-some-people-do";
    let run = format!("flyball --notebook {name} run published/raid10 --on sim --seed 1");
    let screen = text_of(&shell(&place, &run, "80"));
    try_each(&place, &screen, "80", 4);
    assert!(copied(&screen)[0].contains("export "), "{screen}");
}

#[test]
fn a_command_of_a_diagnosis_runs_as_it_is_copied() {
    let place = Place::new();
    for columns in ["60", "80"] {
        let diagnose = "flyball --notebook 'the notes' diagnose --for 1s";
        try_each(&place, &text_of(&shell(&place, diagnose, columns)), columns, 2);
    }
}
