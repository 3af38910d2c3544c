//! `flyball watch` on a terminal: what it shows, its keys, how it ends, and that the terminal is given back.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::terminal::Terminal;
use crate::support::{Place, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

/// The program on a terminal of its own that has all characters.
fn watch(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.flyball(&[&["watch"], arguments].concat());
    command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("COLUMNS");
    command
}

fn start(place: &Place, arguments: &[&str]) -> Terminal {
    Terminal::start(&mut watch(place, arguments), 24, 80)
}

fn signal(terminal: &Terminal, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(terminal.pid()).unwrap()).unwrap(), signal).unwrap();
}

/// What every screen has, whatever the machine.
fn check_sections(screen: &str) {
    for label in ["CPU ", "CPU time", "Layer", "Waits", "Power", "Changed", "Found"] {
        let count = screen.lines().filter(|line| line.starts_with(label)).count();
        assert!(count >= 1, "{label}: {screen}");
    }
    assert!(screen.lines().last().unwrap().starts_with('q'), "no keys: {screen}");
}

#[test]
fn a_command_is_seen_at_work_and_its_code_is_passed_on() {
    let place = Place::new();
    let wait = place.path("go on");
    let script = format!(
        "echo load > \"$FLYBALL_MARKS\"; echo out; echo err >&2; until [ -e '{}' ]; do sleep 0.1; done; exit 7",
        wait.display()
    );
    let mut terminal = start(&place, &["--", "sh", "-c", &script]);
    let screen = terminal.until("figures and output", |text| {
        text.contains("of one CPU: ") && text.contains("Output   out") && text.contains("err")
    });
    assert!(screen.starts_with("flyball watch: sh -c "), "{screen}");
    check_sections(&screen);
    assert_eq!(screen.lines().count(), 24, "{screen}");
    std::fs::write(wait, "").unwrap();
    let (status, left) = terminal.ended();
    assert_eq!(status.code(), Some(7), "{left}");
    for part in ["out\nerr\n", "flyball explain recording-sh", "flyball watch recording-sh"] {
        assert!(left.contains(part), "{part}: {left}");
    }
    assert_eq!(place.trials(), ["b00.recorded.a0"]);
    // What the command marked is in the recording, as one of `flyball record` has it.
    let shown = place.ok(&["show", "recording-sh"]);
    let marked = shown.lines().filter(|line| line.trim_start().starts_with("load ")).count();
    assert!(shown.contains("From mark to mark") && marked == 1, "{shown}");
}

#[test]
fn leaving_ends_a_command_as_an_interruption_does_and_keeps_what_was_recorded() {
    let place = Place::new();
    for key in ["q", "\u{3}"] {
        let mut terminal = start(&place, &["--", "sleep", "1234.5"]);
        terminal.shows("of one CPU: ");
        terminal.press(key);
        let (status, left) = terminal.ended();
        assert_eq!(status.code(), Some(143), "{left}");
        assert!(left.contains("flyball explain recording-sleep"), "{left}");
    }
    assert_eq!(place.trials().len(), 2);
    assert_eq!(place.left_over(), [""; 0].map(PathBuf::from));
}

#[test]
fn every_signal_to_end_gives_the_terminal_back() {
    for sent in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let place = Place::new();
        let mut terminal = start(&place, &[]);
        terminal.shows("of one CPU: ");
        signal(&terminal, sent);
        let (status, left) = terminal.ended();
        assert_eq!((status.code(), status.signal()), (Some(0), None), "{sent:?}: {left}");
        assert!(left.contains("flyball explain recording"), "{left}");
    }
}

#[test]
fn a_process_is_watched_until_it_ends_and_stays_alone() {
    let place = Place::new();
    let mut process = Command::new("sleep").arg("1234.5").spawn().unwrap();
    let mut terminal = start(&place, &["--pid", &process.id().to_string()]);
    let screen = terminal.shows("of one CPU: ");
    assert!(screen.starts_with(&format!("flyball watch: process {} sleep", process.id())), "{screen}");
    terminal.press("q");
    assert_eq!(terminal.ended().0.code(), Some(0));
    assert!(process.try_wait().unwrap().is_none(), "leaving ended it");
    let mut terminal = start(&place, &["--pid", &process.id().to_string()]);
    terminal.shows("of one CPU: ");
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(terminal.ended().0.code(), Some(0));
}

#[test]
fn a_terminal_may_change_its_size_and_one_that_is_too_small_is_told() {
    let place = Place::new();
    let mut terminal = start(&place, &[]);
    terminal.shows("of one CPU: ");
    terminal.resize(10, 40);
    terminal.shows("too small: 40x10, needs 60x16; q leaves");
    terminal.resize(60, 200);
    let screen = terminal.until("a large screen", |text| text.contains("queue") && text.contains("q leave"));
    check_sections(&screen);
    assert_eq!(screen.lines().count(), 60, "{screen}");
    terminal.press(" ");
    terminal.shows("HELD");
    terminal.press(" ");
    terminal.until("that it goes on", |text| !text.contains("HELD"));
    terminal.press("q");
    assert_eq!(terminal.ended().0.code(), Some(0));
}

#[test]
fn without_utf8_or_colours_it_is_ascii_without_styles() {
    let place = Place::new();
    for (arguments, locale) in [(&["--ascii"][..], "C.UTF-8"), (&[], "C")] {
        let mut terminal = Terminal::start(watch(&place, arguments).env("LC_ALL", locale), 24, 80);
        // However busy the first CPU is: behind its share.
        let has_history = |line: &str| {
            let shares = line.trim_start().strip_prefix("0 ").and_then(|line| line.split_once('%'));
            shares.is_some_and(|(_, behind)| behind.contains(['_', '.', ':', '-', '=', '+', '*', '#']))
        };
        let screen = terminal.until("a history", |text| text.lines().any(has_history));
        assert!(screen.is_ascii(), "{screen}");
        assert!(!terminal.formatted().contains("\u{1b}[1m"), "styles in spite of NO_COLOR");
        terminal.press("q");
        terminal.ended();
    }
    let mut terminal = Terminal::start(watch(&place, &[]).env_remove("NO_COLOR"), 24, 80);
    terminal.until("a history", |text| text.contains(|c| ('▁'..='█').contains(&c)));
    assert!(terminal.formatted().contains("\u{1b}[1m"), "{}", terminal.formatted());
    terminal.press("q");
    terminal.ended();
}

#[test]
fn what_a_command_prints_and_is_called_is_inert() {
    let place = Place::new();
    let name = "sl\u{1b}[2Jeep\u{202e}";
    std::os::unix::fs::symlink("/bin/sh", place.path(name)).unwrap();
    let program = place.path(name);
    let script = "printf 'a\\033[2J\\033]0;x\\007b\\n'; sleep 1234.5";
    let mut terminal = start(&place, &["--", program.to_str().unwrap(), "-c", script]);
    let screen = terminal.shows("a\\x1b[2J\\x1b]0;x\\x07b");
    assert!(screen.starts_with("flyball watch: ") && screen.contains("\\x1b[2Jeep"), "{screen}");
    terminal.press("q");
    let (_, left) = terminal.ended();
    assert!(left.contains("a\\x1b[2J"), "{left}");
}

#[test]
fn a_recorded_trial_plays_in_the_same_view_and_is_sought_in() {
    let place = Place::new();
    place.ok(&["record", "--", "sh", "-c", "i=0; while [ $i -lt 40 ]; do i=$((i+1)); sleep 0.05; done"]);
    let mut terminal = start(&place, &["recording-sh"]);
    let screen = terminal.shows("b00.recorded.a0 of recording-sh");
    assert!(screen.lines().last().unwrap().contains("left/right 1 s"), "{screen}");
    check_sections(&screen);
    terminal.press("\u{1b}[F");
    let screen = terminal.until("the end", |text| text.contains("HELD") && text.contains("of one CPU: "));
    assert!(screen.lines().next().unwrap().contains("HELD 2.") || screen.contains("HELD"), "{screen}");
    terminal.press("\u{1b}[H");
    terminal.press(" ");
    terminal.until("the beginning", |text| text.lines().next().is_some_and(|head| head.contains(" 0.")));
    terminal.press("q");
    let (status, left) = terminal.ended();
    assert_eq!(status.code(), Some(0), "{left}");
    assert!(left.contains("flyball explain recording-sh"), "{left}");
    assert_eq!(place.trials().len(), 1, "to look at a recording makes none");
}

#[test]
fn what_cannot_be_watched_is_told_with_what_to_do() {
    let place = Place::new();
    let error = place.fails(2, &["watch"]);
    assert!(error.contains("`flyball record`"), "{error}");
    place.ok(&["run", "quick", "--on", "sim", "--machine", "server-nvme", "--seed", "1"]);
    let cases: [(i32, &[&str], &str, &str); 5] = [
        (2, &["--pid", "4194305"], "there is none", "pgrep"),
        (2, &["--", "/nope/program"], "nothing was recorded", "name a program by its path"),
        (1, &["nope"], "nope", "flyball list"),
        (2, &["quick", "nope"], "nope", ""),
        (1, &["quick", "b77.nope.a0"], "has no such trial", "flyball export"),
    ];
    for (code, arguments, why, what_to_do) in cases {
        let (status, left) = Terminal::start(&mut watch(&place, arguments), 24, 120).ended();
        assert_eq!(status.code(), Some(code), "{arguments:?}: {left}");
        // As it was before it was broken between words.
        let left = left.replace("\n  | ", " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(left.contains(why) && left.contains(what_to_do), "{arguments:?}: {left}");
    }
}

/// The program in a session of tmux that has its own server.
struct Tmux<'p>(&'p Place);

impl Tmux<'_> {
    fn run(&self, arguments: &[&str]) -> std::io::Result<std::process::Output> {
        let socket = self.0.path("tmux");
        Command::new("tmux").arg("-S").arg(socket).args(["-f", "/dev/null"]).args(arguments).output()
    }

    /// Whether there is a tmux, in which the view is now.
    fn start(&self, arguments: &[&str]) -> bool {
        if self.run(&["-V"]).is_err() {
            testing::skip_in_part(format_args!("tmux is not installed"));
            return false;
        }
        let inner = watch(self.0, arguments);
        let names = inner.get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
        let mut line: Vec<String> = ["exec", "env"].map(str::to_owned).into();
        line.extend(names.map(|(name, value)| format!("{name}='{value}'")));
        line.push(inner.get_program().to_str().unwrap().to_owned());
        line.extend(inner.get_args().map(|word| format!("'{}'", word.to_str().unwrap())));
        let started = self.run(&["new-session", "-d", "-x", "80", "-y", "24", &line.join(" ")]).unwrap();
        assert!(started.status.success(), "{started:?}");
        true
    }

    fn shown(&self) -> String {
        String::from_utf8(self.run(&["capture-pane", "-p"]).unwrap().stdout).unwrap()
    }
}

#[test]
fn tmux_shows_the_same() {
    let place = Place::new();
    let tmux = Tmux(&place);
    if !tmux.start(&["--ascii", "--", "sh", "-c", "echo hello; sleep 1234.5"]) {
        return;
    }
    let is_there = || tmux.shown().contains("of one CPU: ") && tmux.shown().contains("hello");
    wait_until("tmux shows the view", is_there);
    check_sections(&tmux.shown());
    tmux.run(&["send-keys", "q"]).unwrap();
    wait_until("the program has left", || !tmux.run(&["has-session"]).unwrap().status.success());
    tmux.run(&["kill-server"]).unwrap();
}

#[test]
fn a_terminal_that_hangs_up_ends_the_view_and_keeps_what_was_recorded() {
    let place = Place::new();
    let tmux = Tmux(&place);
    if !tmux.start(&[]) {
        return;
    }
    wait_until("tmux shows the view", || tmux.shown().contains("of one CPU: "));
    let pid = String::from_utf8(tmux.run(&["display", "-p", "#{pane_pid}"]).unwrap().stdout).unwrap();
    let process = PathBuf::from(format!("/proc/{}", pid.trim()));
    assert!(std::fs::read_to_string(process.join("comm")).unwrap().contains("flyball"));
    tmux.run(&["kill-server"]).unwrap();
    wait_until("the program has ended", || !process.exists());
    assert_eq!(place.trials().len(), 1);
}
