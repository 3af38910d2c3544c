//! The levels of a factor as amounts along an axis: `1, 2, 4 … 64`, `4k, 64k, 1m`, `500us, 2ms, 1s`.
//!
//! A factor whose levels look like amounts and are none stays a list of names: versions of kernels, machines,
//! levels of arrays. A wrong guess would draw a line between things that have nothing in between.

use domain::order;
use domain::study::{Factor, Level};

/// With fewer levels a line shows nothing that two figures do not.
const FEWEST: usize = 3;

/// From this ratio between neighbours on, levels are taken for powers.
const RATIO_OF_POWERS: f64 = 1.4;

/// Powers that reach less far than this lie well on a linear axis too.
const REACH_OF_POWERS: f64 = 8.0;

/// How the levels lie on their axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios.
    Logarithmic,
    /// Powers and a zero among them: each level is as far from the next.
    Even,
}

impl Spacing {
    /// What a reader has to know to read distances rightly.
    pub(crate) const fn note(self) -> Option<&'static str> {
        match self {
            Self::Linear => None,
            Self::Logarithmic => Some("on a logarithmic axis"),
            Self::Even => Some("evenly spaced, not to scale"),
        }
    }
}

/// An axis of levels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis<'a> {
    /// Name and place from 0 to 1, the least first.
    pub levels: Vec<(&'a str, f64)>,
    /// How they lie.
    pub spacing: Spacing,
}

/// The axis of those levels of a factor that `is_there`; `None` where they are no amounts of one kind, or
/// fewer than three.
pub(crate) fn axis<'a>(factor: &'a Factor, is_there: impl Fn(&str) -> bool) -> Option<Axis<'a>> {
    let there = || factor.levels.iter().filter(|level| is_there(&level.name));
    let amounts = there().map(|level| Some((level.name.as_str(), amount(level)?)));
    let mut amounts = amounts.collect::<Option<Vec<(&str, Amount)>>>()?;
    let mut kinds = amounts.iter().map(|(_, amount)| amount.kind).filter(|kind| *kind != Kind::Plain);
    let first = kinds.next();
    if kinds.any(|kind| Some(kind) != first) {
        return None;
    }
    order::by(&mut amounts, |(_, a), (_, b)| a.value.total_cmp(&b.value));
    let values: Vec<f64> = amounts.iter().map(|(_, amount)| amount.value).collect();
    let are_apart = values.windows(2).all(|pair| pair[0] < pair[1]);
    if values.len() < FEWEST || !are_apart {
        return None;
    }
    let spacing = spacing(&values);
    let places = places(&values, spacing);
    Some(Axis { levels: amounts.iter().map(|(name, _)| *name).zip(places).collect(), spacing })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Bytes,
    Seconds,
}

struct Amount {
    kind: Kind,
    value: f64,
}

/// What a level's name says, if the level sets an amount at all.
fn amount(level: &Level) -> Option<Amount> {
    let is_a_name = level.kernel.is_some()
        || level.machine.is_some()
        || level.stack.keys().any(|key| key.ends_with(".level"));
    let end = level.name.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(level.name.len());
    let number: f64 = level.name[..end].parse().ok().filter(|_| !is_a_name)?;
    let (kind, scale) = match level.name[end..].trim().to_lowercase().as_str() {
        "" => (Kind::Plain, 1.0),
        "b" => (Kind::Bytes, 1.0),
        "k" | "kb" | "kib" => (Kind::Bytes, 1024.0),
        "m" | "mb" | "mib" => (Kind::Bytes, 1024.0_f64.powi(2)),
        "g" | "gb" | "gib" => (Kind::Bytes, 1024.0_f64.powi(3)),
        "t" | "tb" | "tib" => (Kind::Bytes, 1024.0_f64.powi(4)),
        "ns" => (Kind::Seconds, 1e-9),
        "us" | "µs" => (Kind::Seconds, 1e-6),
        "ms" => (Kind::Seconds, 1e-3),
        "s" => (Kind::Seconds, 1.0),
        "min" => (Kind::Seconds, 60.0),
        _ => return None,
    };
    Some(Amount { kind, value: number * scale }).filter(|amount| amount.value.is_finite())
}

/// Of values in ascending order.
fn spacing(values: &[f64]) -> Spacing {
    let are_powers = |values: &[f64]| {
        let reach = values.last().zip(values.first()).map_or(1.0, |(last, first)| last / first);
        reach >= REACH_OF_POWERS && values.windows(2).all(|pair| pair[1] / pair[0] >= RATIO_OF_POWERS)
    };
    match values {
        [first, rest @ ..] if *first == 0.0 && are_powers(rest) => Spacing::Even,
        [first, ..] if *first > 0.0 && are_powers(values) => Spacing::Logarithmic,
        _ => Spacing::Linear,
    }
}

fn places(values: &[f64], spacing: Spacing) -> Vec<f64> {
    let on_axis = |(index, value): (usize, &f64)| match spacing {
        Spacing::Linear => *value,
        Spacing::Logarithmic => value.ln(),
        Spacing::Even => index as f64,
    };
    let along: Vec<f64> = values.iter().enumerate().map(on_axis).collect();
    let (low, high) = (along[0], along[along.len() - 1]);
    along.iter().map(|place| (place - low) / (high - low)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn factor(levels: &[&str]) -> Factor {
        let level = |name: &&str| Level {
            name: (*name).to_owned(),
            options: BTreeMap::new(),
            settings: vec![],
            stack: BTreeMap::new(),
            beside: Default::default(),
            kernel: None,
            machine: None,
            pstates: None,
        };
        Factor { name: "f".into(), levels: levels.iter().map(level).collect(), workloads: vec![] }
    }

    fn shown(levels: &[&str]) -> Option<(Spacing, String)> {
        let factor = factor(levels);
        let axis = axis(&factor, |_| true)?;
        let places = axis.levels.iter().map(|(name, place)| format!("{name} {place:.2}"));
        Some((axis.spacing, places.collect::<Vec<_>>().join(", ")))
    }

    #[test]
    fn powers_lie_on_a_logarithmic_axis_and_steps_on_a_linear_one() {
        let of = |spacing, places: &str| Some((spacing, places.to_owned()));
        assert_eq!(
            shown(&["1", "2", "4", "16"]),
            of(Spacing::Logarithmic, "1 0.00, 2 0.25, 4 0.50, 16 1.00")
        );
        assert_eq!(shown(&["64k", "4k", "1M"]), of(Spacing::Logarithmic, "4k 0.00, 64k 0.50, 1M 1.00"));
        assert_eq!(shown(&["10", "20", "30"]), of(Spacing::Linear, "10 0.00, 20 0.50, 30 1.00"));
        assert_eq!(shown(&["0", "16", "4096"]), of(Spacing::Even, "0 0.00, 16 0.50, 4096 1.00"));
        assert_eq!(shown(&["500us", "1ms", "1s"]).map(|(spacing, _)| spacing), Some(Spacing::Logarithmic));
    }

    #[test]
    fn names_few_levels_and_mixed_kinds_are_no_axis() {
        for levels in
            [&["raid0", "raid5", "raid6"][..], &["1", "32"], &["4k", "1s", "2s"], &["1", "1.0", "2"], &[]]
        {
            assert_eq!(shown(levels), None, "{levels:?}");
        }
    }

    #[test]
    fn versions_of_kernels_and_levels_of_arrays_are_names() {
        let mut kernels = factor(&["5.10", "6.1", "6.12"]);
        kernels.levels[1].kernel = Some("6.1".into());
        assert_eq!(axis(&kernels, |_| true), None);
        let mut arrays = factor(&["0", "1", "5"]);
        arrays.levels[2].stack.insert("array.level".into(), "5".into());
        assert_eq!(axis(&arrays, |_| true), None);
    }

    #[test]
    fn a_level_that_no_cell_has_takes_no_place() {
        let factor = factor(&["1", "2", "4", "64"]);
        let axis = axis(&factor, |level| level != "64").unwrap();
        assert_eq!(axis.levels.last(), Some(&("4", 1.0)));
    }
}
