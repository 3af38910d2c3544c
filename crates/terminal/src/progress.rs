//! Progress with an estimate of the time left: one line that is drawn anew on a terminal; elsewhere a line
//! for each tenth of the run, and one a minute while a trial is longer than that.

use super::width::stderr_width;
use domain::Nanos;
use domain::inert::one_line;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How often the bar is drawn, a second: rarely, for the terminal's own work disturbs what is measured.
const DRAWS_A_SECOND: u8 = 2;

/// How often it is drawn where nothing else happens, to show that a long trial is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// How often a line says the same where there is no terminal.
const STILL: Duration = Duration::from_secs(60);

/// The width of a terminal that does not tell it.
const WIDTH: usize = 80;

/// What `, for 59m` behind the line takes.
const ELAPSED: usize = 10;

/// The cells of the bar.
const BAR: usize = 16;

/// What is done now, and how far the run is.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The cell that is measured.
    pub cell: String,
    /// What it reached so far: `median 41.2 MB/s of 3`; `None` before its first trial.
    pub so_far: Option<String>,
    /// Trials that are done.
    pub made: u64,
    /// Trials that there will be, as far as can be told.
    pub total: u64,
    /// Why there are more than at the beginning; `None` where there are not.
    pub grown: Option<String>,
    /// How long the rest will take.
    pub left: Option<Nanos>,
}

/// The progress of one run.
pub struct Progress {
    bar: ProgressBar,
    /// The tenth that was said last, where there is no terminal.
    tenth: u64,
    /// Tells that the trial is alive, where there is no terminal; `None` between trials.
    alive: Option<Alive>,
}

impl Progress {
    /// On standard error.
    pub fn on_stderr() -> Self {
        let target = if super::is_terminal_for_talk() {
            ProgressDrawTarget::stderr_with_hz(DRAWS_A_SECOND)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{msg}, for {elapsed}").expect("the template is a constant");
        bar.set_style(style);
        Self { bar, tenth: 0, alive: None }
    }

    /// Which trial runs from now on.
    pub fn show(&mut self, step: &Step) {
        if self.bar.is_hidden() {
            self.say_tenth(step);
            let step = step.clone();
            self.alive = Some(Alive::every(STILL, move |span| super::say(still_line(&step, span))));
            return;
        }
        let width = stderr_width().unwrap_or(WIDTH).saturating_sub(ELAPSED);
        self.bar.set_message(line(step, width));
        self.bar.reset_elapsed();
        self.bar.tick();
        self.bar.enable_steady_tick(ALIVE);
    }

    fn say_tenth(&mut self, step: &Step) {
        let tenth = (step.made * 10).checked_div(step.total).unwrap_or(0);
        if tenth > self.tenth {
            self.tenth = tenth;
            super::say(tenth_line(step));
        }
    }

    /// A line of talk above the bar, or on standard error where there is none.
    pub fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            super::say(line);
        } else {
            self.bar.println(super::laid_out(&one_line(line)));
        }
    }

    /// Takes the bar away.
    pub fn clear(&mut self) {
        self.alive = None;
        self.bar.finish_and_clear();
    }
}

/// A thread that says for how long something goes on, until it is dropped.
struct Alive {
    _ended: Sender<()>,
}

impl Alive {
    fn every(interval: Duration, say: impl Fn(Duration) + Send + 'static) -> Self {
        let (sender, ended) = mpsc::channel();
        let begun = Instant::now();
        std::thread::spawn(move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                say(begun.elapsed());
            }
        });
        Self { _ended: sender }
    }
}

/// `randread_4k still runs, for 2 min; 12 of 40 trials (30%), about 9 min left`.
fn still_line(step: &Step, span: Duration) -> String {
    let percent = (step.made * 100).checked_div(step.total).unwrap_or(0);
    let left = step.left.map_or(String::new(), |left| format!(", about {left} left"));
    let (cell, made, total, minutes) = (&step.cell, step.made, step.total, span.as_secs() / 60);
    format!("{cell} still runs, for {minutes} min; {made} of {total} trials ({percent}%){left}")
}

/// `12 of 40 trials (30%), about 2 min left; now randread_4k`.
fn tenth_line(step: &Step) -> String {
    let Step { cell, made, total, grown, left, .. } = step;
    let percent = (made * 100).checked_div(*total).unwrap_or(0);
    let left = left.map_or(String::new(), |left| format!(", about {left} left"));
    let grown = grown.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    format!("{made} of {total} trials ({percent}%){grown}{left}; now {cell}")
}

/// As much of it as has room: what matters least goes first, and always as a whole.
fn line(step: &Step, width: usize) -> String {
    let count = format!("{}/{} trials", step.made, step.total);
    let bar = bar(step);
    let left = step.left.map(|left| format!("about {left} left"));
    let median = step.so_far.clone();
    let grown = step.grown.clone();
    let cell = Some(one_line(&step.cell).into_owned());
    let lines = [
        [Some(&bar), Some(&count), grown.as_ref(), left.as_ref(), cell.as_ref(), median.as_ref()],
        [None, Some(&count), grown.as_ref(), left.as_ref(), cell.as_ref(), median.as_ref()],
        [None, Some(&count), None, left.as_ref(), cell.as_ref(), median.as_ref()],
        [None, Some(&count), None, None, cell.as_ref(), median.as_ref()],
        [None, Some(&count), None, None, cell.as_ref(), None],
    ];
    let joined = |parts: &[Option<&String>; 6]| {
        let parts: Vec<&str> = parts.iter().flatten().map(|part| part.as_str()).collect();
        parts.join(", ").replacen("], ", "] ", 1)
    };
    lines.iter().map(joined).find(|line| line.chars().count() <= width).unwrap_or(count)
}

fn bar(step: &Step) -> String {
    let done = (step.made.min(step.total) as usize * BAR).checked_div(step.total as usize).unwrap_or(0);
    format!("[{}{}]", "=".repeat(done), " ".repeat(BAR - done))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> Step {
        Step {
            cell: "randread_4k".into(),
            so_far: Some("median 41.2 MB/s of 3".into()),
            made: 18,
            total: 42,
            grown: Some("2 more: 2 disturbed trials are repeated".into()),
            left: Some(Nanos::from_secs(90)),
        }
    }

    #[test]
    fn what_matters_least_goes_where_there_is_no_room_and_no_word_is_cut() {
        let all = line(&step(), 200);
        for part in
            ["18/42 trials", "2 more: 2 disturbed trials are repeated", "randread_4k, median 41.2 MB/s of 3"]
        {
            assert!(all.contains(part), "{all}");
        }
        for width in [20, 30, 50, 60, 70, 80, 120] {
            let shown = line(&step(), width);
            assert!(shown.chars().count() <= width, "{shown}");
            let words: Vec<&str> = all.split([' ', ',']).collect();
            assert!(shown.split([' ', ',']).all(|word| words.contains(&word)), "{shown}");
        }
        assert_eq!(line(&step(), 55), "18/42 trials, randread_4k, median 41.2 MB/s of 3");
    }

    #[test]
    fn a_long_trial_says_that_it_is_alive_until_it_ends() {
        assert_eq!(
            still_line(&step(), Duration::from_millis(120_001)),
            "randread_4k still runs, for 2 min; 18 of 42 trials (42%), about 90.0 s left"
        );
        let (sender, said) = mpsc::channel();
        let alive = Alive::every(Duration::from_millis(1), move |span| sender.send(span).unwrap());
        let (first, second) = (said.recv().unwrap(), said.recv().unwrap());
        assert!(second > first);
        drop(alive);
        // The thread has ended, and with it what it would say.
        said.iter().for_each(drop);
    }

    #[test]
    fn a_tenth_says_how_far_it_is_and_why_it_grew() {
        assert_eq!(
            tenth_line(&step()),
            "18 of 42 trials (42%) (2 more: 2 disturbed trials are repeated), about 90.0 s left; now randread_4k"
        );
    }
}
