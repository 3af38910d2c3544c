//! The view of a machine at work: rows of a trace become figures, and figures the lines of a screen.
//!
//! ```text
//! rows (recorder::Live, or a stored trace by Player) ─► State ─► Figures ─┐
//! About, Changes, Found, output of the command ───────────────────────────┴► Scene ─► lines
//! ```
//!
//! Live rows and stored ones are the same, and so is all that follows. Time comes with the rows: the same
//! rows and keys give the same lines.
//!
//! Not here: terminals, files, clocks. Text of others is as it came: whoever draws the lines makes it inert.

mod charset;
mod figures;
mod frame;
mod index;
mod layers;
mod lines;
mod player;
mod state;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod window;

pub use charset::Charset;
pub use figures::{CpuNow, DiskNow, Figures};
pub use frame::{MIN_SIZE, Scene, Showing, Size, frame};
pub use lines::{Line, Span, Style, text_of};
pub use player::{Player, most_rows};
pub use state::State;

/// What is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// In words: `this machine`, `process 4711 mysqld`, a command, a trial.
    pub what: String,
}

/// What the rules find in what was seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// They have not been asked yet.
    #[default]
    NotYet,
    /// Nothing.
    Nothing {
        /// How much they were shown.
        seen: String,
    },
    /// The first finding.
    Finding {
        /// The diagnosis in one sentence.
        title: String,
        /// `shown`, `likely`, `possible`.
        confidence: &'static str,
        /// How many there are besides.
        others: usize,
        /// The command to type next, once this is left.
        next: String,
    },
}

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Arrows and their neighbours.
    Up,
    /// Down.
    Down,
    /// Left.
    Left,
    /// Right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Escape, and Ctrl-C, which a terminal in raw mode hands over as a key.
    Escape,
}

impl Key {
    /// Whether it leaves the view.
    pub const fn leaves(self) -> bool {
        matches!(self, Self::Char('q' | 'Q') | Self::Escape)
    }
}
