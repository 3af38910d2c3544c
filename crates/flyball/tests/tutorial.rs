//! docs/TUTORIAL.md and docs/SCREENS.md: every command of them is run, in its order, on a terminal of 80
//! columns; and their pictures are what the terminal showed.
//!
//! The pictures are written to `target/tmp/pictures`, and with `UPDATE_EXPECT=1` to `docs/pictures`. Their
//! figures are of the machine that made them; what has to agree with today's screens is the head of each
//! line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::lab::{missing, without_plugin};
use crate::support::picture::{COLUMNS, Screen};
use crate::support::terminal::Terminal;
use crate::support::{self, Place, is_root};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TUTORIAL: &str = include_str!("../../../docs/TUTORIAL.md");
const SCREENS: &str = include_str!("../../../docs/SCREENS.md");

/// How a command begins that has the whole terminal while it runs.
const WHOLE_TERMINAL: &str = "flyball watch ";

/// A command that takes 90 s: it is run with the whole of the long tests, and to make its picture anew.
const LONG: &str = "flyball check";

/// The study that docs/SCREENS.md makes shorter.
const DMCRYPT: &str = include_str!("../../../studies/dmcrypt-ondemand.toml");

/// The disk of docs/SCREENS.md; the test's own loop device has another number perhaps.
const DISK: &str = "/dev/loop0";

/// How a command of the lab begins, the kernel of its guests, and what a host says that is too busy for it.
const LAB: (&str, &str) = ("flyball lab", "6.12");
const TOO_BUSY: [&str; 3] =
    ["is too fast for this host", "this host is too busy with other things", "the guest said nothing"];

/// A block of commands, and the picture of the last one.
#[derive(Debug, Default)]
struct Step {
    commands: Vec<String>,
    picture: Option<String>,
}

fn steps(document: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_in_block = false;
    for line in document.lines() {
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

/// What a command writes to a terminal, as somebody types it into a shell; the reason where this host is too
/// busy for a lab machine. A loop device stands for the document's disk.
fn typed(place: &Place, command: &str, disk: Option<&Loop>) -> Result<Screen, &'static str> {
    let command = disk.map_or_else(|| command.to_owned(), |disk| command.replace(DISK, &disk.0));
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
    if command.starts_with(LAB.0) && TOO_BUSY.iter().any(|reason| messages.contains(reason)) {
        return Err("this host is too busy for a lab machine");
    }
    // On a host that is too busy all trials of a cell may be disturbed.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{command}: {}\n{written}{messages}", output.status);
    let written = disk.map_or(written.clone(), |disk| {
        let own = |path: &str| path.trim_start_matches("/dev/").to_owned();
        written.replace(&own(&disk.0), &own(DISK))
    });
    // The folder of this test is no figure of the machine, and has another name each time.
    Ok(Screen::read(&written.replace(place.folder.path().to_str().unwrap(), "/root")))
}

/// What a command shows that has the whole terminal: its screen once the rules have been asked. On a host
/// that is too busy its load may end before.
fn seen(place: &Place, command: &str) -> Result<Screen, &'static str> {
    let program = Path::new(env!("CARGO_BIN_EXE_flyball")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {command}")]).current_dir(place.folder.path()).env("PATH", path);
    shell.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("COLUMNS").env_remove("NO_COLOR");
    shell.env("FLYBALL_NOTEBOOK", place.path("notebook")).env("FLYBALL_STATE", place.path("state"));
    shell.env("FLYBALL_RUN", place.folder.path());
    let mut terminal = Terminal::start(&mut shell, 24, u16::try_from(COLUMNS).unwrap());
    let is_judged = |text: &str| text.contains("\nFound") && !text.contains("nothing yet");
    let (judged, load) = testing::with_load(|| terminal.becomes(is_judged));
    if !judged {
        let shown = terminal.text();
        assert!(load.is_busy(), "{command}: no verdict of the rules, and {load:?}; the screen:\n{shown}");
        return Err("its load ended before the rules were asked, for this host is too busy");
    }
    let screen = Screen::read(&terminal.formatted());
    terminal.press("q");
    terminal.ended();
    Ok(screen)
}

/// A loop device over a file of zeros.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Self {
        std::fs::File::create(file).unwrap().set_len(64 << 20).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().unwrap();
        assert!(output.status.success(), "{}", support::stderr(&output));
        Self(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// The heads of a screen's lines that are there on every machine, in their order; findings and notes are not.
fn heads(text: &str) -> Vec<&str> {
    const ALWAYS: [&str; 25] = [
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
        // Of check and inspect.
        "Disk",
        "Measured",
        "Trials",
        "Frequency",
        "Idle",
        "Kernel",
        "Memory",
        "Storage",
        "Not here",
        // Of a trial, a recording and an explanation.
        "Outcome",
        "CPU time by role",
        "busiest threads",
        "Findings",
        "What could not be measured, and why",
        "nothing is changed",
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

/// Runs the commands of a document in a place, and holds its pictures against what they show.
fn hold(document: &str, place: &Place, disk: Option<&Loop>) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    std::fs::create_dir_all(&made).unwrap();
    let is_update = std::env::var_os("UPDATE_EXPECT").is_some();
    let has_lab = document.contains(LAB.0) && without_plugin().is_none() && missing(place, LAB.1).is_none();
    for step in &steps(document) {
        for (index, command) in step.commands.iter().enumerate() {
            let picture = step.picture.as_ref().filter(|_| index + 1 == step.commands.len());
            let path = picture.map(|name| kept.join(format!("{name}.svg")));
            let seen = match command.as_str() {
                LONG if !is_update && !testing::is_whole() => Err("it takes 90 s"),
                other if other.contains(DISK) && disk.is_none() => Err("a loop device needs root"),
                other if other.starts_with(LAB.0) && !has_lab => Err("a lab machine cannot be started here"),
                other if other.starts_with(WHOLE_TERMINAL) => seen(place, command),
                _ => typed(place, command, disk),
            };
            let screen = match seen {
                Ok(screen) => screen,
                Err(why) => {
                    testing::skip_in_part(format_args!("`{command}` was not run: {why}"));
                    path.iter().for_each(|path| drop(shown_in(path, command)));
                    continue;
                }
            };
            let text = screen.text();
            let wide = text.lines().find(|line| line.chars().count() > COLUMNS);
            assert!(wide.is_none() || command.contains("--dry-run"), "{command}: {wide:?}");
            let (Some(name), Some(path)) = (picture, path) else { continue };
            let svg = screen.svg(command);
            std::fs::write(made.join(format!("{name}.svg")), &svg).unwrap();
            if is_update {
                std::fs::create_dir_all(&kept).unwrap();
                std::fs::write(&path, svg).unwrap();
            }
            let before = shown_in(&path, command);
            let [mut kept, mut seen] = [heads(&before), heads(&text)];
            // On a host that has other work, the first seconds of a load may show nothing: the view has no
            // next command then.
            if text.contains("nothing in ") {
                kept.retain(|head| *head != "Next");
                seen.retain(|head| *head != "Next");
            }
            assert_eq!(kept, seen, "{name}.svg is of another day; UPDATE_EXPECT=1 makes it anew");
        }
    }
    assert_eq!(place.left_over(), [""; 0].map(PathBuf::from));
}

/// The text of a picture, which is of this command.
fn shown_in(path: &Path, command: &str) -> String {
    let svg = std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_EXPECT=1 makes it", path.display()));
    let text = text_of(&svg);
    assert!(text.contains(&format!("$ {command}")), "{} is of another command: {text}", path.display());
    text
}

/// A study of dm-crypt with small reads alone, under two governors, four times each.
fn shorter(study: &str) -> String {
    let mut text = study.split("[[published]]").next().unwrap().to_owned();
    let mut cut = |from: &str, to: &str| {
        let (begin, end) = (text.find(from).unwrap(), text.find(to).unwrap());
        text.replace_range(begin..end, "");
    };
    cut("# The same bytes in large blocks", "# 95 is the default");
    cut(
        "[[factor.governor.level]]\nname = \"ondemand-40\"",
        "[[factor.governor.level]]\nname = \"performance\"",
    );
    cut("[[factor.governor.level]]\nname = \"schedutil\"", "# Five times each");
    text.replace("number_ios = 200", "number_ios = 60").replace("repeats = 5", "repeats = 4")
}

#[test]
fn each_command_of_the_tutorial_works_and_its_pictures_are_of_today() {
    let count = steps(TUTORIAL).iter().map(|step| step.commands.len()).sum::<usize>();
    assert!(count >= 10, "{count}");
    hold(TUTORIAL, &Place::new(), None);
}

#[test]
fn each_other_screen_has_a_picture_of_today() {
    if !testing::is_long_in_turn(3) {
        return;
    }
    let place = Place::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    for (from, to) in [("machines/dell-9360-kbl", "laptop"), ("tools/fio/read-3.33.json", "fio.json")] {
        std::os::unix::fs::symlink(fixtures.join(from).canonicalize().unwrap(), place.path(to)).unwrap();
    }
    let pictures = steps(SCREENS).iter().filter(|step| step.picture.is_some()).count();
    assert_eq!(pictures, 14, "a picture is missing");
    std::fs::write(place.path("crypt.toml"), shorter(DMCRYPT)).unwrap();
    let disk = is_root().then(|| Loop::over(&place.path("disk")));
    hold(SCREENS, &place, disk.as_ref());
}
