//! docs/TUTORIAL.md: every command of it is run, in its order, on a terminal of 80 columns; and its pictures
//! are what the terminal showed.
//!
//! The pictures are written to `target/tmp/pictures`, and with `UPDATE_EXPECT=1` to `docs/pictures`. Their
//! figures are of the machine that made them; what has to agree with today's screens is the head of each
//! line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::Place;
use crate::support::picture::{COLUMNS, Screen};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TUTORIAL: &str = include_str!("../../../docs/TUTORIAL.md");

/// A block of commands, and the picture of the last one.
#[derive(Debug, Default)]
struct Step {
    commands: Vec<String>,
    picture: Option<String>,
}

fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_in_block = false;
    for line in TUTORIAL.lines() {
        match line {
            "```sh" => {
                is_in_block = true;
                steps.push(Step::default());
            }
            "```" => is_in_block = false,
            command if is_in_block => steps.last_mut().unwrap().commands.push(command.to_owned()),
            other => {
                let picture =
                    other.split_once("](pictures/").and_then(|(_, rest)| rest.strip_suffix(".svg)"));
                if let Some(name) = picture {
                    steps.last_mut().unwrap().picture = Some(name.to_owned());
                }
            }
        }
    }
    steps
}

/// What a command writes to a terminal, as somebody types it into a shell.
fn typed(place: &Place, command: &str) -> Screen {
    let program = Path::new(env!("CARGO_BIN_EXE_flyball")).parent().unwrap();
    let paths: Vec<PathBuf> = [program.to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap()))
        .collect();
    let line = format!("stty cols {COLUMNS} rows 24; {command} 2> messages");
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .current_dir(place.folder.path())
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("TERM", "xterm-256color")
        .env("FLYBALL_NOTEBOOK", place.path("notebook"))
        .env("FLYBALL_STATE", place.path("state"))
        .env("FLYBALL_RUN", place.folder.path())
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let written = String::from_utf8(output.stdout).unwrap();
    let messages = std::fs::read_to_string(place.path("messages")).unwrap_or_default();
    // On a host that is too busy all trials of a cell may be disturbed.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{command}: {}\n{written}{messages}", output.status);
    Screen::read(&written)
}

/// The heads of a screen's lines that are there on every machine, in their order; findings and notes are not.
fn heads(text: &str) -> Vec<&str> {
    const ALWAYS: [&str; 10] = [
        "Question",
        "Machine",
        "Watched",
        "CPU",
        "Run",
        "Figures",
        "Published",
        "Not visible",
        "Verdict",
        "Next",
    ];
    let lines = text.lines().filter_map(|line| line.split("  ").next());
    lines.filter(|head| ALWAYS.contains(head)).collect()
}

/// The text of a picture, line by line.
fn text_of(svg: &str) -> String {
    let mut text = String::new();
    for element in svg.lines().filter(|line| line.starts_with("<text")) {
        let content = element.split_once('>').unwrap().1.strip_suffix("</text>").unwrap();
        if element.contains("x=\"14.0\"") {
            text.push('\n');
        }
        text +=
            &content.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    }
    text
}

#[test]
fn each_command_of_the_tutorial_works_and_its_pictures_are_of_today() {
    let steps = steps();
    assert!(steps.iter().map(|step| step.commands.len()).sum::<usize>() >= 10, "{steps:?}");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    std::fs::create_dir_all(&made).unwrap();
    let is_update = std::env::var_os("UPDATE_EXPECT").is_some();
    let place = Place::new();
    for step in &steps {
        for (index, command) in step.commands.iter().enumerate() {
            let screen = typed(&place, command);
            let text = screen.text();
            let wide = text.lines().find(|line| line.chars().count() > COLUMNS);
            assert!(wide.is_none() || command.contains("--dry-run"), "{command}: {wide:?}");
            let Some(name) = step.picture.as_ref().filter(|_| index + 1 == step.commands.len()) else {
                continue;
            };
            let svg = screen.svg(command);
            std::fs::write(made.join(format!("{name}.svg")), &svg).unwrap();
            let path = kept.join(format!("{name}.svg"));
            if is_update {
                std::fs::create_dir_all(&kept).unwrap();
                std::fs::write(&path, svg).unwrap();
            }
            let before = std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_EXPECT=1 makes it", path.display()));
            let before = text_of(&before);
            assert!(before.contains(&format!("$ {command}")), "{name}.svg is of another command: {before}");
            assert_eq!(
                heads(&before),
                heads(&text),
                "{name}.svg is of another day; UPDATE_EXPECT=1 makes it anew"
            );
        }
    }
    assert_eq!(place.left_over(), [""; 0].map(PathBuf::from));
}
