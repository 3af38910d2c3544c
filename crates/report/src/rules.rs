//! The rules that explain, as text: what each finds, what it rests on, and where it is written.

use analysis::explain::{RULES, Rule};
use domain::inert::Lines;

/// Every rule in a line, instead of one.
const ALL: &str = "all";

/// What the rule of this name is; all rules in short where it is `all`.
///
/// # Errors
/// Where there is no such rule; the text names those that are near.
pub fn rules(name: &str) -> Result<Lines, String> {
    let mut lines = Lines::default();
    if name == ALL {
        RULES.iter().for_each(|rule| lines.line(format_args!("{}: {}", rule.name, rule.doc)));
        return Ok(lines);
    }
    let rule = RULES.iter().find(|rule| rule.name == name).ok_or_else(|| unknown(name))?;
    let Rule { doc, needs, source, yields_to, .. } = rule;
    lines.line(doc);
    lines.blank();
    lines.line(format_args!("Rests on: {needs}."));
    lines.line(format_args!("Source: {source}."));
    if !yields_to.is_empty() {
        let better = yields_to.join(", ");
        lines.line(format_args!("Silent where one of these finds the same cause: {better}."));
    }
    lines.blank();
    lines.line("`flyball explain RUN` shows what the rules find in a run, and what was not measured.");
    Ok(lines)
}

fn unknown(name: &str) -> String {
    let shares = |rule: &&Rule| {
        let mut words = name.split('-').filter(|word| word.len() > 2);
        words.any(|word| rule.name.contains(word))
    };
    let near: Vec<&str> = RULES.iter().filter(shares).map(|rule| rule.name).collect();
    let meant = match near[..] {
        [] => String::new(),
        _ => format!("did you mean {}? ", near.join(", ")),
    };
    format!("there is no rule `{name}`; {meant}`flyball explain --rule all` lists them")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_told_by_its_name_with_what_it_rests_on_and_its_source() {
        let all = rules(ALL).unwrap();
        for rule in RULES {
            let told = rules(rule.name).unwrap();
            let told = told.as_str();
            assert!(told.contains(rule.doc) && told.contains(rule.needs) && told.contains(rule.source));
            assert!(all.as_str().contains(rule.name));
        }
    }

    #[test]
    fn a_name_that_is_none_leads_to_those_that_are_near() {
        let told = rules("idle-latency").unwrap_err();
        assert!(told.contains("idle-exit-latency") && told.contains("--rule all"), "{told}");
        assert!(!rules("zz").unwrap_err().contains("did you mean"));
    }
}
