//! Progress with an estimate of the time left: a bar on a terminal, nothing at all elsewhere.

use domain::Nanos;
use domain::inert::one_line;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// How often the bar is drawn, a second: rarely, for the terminal's own work disturbs what is measured.
const DRAWS_A_SECOND: u8 = 2;

/// How often it is drawn where nothing else happens, to show that a long trial is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// The bar of one run.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar on standard error, where that is a terminal.
    pub fn new() -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(DRAWS_A_SECOND)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} trials  {msg}, for {elapsed}")
            .expect("the template is a constant")
            .progress_chars("=> ");
        bar.set_style(style);
        Self(bar)
    }

    /// Which trial runs from now on, how many are done of how many at the least, and how long the rest will
    /// take.
    pub fn show(&self, what: &str, done: u64, total: u64, left: Option<Nanos>) {
        self.0.set_length(total);
        self.0.set_position(done);
        let left = left.map_or(String::new(), |t| format!("about {t} left, "));
        self.0.set_message(one_line(&format!("{left}{what}")).into_owned());
        self.0.reset_elapsed();
        self.0.tick();
        self.0.enable_steady_tick(ALIVE);
    }

    /// A line of talk above the bar, or on standard error where there is none.
    pub fn say(&self, line: &str) {
        if self.0.is_hidden() {
            super::say(line);
        } else {
            self.0.println(one_line(line));
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}
