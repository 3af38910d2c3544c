//! A page of the book: a published report, and where in the runs of which studies its figures and questions
//! come up again.
//!
//! It holds what somebody wrote: what the report says, what its author asked, what cannot be done here. What
//! runs answer to that is computed, by `analysis::page`.

use crate::published::Selection;
use crate::trial::{Provenance, Run, is_of_the_lab};
use std::collections::BTreeMap;

/// A column of a page: the runs that stand beside what was published. At most one run of a study is in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// A host.
    Host,
    /// The lab.
    Lab,
    /// The simulation of the lab's own machine, where that is not the study's: what differs from
    /// [`Column::Lab`] is the model's error.
    LabModel,
    /// The simulation of the study's machine, which is mostly that of the report.
    Simulation,
    /// Another tool's results.
    Imported,
}

impl Column {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Lab, Self::LabModel, Self::Simulation, Self::Host, Self::Imported];

    /// The column of a run, of a study whose simulated machine is this.
    pub fn of(run: &Run, machine: Option<&str>) -> Self {
        match run.provenance {
            Provenance::Simulation if run.simulates_the_lab() && !machine.is_some_and(is_of_the_lab) => {
                Self::LabModel
            }
            provenance => Self::of_kind(provenance),
        }
    }

    /// The column of a kind of machine; that of the simulation has the study's machine.
    pub const fn of_kind(provenance: Provenance) -> Self {
        match provenance {
            Provenance::Host => Self::Host,
            Provenance::Lab => Self::Lab,
            Provenance::Simulation => Self::Simulation,
            Provenance::Imported => Self::Imported,
        }
    }

    /// The kind of machine whose runs it holds.
    pub const fn kind(self) -> Provenance {
        match self {
            Self::Host => Provenance::Host,
            Self::Lab => Provenance::Lab,
            Self::LabModel | Self::Simulation => Provenance::Simulation,
            Self::Imported => Provenance::Imported,
        }
    }

    /// As files and other programs know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LabModel => "lab_model",
            column => column.kind().name(),
        }
    }
}

/// A page, which stands in the study that it is named after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// Where the report was published: an address, or a title and a date.
    pub source: String,
    /// What the report says, in the words of the page.
    pub published: Vec<String>,
    /// The studies whose published rows stand side by side, in their order; at least one.
    pub parts: Vec<Part>,
    /// What the report's author, or its readers, wanted to know.
    pub questions: Vec<Question>,
    /// What could not be reproduced, and why.
    pub not_reproduced: Vec<String>,
    /// What an answer needs on a kind of machine, for questions that do not say so themselves.
    pub needs: BTreeMap<Provenance, String>,
}

/// A study of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its file, from the folder of the study that holds the page; `None`: that study itself.
    pub study: Option<String>,
    /// What it measures, and on what scale its figures are held beside the published ones.
    pub about: String,
    /// Only rows about cells of these levels are shown; of the others, how many agree. Factor name to level
    /// name.
    pub only: BTreeMap<String, String>,
    /// Why it is not run on a kind of machine.
    pub not_run: BTreeMap<Provenance, String>,
}

/// A question, a wish or a comment that the report left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// In the words of whoever asked.
    pub asked: String,
    /// What of it can be told; empty where nothing can, which `note`, `known` or `needs` explains.
    pub answers: Vec<Answer>,
    /// The answer of the report itself, or of a source that is named in it.
    pub known: Option<String>,
    /// What an answer needs on a kind of machine: "needs …".
    pub needs: BTreeMap<Provenance, String>,
    /// What the reader has to know besides.
    pub note: Option<String>,
}

/// Something that may be true, and the cells of a study that tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What they tell: a sentence that is true or not, or, where it is only looked, what at.
    pub claim: String,
    /// The study's name; `None`: that of the page.
    pub study: Option<String>,
    /// The cells.
    pub of: Selection,
    /// What is looked at.
    pub look: Look,
}

/// What of a cell is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// By how much it differs from another.
    Against {
        /// The other: the same cell, but for what this names.
        over: Selection,
        /// By which metric; `None`: the study's.
        metric: Option<String>,
        /// What makes the claim true.
        yes_if: YesIf,
    },
    /// Its figure.
    Figure {
        /// By which metric; `None`: the study's.
        metric: Option<String>,
    },
    /// From where to where its trials go.
    Spread {
        /// By which metric; `None`: the study's.
        metric: Option<String>,
    },
    /// Whose CPU time it took.
    Cpu,
    /// What its CPU time was spent in, by sampled call stacks.
    Spent,
    /// How busy its busiest CPU was between two samples of its governor.
    Windows,
}

impl Look {
    /// By these names a study file has those that are no comparison.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("figure", Self::Figure { metric: None }),
        ("spread", Self::Spread { metric: None }),
        ("cpu", Self::Cpu),
        ("spent", Self::Spent),
        ("windows", Self::Windows),
    ];

    /// The metric that is named; `None`: the study's, or that none is looked at.
    pub const fn metric(&self) -> Option<&String> {
        match self {
            Self::Against { metric, .. } | Self::Figure { metric } | Self::Spread { metric } => {
                metric.as_ref()
            }
            Self::Cpu | Self::Spent | Self::Windows => None,
        }
    }

    /// Whether a metric is looked at, named or the study's.
    pub const fn is_by_metric(&self) -> bool {
        matches!(self, Self::Against { .. } | Self::Figure { .. } | Self::Spread { .. })
    }
}

/// What has to come out of a comparison for a claim to be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YesIf {
    /// The cell is better than the other.
    Better,
    /// It is worse.
    Worse,
    /// It is one or the other.
    Differs,
    /// It is neither, within the study's threshold.
    Same,
}

impl YesIf {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Better, Self::Worse, Self::Differs, Self::Same];

    /// As a study file has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Differs => "differs",
            Self::Same => "same",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::ids::RunId;
    use crate::rng::Seed;
    use crate::trial::simulated_machine;

    #[test]
    fn a_simulation_of_the_labs_machine_alone_is_its_model() {
        let column = |names: &[&str]| {
            let run = Run {
                id: RunId("r".into()),
                study: "s".into(),
                study_text: String::new(),
                seed: Seed(1),
                started: Timestamp::default(),
                finished: None,
                provenance: Provenance::Simulation,
                machine: simulated_machine(names, 7),
                flyball: "0".into(),
                revision: None,
                command: vec![],
            };
            [None, Some("lab")].map(|machine| Column::of(&run, machine))
        };
        assert_eq!(column(&["lab"]), [Column::LabModel, Column::Simulation]);
        assert_eq!(column(&["lab-unpaced"]), column(&["lab"]));
        assert_eq!(column(&["lab", "lab"]), column(&["lab"]));
        for names in [&["server-nvme"][..], &["lab", "server-nvme"], &["labour"], &["lab-2"]] {
            assert_eq!(column(names), [Column::Simulation; 2], "{names:?}");
        }
    }
}
