//! What others published of a study's cells: figures to hold one's own against.
//!
//! A row says which cells it is about, what was printed of them, and where. Which cells those are in a plan
//! is decided here, for the parser that checks a study and for the analysis that looks its trials up. Nothing
//! here judges.

use crate::ids::CellId;
use crate::plan::Cell;
use crate::units::Unit;
use std::collections::BTreeMap;

/// One published figure, or one published relation between two cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Where it stands: an address or a title.
    pub source: String,
    /// The cells that it is about.
    pub of: Selection,
    /// The cells that those are divided by, where a relation was published: the same ones, but for what this
    /// names.
    pub over: Option<Selection>,
    /// The metric.
    pub metric: String,
    /// What the metric is counted in.
    pub unit: Unit,
    /// What was printed: in the unit's base; a plain ratio where there is an `over`.
    pub figure: Figure,
    /// What the reader has to know besides.
    pub note: Option<String>,
}

/// Cells by what they have: all that are not excluded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The workload; `None`: each.
    pub workload: Option<String>,
    /// Factor name to level name; of a factor that is not here, each level.
    pub levels: BTreeMap<String, String>,
}

/// A published figure, and which figures agree with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A value was printed.
    Value {
        /// As printed; above 0.
        value: f64,
        /// The least that agrees with it.
        low: f64,
        /// The most that agrees with it.
        high: f64,
    },
    /// It was said to be at least this; above 0.
    AtLeast(f64),
    /// It was said to be at most this; above 0.
    AtMost(f64),
    /// It was said to lie between these.
    Between {
        /// The lower end; above 0.
        low: f64,
        /// The upper end, above the lower.
        high: f64,
    },
}

/// How far a value may be missed and agree, where its row does not say: a share of it.
pub const DEFAULT_WITHIN: f64 = 0.1;

impl Figure {
    /// A value that a share of it may be missed by.
    pub fn within(value: f64, share: f64) -> Self {
        Self::Value { value, low: value * (1.0 - share), high: value * (1.0 + share) }
    }

    /// From where to where a figure agrees with it.
    pub const fn accepted(&self) -> (f64, f64) {
        match *self {
            Self::Value { low, high, .. } | Self::Between { low, high } => (low, high),
            Self::AtLeast(low) => (low, f64::INFINITY),
            Self::AtMost(high) => (f64::NEG_INFINITY, high),
        }
    }

    /// What a figure is divided by to say how far it is from this one; `None` for two bounds.
    pub const fn reference(&self) -> Option<f64> {
        match *self {
            Self::Value { value, .. } | Self::AtLeast(value) | Self::AtMost(value) => Some(value),
            Self::Between { .. } => None,
        }
    }
}

impl Selection {
    /// Whether a cell has all that is named here.
    pub fn holds(&self, cell: &Cell) -> bool {
        let workload = self.workload.as_ref().is_none_or(|name| *name == cell.workload.name);
        workload && self.levels.iter().all(|(factor, level)| cell.levels.get(factor) == Some(level))
    }

    /// The cell with what is named here put in place of its own.
    fn instead_of<'c>(&self, cell: &Cell, cells: &'c [Cell]) -> Result<&'c Cell, SubjectError> {
        let workload = self.workload.as_ref().unwrap_or(&cell.workload.name);
        let level = |factor: &String| self.levels.get(factor).or_else(|| cell.levels.get(factor));
        for other in cells.iter().filter(|other| other.workload.name == *workload) {
            if let Some(factor) = other.levels.keys().find(|factor| level(factor).is_none()) {
                return Err(SubjectError::Ambiguous { cell: cell.id.clone(), factor: factor.clone() });
            }
            let named = self.levels.keys().all(|factor| other.levels.contains_key(factor));
            if named && other.levels.iter().all(|(factor, own)| level(factor) == Some(own)) {
                return Ok(other);
            }
        }
        Err(SubjectError::NoOther(cell.id.clone()))
    }
}

/// A cell that a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'c> {
    /// The cell.
    pub cell: &'c Cell,
    /// The one that it is divided by, where a relation was published.
    pub over: Option<&'c Cell>,
}

/// Why a row is about nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// No cell has what it names.
    #[error(
        "no cell has all that is named here; leave a level out, or name a workload that its factors apply to"
    )]
    NoCell,
    /// All that it names is the cell itself.
    #[error("`over` names nothing that differs from the cell `{0}` itself; name another level or workload")]
    Itself(CellId),
    /// `over` is about several cells.
    #[error(
        "`over` does not say which level of `{factor}` the cell `{cell}` is held against; add it to its `levels`"
    )]
    Ambiguous {
        /// The cell that would be divided.
        cell: CellId,
        /// Of which the level is missing.
        factor: String,
    },
    /// `over` is about no cell.
    #[error(
        "there is no cell that `{0}` would be held against; name the workload and the levels of one in `over`"
    )]
    NoOther(CellId),
}

impl Published {
    /// The cells of a plan that it is about, in their order; see [`subjects`].
    ///
    /// # Errors
    /// Where there is none, or `over` leaves open which cell is meant.
    pub fn subjects<'c>(&self, cells: &'c [Cell]) -> Result<Vec<Subject<'c>>, SubjectError> {
        subjects(&self.of, self.over.as_ref(), cells)
    }
}

/// The cells of a plan that are selected, in their order.
///
/// A relation is about each cell and the same one with what `over` names put in: one cell each, and never
/// itself.
///
/// # Errors
/// Where there is none, or `over` leaves open which cell is meant.
pub fn subjects<'c>(
    of: &Selection,
    over: Option<&Selection>,
    cells: &'c [Cell],
) -> Result<Vec<Subject<'c>>, SubjectError> {
    let mine: Vec<&Cell> = cells.iter().filter(|cell| of.holds(cell)).collect();
    let Some(first) = mine.first() else { return Err(SubjectError::NoCell) };
    let Some(over) = over else {
        return Ok(mine.into_iter().map(|cell| Subject { cell, over: None }).collect());
    };
    let mut found = Vec::new();
    for cell in &mine {
        let other = over.instead_of(cell, cells)?;
        if other.id != cell.id {
            found.push(Subject { cell, over: Some(other) });
        }
    }
    if found.is_empty() { Err(SubjectError::Itself(first.id.clone())) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Tool, Workload};

    /// A cell of a workload with these levels.
    fn cell(workload: &str, levels: &[(&str, &str)]) -> Cell {
        Cell {
            id: CellId::new(std::iter::once(workload).chain(levels.iter().map(|(_, level)| *level))),
            workload: Workload { name: workload.into(), tool: Tool::Fio, options: BTreeMap::new() },
            levels: levels.iter().map(|(f, l)| ((*f).to_owned(), (*l).to_owned())).collect(),
            settings: vec![],
            beside: Vec::new(),
            stack: None,
            kernel: None,
            machine: None,
            pstates: None,
        }
    }

    /// Two layouts of small requests, in two depths each, and of large ones.
    fn cells() -> Vec<Cell> {
        let mut all = Vec::new();
        for layout in ["disk", "raid5"] {
            for depth in ["1", "32"] {
                all.push(cell("small", &[("layout", layout), ("depth", depth)]));
            }
            all.push(cell("large", &[("layout", layout)]));
        }
        all
    }

    fn selection(workload: Option<&str>, levels: &[(&str, &str)]) -> Selection {
        let levels = levels.iter().map(|(f, l)| ((*f).to_owned(), (*l).to_owned())).collect();
        Selection { workload: workload.map(str::to_owned), levels }
    }

    fn subjects(of: Selection, over: Option<Selection>) -> Result<Vec<String>, SubjectError> {
        let row = Published {
            source: "a paper".into(),
            of,
            over,
            metric: "iops".into(),
            unit: Unit::PerSecond,
            figure: Figure::within(0.6, DEFAULT_WITHIN),
            note: None,
        };
        let cells = cells();
        let shown = |s: &Subject| match s.over {
            Some(over) => format!("{} / {}", s.cell.id, over.id),
            None => s.cell.id.to_string(),
        };
        row.subjects(&cells).map(|found| found.iter().map(shown).collect())
    }

    #[test]
    fn a_row_is_about_each_cell_that_it_does_not_exclude() {
        let got = subjects(selection(Some("small"), &[("layout", "raid5")]), None).unwrap();
        assert_eq!(got, ["small_raid5_1", "small_raid5_32"]);
        assert_eq!(subjects(Selection::default(), None).unwrap().len(), 6);
        let none = subjects(selection(Some("large"), &[("depth", "1")]), None);
        assert_eq!(none, Err(SubjectError::NoCell));
    }

    #[test]
    fn a_relation_is_of_each_cell_to_the_same_one_but_for_what_is_named() {
        let disk = || Some(selection(None, &[("layout", "disk")]));
        let got = subjects(selection(Some("small"), &[("layout", "raid5")]), disk()).unwrap();
        assert_eq!(got, ["small_raid5_1 / small_disk_1", "small_raid5_32 / small_disk_32"]);
        // A cell is not held against itself.
        assert_eq!(subjects(selection(Some("large"), &[]), disk()).unwrap(), ["large_raid5 / large_disk"]);
        let deep = selection(Some("small"), &[("depth", "32")]);
        let got = subjects(selection(Some("large"), &[("layout", "raid5")]), Some(deep)).unwrap();
        assert_eq!(got, ["large_raid5 / small_raid5_32"]);
        // A factor that the other workload does not have is no part of the other cell.
        let large = selection(Some("large"), &[]);
        let got =
            subjects(selection(Some("small"), &[("layout", "disk"), ("depth", "1")]), Some(large)).unwrap();
        assert_eq!(got, ["small_disk_1 / large_disk"]);
    }

    #[test]
    fn a_relation_that_leaves_its_other_side_open_is_an_error() {
        let disk = selection(Some("large"), &[("layout", "disk")]);
        let open = subjects(disk.clone(), Some(selection(Some("small"), &[])));
        let (cell, factor) = (CellId::from_stored("large_disk"), "depth".to_owned());
        assert_eq!(open, Err(SubjectError::Ambiguous { cell: cell.clone(), factor }));
        assert_eq!(subjects(disk.clone(), Some(disk.clone())), Err(SubjectError::Itself(cell.clone())));
        let none = subjects(disk, Some(selection(None, &[("depth", "1")])));
        assert_eq!(none, Err(SubjectError::NoOther(cell)));
    }

    #[test]
    fn a_figure_says_what_agrees_with_it() {
        let (low, high) = Figure::within(50.0, 0.1).accepted();
        assert!((low - 45.0).abs() < 1e-9 && (high - 55.0).abs() < 1e-9);
        assert_eq!(Figure::AtLeast(2.0).accepted(), (2.0, f64::INFINITY));
        assert_eq!(Figure::AtMost(2.0).accepted(), (f64::NEG_INFINITY, 2.0));
        assert_eq!(Figure::Between { low: 1.0, high: 1.5 }.reference(), None);
    }
}
