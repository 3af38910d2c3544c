//! Settings of a machine as they are listed: which a pattern means, and which objects hold one value.

use super::catalogue::most_alike;
use super::{HeldValue, SYSCTL_ROOTS, Surveyed, check_name, is_meant};
use domain::setting::SettingName;
use serde_json::{Value, json};

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// The settings that a pattern means, with the objects that it names.
pub fn chosen(all: Vec<Surveyed>, meant: &SettingName) -> Vec<Surveyed> {
    let with_object = |mut setting: Surveyed| {
        if let Some(object) = &meant.object {
            setting.held.retain(|held| held.object.as_ref() == Some(object));
        }
        (meant.object.is_none() || !setting.held.is_empty()).then_some(setting)
    };
    all.into_iter().filter(|setting| is_meant(setting, &meant.name)).filter_map(with_object).collect()
}

/// Why a pattern means none of this machine's settings, and what to do next.
pub fn none_of(meant: &SettingName, all: &[Surveyed]) -> String {
    let why = |why: String| format!("no setting matches `{meant}`: {why}");
    let bare = SettingName { name: meant.name.clone(), object: None };
    if let (Err(error), false) = (check_name(&bare), meant.name.is_empty()) {
        return why(error.to_string());
    }
    if let Some(object) = &meant.object {
        let name = &meant.name;
        return why(format!(
            "there is no object `{object}` of such a setting here; `flyball settings {name}` lists those that have it"
        ));
    }
    why(format!("this machine has none that is named so; {}", instead(&meant.name, all)))
}

/// What may have been meant by a name that no setting has.
fn instead(name: &str, all: &[Surveyed]) -> String {
    let sysctl = name.strip_prefix("/proc/sys/").map(|path| path.trim_end_matches('/').replace('/', "."));
    if name.starts_with('/') && sysctl.is_none() && !name.starts_with("/sys/") {
        return "a setting's path begins with /sys/ or /proc/sys/; `flyball settings` lists the names"
            .to_owned();
    }
    let dotted = sysctl.as_deref().unwrap_or(name);
    let is_part = |setting: &&Surveyed| sysctl.is_some() && setting.name.starts_with(dotted);
    if all.iter().find(is_part).is_some() {
        return format!("`flyball settings {dotted}` lists those of that name");
    }
    most_alike(dotted, all.iter().map(|setting| setting.name.as_str())).map_or_else(
        || "`flyball settings` lists the names".to_owned(),
        |near| format!("did you mean `{near}`?"),
    )
}

/// Whether it is a sysctl, which has no name of Flyball's.
pub fn is_sysctl(setting: &Surveyed) -> bool {
    SYSCTL_ROOTS.iter().any(|root| setting.name.starts_with(root))
}

/// The objects that have one value together, in the order of their first; names that count on are a range.
fn by_value(
    held: &[HeldValue],
    value: impl Fn(&HeldValue) -> Option<String>,
) -> Vec<(Option<String>, Vec<String>)> {
    let mut groups: Vec<(Option<String>, Vec<String>)> = Vec::new();
    for one in held {
        let value = value(one);
        let object = one.object.clone();
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, objects)) => objects.extend(object),
            None => groups.push((value, object.into_iter().collect())),
        }
    }
    groups.into_iter().map(|(value, objects)| (value, ranges(&objects))).collect()
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How far it is indented, in columns.
    pub indent: usize,
    /// What it says; names in it are as the machine has them.
    pub text: String,
}

/// How far what is said of a setting is indented.
const INDENT: usize = 2;

impl Line {
    fn of(setting: &Surveyed) -> Self {
        Self { indent: 0, text: format!("{}: {}", setting.name, setting.about) }
    }

    fn below(text: String) -> Self {
        Self { indent: INDENT, text }
    }
}

/// The list: settings of this machine first, each with what it holds and takes, and why it cannot be written
/// unless the machine is a recorded one. Absent ones stand each by itself where `is_asked` for, else in one
/// line.
pub fn listed(settings: &[Surveyed], is_asked: bool, is_recorded: bool) -> Vec<Line> {
    let (here, absent): (Vec<&Surveyed>, Vec<&Surveyed>) =
        settings.iter().partition(|setting| setting.absent.is_none());
    let mut lines = Vec::new();
    for setting in here {
        lines.extend(held(setting));
        lines.extend(if is_recorded { Vec::new() } else { not_writable(setting) });
    }
    lines.extend(if is_asked { absent_each(&absent) } else { absent_together(&absent) });
    lines
}

/// One setting: its name and meaning, and below them what it holds and takes.
fn held(setting: &Surveyed) -> Vec<Line> {
    let mut lines = vec![Line::of(setting)];
    for (value, objects) in by_value(&setting.held, |held| held.value.clone()) {
        let value = value.map_or_else(|| "cannot be read".to_owned(), |value| format!("= {value}"));
        lines.push(Line::below(if objects.is_empty() {
            value
        } else {
            format!("{} {value}", objects.join(", "))
        }));
    }
    lines.extend(setting.takes.iter().map(|takes| Line::below(format!("takes {takes}"))));
    lines
}

/// Why a setting cannot be written here.
fn not_writable(setting: &Surveyed) -> Vec<Line> {
    let is_all = setting.held.iter().all(|held| held.not_writable.is_some());
    let reasons = by_value(&setting.held, |held| held.not_writable.clone());
    let line = |(why, objects): (Option<String>, Vec<String>)| {
        let of =
            if is_all || objects.is_empty() { String::new() } else { format!("{}: ", objects.join(", ")) };
        Some(Line::below(format!("{of}cannot be written here: {}", why?)))
    };
    reasons.into_iter().filter_map(line).collect()
}

fn absent_each(absent: &[&Surveyed]) -> Vec<Line> {
    let why = |setting: &Surveyed| setting.absent.clone().unwrap_or_default();
    let lines = |setting: &&Surveyed| {
        [Line::of(setting), Line::below(format!("not on this machine: {}", why(setting)))]
    };
    absent.iter().flat_map(lines).collect()
}

fn absent_together(absent: &[&Surveyed]) -> Vec<Line> {
    if absent.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = absent.iter().map(|setting| setting.name.as_str()).collect();
    let all = Line { indent: 0, text: format!("not on this machine: {}", names.join(", ")) };
    vec![all, Line::below("`flyball settings NAME` says what each is and why".to_owned())]
}

/// Names that count on.
struct Counted<'o> {
    first: &'o str,
    last: &'o str,
    /// What the name after the last would be: a stem and a number.
    next: Option<(&'o str, u32)>,
}

/// Names that count on are written by their first and last: `cpu0-cpu7`.
fn ranges(objects: &[String]) -> Vec<String> {
    let mut all: Vec<Counted> = Vec::new();
    for object in objects {
        let stem = object.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = object[stem.len()..].parse::<u32>().ok();
        let next = number.and_then(|number| Some((stem, number.checked_add(1)?)));
        match all.last_mut().filter(|counted| number.is_some_and(|n| counted.next == Some((stem, n)))) {
            Some(counted) => (counted.last, counted.next) = (object, next),
            None => all.push(Counted { first: object, last: object, next }),
        }
    }
    let shown = |Counted { first, last, .. }: &Counted| {
        if first == last { (*first).to_owned() } else { format!("{first}-{last}") }
    };
    all.iter().map(shown).collect()
}

/// As JSON, with a schema version.
pub fn as_json(settings: &[Surveyed]) -> Value {
    let held = |held: &HeldValue| {
        json!({
            "object": held.object, "path": held.path, "value": held.value,
            "writable": held.not_writable.is_none(), "why_not": held.not_writable,
        })
    };
    let setting = |setting: &Surveyed| {
        json!({
            "name": setting.name, "about": setting.about, "takes": setting.takes, "absent": setting.absent,
            "values": setting.held.iter().map(held).collect::<Vec<_>>(),
        })
    };
    json!({ "schema": SCHEMA, "settings": settings.iter().map(setting).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_count_on_are_a_range() {
        let shown =
            |names: &[&str]| ranges(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).join(" ");
        assert_eq!(shown(&["cpu0", "cpu1", "cpu2", "cpu4"]), "cpu0-cpu2 cpu4");
        assert_eq!(shown(&["sda", "sdb", "loop0", "vda1"]), "sda sdb loop0 vda1");
        assert_eq!(shown(&["policy0", "cpu1", "policy4294967295"]), "policy0 cpu1 policy4294967295");
    }
}
