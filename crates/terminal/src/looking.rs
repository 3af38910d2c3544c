//! The view of a machine at work on the terminal: of a recording that goes on, and of one that is stored.

use crate::view::View;
use domain::Nanos;
use domain::finding::Finding;
use machine::LocalMachine;
use machine::inventory::renew_governors;
use results::Playable;
use session::recordings::{Judged, Onlooker, Underway};
use std::env;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use watch::{About, Charset, Found, Key, Player, Scene, Showing, State, frame};

/// From one frame to the next: ten a second.
const FRAME: Duration = Duration::from_millis(100);

/// How often what Flyball has changed and the governors are read.
const SETTINGS: Duration = Duration::from_secs(2);

/// How many lines of a command's output a frame may want.
const OUTPUT: usize = 8;

/// Reads what Flyball has changed on this machine, a few words each.
pub type Changed<'a> = &'a (dyn Fn() -> Vec<String> + Sync);

/// Which characters the user's terminal has: those of ASCII where that is asked for, on a terminal that is
/// `dumb`, and in a locale whose characters are not UTF-8 (locale(7): `LC_ALL`, `LC_CTYPE`, `LANG`).
pub fn charset(ascii: bool) -> Charset {
    let value = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value);
    let locale = locale.map(|locale| locale.to_string_lossy().to_ascii_uppercase()).unwrap_or_default();
    let is_utf8 = locale.contains("UTF-8") || locale.contains("UTF8");
    let is_dumb = value("TERM").is_some_and(|terminal| terminal == "dumb");
    if ascii || is_dumb || !is_utf8 { Charset::Ascii } else { Charset::Unicode }
}

/// Looks at a recording that goes on.
pub struct Looking<'a> {
    charset: Charset,
    program: &'a str,
    changed: Changed<'a>,
    /// The last lines that the command printed, for afterwards.
    printed: Mutex<Vec<String>>,
}

/// How many of them are kept.
const PRINTED: usize = 200;

impl Onlooker for Looking<'_> {
    fn look(&self, underway: &Underway<'_>) -> io::Result<()> {
        let looked = self.until_its_end(underway);
        if looked.is_err() {
            underway.end();
        }
        // The command's last words come with its end.
        while !underway.is_over() {
            thread::sleep(FRAME);
        }
        *self.printed.lock().unwrap_or_else(PoisonError::into_inner) = underway.output(PRINTED);
        looked
    }
}

impl<'a> Looking<'a> {
    /// One that draws with these characters, of a program that is typed so.
    pub fn new(charset: Charset, program: &'a str, changed: Changed<'a>) -> Self {
        Self { charset, program, changed, printed: Mutex::default() }
    }

    /// Prints the last lines that the command printed.
    ///
    /// # Errors
    /// Where standard output cannot be written.
    pub fn say_what_was_printed(&self) -> io::Result<()> {
        let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        crate::lines(&printed.iter().collect())
    }

    fn until_its_end(&self, underway: &Underway<'_>) -> io::Result<()> {
        let mut view = View::open()?;
        let mut rows = underway.rows();
        let about = About { what: underway.in_words() };
        let mut state = State::of(Some(underway.inventory().clone()));
        let (mut is_held, mut scrolled) = (false, 0);
        let (mut changed, mut looked) = ((self.changed)(), Instant::now());
        let mut next = Instant::now();
        while !underway.is_over() {
            if !is_held {
                rows.advance(&mut state).map_err(io::Error::other)?;
            }
            if looked.elapsed() >= SETTINGS {
                looked = Instant::now();
                changed = (self.changed)();
                if let Some(cpufreq) = state.inventory_mut().and_then(|all| all.cpufreq.as_mut()) {
                    renew_governors(&LocalMachine, cpufreq);
                }
            }
            let found = found_so_far(underway.judged().as_deref(), self.program);
            let output = underway.output(OUTPUT);
            let (is_ending, ends_command) = (underway.is_ending(), underway.is_of_command());
            let showing = Showing::Live { is_held, is_ending, ends_command };
            let scene = Scene {
                about: &about,
                state: &state,
                showing,
                changed: &changed,
                found: &found,
                output: &output,
                scrolled,
            };
            let size = View::size()?;
            view.draw(&frame(&scene, size, self.charset), size)?;
            next = (next + FRAME).max(Instant::now());
            while let Some(key) = view.key(next.saturating_duration_since(Instant::now()))? {
                match key {
                    key if key.leaves() => underway.end(),
                    Key::Char(' ') => is_held = !is_held,
                    key => scrolled = scroll(scrolled, key, state.figures().cpus.len()),
                }
            }
        }
        Ok(())
    }
}

fn scroll(scrolled: usize, key: Key, count: usize) -> usize {
    match key {
        Key::Up | Key::Char('k') => scrolled.saturating_sub(1),
        Key::Down | Key::Char('j') => (scrolled + 1).min(count.saturating_sub(1)),
        _ => scrolled,
    }
}

/// What the rules found so far, as the view shows it.
fn found_so_far(judged: Option<&Judged>, program: &str) -> Found {
    let Some(judged) = judged else { return Found::NotYet };
    let found = found(&judged.findings, judged.span, program);
    match found {
        // The run is there once it is kept.
        Found::Finding { title, confidence, others, next } if next.contains(&judged.run.0) => {
            Found::Finding { title, confidence, others, next: format!("q, then {next}") }
        }
        found => found,
    }
}

fn found(findings: &[Finding], seen: Nanos, program: &str) -> Found {
    let Some(first) = findings.first() else { return Found::Nothing { seen: seen.to_string() } };
    let next = first.next.strip_prefix("flyball ");
    let next = next.map_or_else(|| first.next.clone(), |rest| format!("{program} {rest}"));
    let (title, confidence) = (first.title.clone(), first.confidence.name());
    Found::Finding { title, confidence, others: findings.len() - 1, next }
}

/// A stored trial, and what is known of it.
pub struct Recorded {
    about: About,
    player: Player,
    changed: Vec<String>,
    found: Found,
}

impl Recorded {
    /// Of a trial, shown by a program that is typed so.
    pub fn of(playable: Playable, program: &str) -> Self {
        let changed = playable.changed();
        let what = format!("{} of {}", playable.trial.key, playable.trial.run);
        let player = Player::new(playable.trace, playable.machine);
        let found = found(&playable.findings, player.length(), program);
        Self { about: About { what }, player, changed, found }
    }
}

/// Plays a stored trial until somebody leaves, or `interrupt` is set.
///
/// # Errors
/// Where the terminal cannot be drawn on or read.
pub fn play(recorded: &mut Recorded, charset: Charset, interrupt: &AtomicBool) -> io::Result<()> {
    let mut view = View::open()?;
    let mut scrolled = 0;
    let mut before = Instant::now();
    while !interrupt.load(Ordering::Relaxed) {
        let now = Instant::now();
        let span = u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX);
        recorded.player.pass(Nanos::new(span));
        before = now;
        let player = &recorded.player;
        let showing =
            Showing::Recorded { length: player.length(), is_held: player.is_held(), pace: player.pace() };
        let scene = Scene {
            about: &recorded.about,
            state: player.state(),
            showing,
            changed: &recorded.changed,
            found: &recorded.found,
            output: &[],
            scrolled,
        };
        let size = View::size()?;
        view.draw(&frame(&scene, size, charset), size)?;
        let next = now + FRAME;
        while let Some(key) = view.key(next.saturating_duration_since(Instant::now()))? {
            if key.leaves() {
                return Ok(());
            }
            scrolled = scroll(scrolled, key, recorded.player.state().figures().cpus.len());
            recorded.player.press(key);
        }
    }
    Ok(())
}
