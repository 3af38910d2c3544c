//! A change of settings measured before and after: the study that decides whether it is worth keeping.
//!
//! Blocks of one trial before and one after, in random order, go on until it is clear whether the change
//! gains more than the threshold (`until = "decided"`), twenty at the most. Each side errs once in twenty: a
//! change that does nothing is called better less often than that, however often one looks.

use crate::draft::quoted;
use crate::recordings::short_command;
use crate::study_text::plain_text;
use domain::plan::Cell;
use domain::setting::SettingRequest;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The name of the study.
pub const STUDY: &str = "tune";

/// What it varies, and the levels: the machine as it is, and with the change.
const FACTOR: &str = "change";
const BEFORE: &str = "before";
const AFTER: &str = "after";

/// How long blocks go on, and what they are to tell.
const UNTIL: [(&str, &str); 4] =
    [("repeats", "[5, 20]"), ("until", "\"decided\""), ("confidence", "0.9"), ("threshold", "\"2%\"")];

/// How a command is measured besides: caches stay, and other work counts, for the machine is the one that the
/// change is for.
const AS_IT_IS: [(&str, &str); 4] =
    [("metric", "\"elapsed\""), ("drop_caches", "false"), ("settle", "\"0s\""), ("under_load", "true")];

/// The text of a study that measures a command with and without these settings.
pub fn study_of_command(settings: &[SettingRequest], argv: &[String]) -> String {
    let words: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
    let measure: String =
        AS_IT_IS.iter().chain(&UNTIL).map(|(key, value)| format!("{key} = {value}\n")).collect();
    format!(
        "{}\n[workload.command]\ntool = \"command\"\nargv = [{}]\n\n{}\n[measure]\n{measure}",
        head(&short_command(argv), settings),
        words.join(", "),
        factor(settings),
    )
}

/// The text of a study that measures one cell of another, whose text this is, with these settings and
/// without: on the same target, with the same options and settings, and by the same metric.
///
/// # Errors
/// Where the cell differs from what a study without factors can say; the text says in what.
pub fn study_of_cell(settings: &[SettingRequest], text: &str, cell: &Cell) -> Result<String, String> {
    let mut study: Table = text.parse().map_err(|error| format!("its study cannot be read: {error}"))?;
    if cell.kernel.is_some() || study.get("factor").is_some_and(changes_the_stack) {
        return Err("its study varies the stack or the kernel: vary the setting in a study of its own".into());
    }
    for key in ["flyball", "name", "question", "primary", "factor", "published", "page", "lab", "sim"] {
        study.remove(key);
    }
    let workload = of_cell(&mut study, cell).ok_or("its study has no such workload")?;
    study.insert("workload".into(), Table::from_iter([(cell.workload.name.clone(), workload)]).into());
    let kept = cell.settings.iter().filter(|one| settings.iter().all(|new| new.setting != one.setting));
    let kept = kept.map(|one| (one.setting.to_string(), Value::from(one.value.clone())));
    study.insert("settings".into(), Table::from_iter(kept).into());
    let mut measure =
        study.remove("measure").and_then(|value| value.try_into::<Table>().ok()).unwrap_or_default();
    measure.remove("precision");
    UNTIL.iter().for_each(|(key, _)| drop(measure.remove(*key)));
    let measure: String =
        measure.iter().map(|(key, value)| format!("{} = {}\n", quoted(key), inline(value))).collect();
    let until: String = UNTIL.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let tables: String =
        study.iter().map(|(key, value)| format!("{} = {}\n", quoted(key), inline(value))).collect();
    let head = head(cell.id.as_str(), settings);
    Ok(format!("{head}{tables}\n{}\n[measure]\n{measure}{until}", factor(settings)))
}

/// The cell's workload, with its levels' options, as the study's text has it.
fn of_cell(study: &mut Table, cell: &Cell) -> Option<Value> {
    let workloads = study.get_mut("workload")?.as_table_mut()?;
    let mut workload = workloads.remove(&cell.workload.name)?;
    let table = workload.as_table_mut()?;
    let options: &BTreeMap<String, String> = &cell.workload.options;
    if !options.is_empty() {
        let options = options.iter().map(|(key, value)| (key.clone(), Value::from(value.clone())));
        table.insert("options".into(), Table::from_iter(options).into());
    }
    if let Some((argv, _)) = cell.workload.tool.command() {
        table.insert("argv".into(), Value::Array(argv.iter().cloned().map(Value::from).collect()));
    }
    Some(workload)
}

fn changes_the_stack(factors: &Value) -> bool {
    let has = |table: &Value| table.get("stack").is_some();
    let any_level = |factor: &Value| {
        let levels = factor.get("level").and_then(Value::as_array);
        levels.is_some_and(|levels| levels.iter().any(has))
    };
    factors.as_table().is_some_and(|all| all.values().any(|factor| has(factor) || any_level(factor)))
}

/// A value on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(flag) => flag.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let pair = |(key, value): (&String, &Value)| format!("{} = {}", quoted(key), inline(value));
            format!("{{ {} }}", table.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

fn head(what: &str, settings: &[SettingRequest]) -> String {
    let changes: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let question = plain_text(&format!("Is `{what}` faster with {}?", changes.join(" and ")));
    format!(
        "flyball = 1\nname = {}\nquestion = {}\nprimary = {}\n",
        quoted(STUDY),
        quoted(&question),
        quoted(FACTOR)
    )
}

fn factor(settings: &[SettingRequest]) -> String {
    let pair = |request: &SettingRequest| {
        format!("{} = {}", quoted(&request.setting.to_string()), quoted(&request.value))
    };
    let pairs: Vec<String> = settings.iter().map(pair).collect();
    let level = format!("[[factor.{FACTOR}.level]]\nname = ");
    format!(
        "[factor.{FACTOR}]\n{level}{}\n{level}{}\nsettings = {{ {} }}\n",
        quoted(BEFORE),
        quoted(AFTER),
        pairs.join(", ")
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use domain::plan::Plan;
    use domain::rng::Seed;
    use domain::setting::SettingName;
    use domain::study::Until;

    fn requests() -> Vec<SettingRequest> {
        let request = |name: &str, value: &str| SettingRequest {
            setting: SettingName::parse(name),
            value: value.to_owned(),
        };
        vec![request("read_ahead_kb@sda", "4096"), request("vm.dirty_ratio", "5")]
    }

    #[test]
    fn the_study_has_the_command_before_and_after_all_changes() {
        let argv = ["sh", "-c", "echo \"a\" | cat > /dev/null"].map(str::to_owned);
        let study = parse::study::parse(&study_of_command(&requests(), &argv)).unwrap();
        assert_eq!(study.workloads[0].tool.command().unwrap().0, argv);
        assert_eq!(study.measure.until, Until::Decided);
        let [before, after] = &study.factors[0].levels[..] else { panic!("two levels") };
        assert_eq!((before.name.as_str(), after.name.as_str()), (BEFORE, AFTER));
        assert!(before.settings.is_empty());
        assert_eq!(after.settings, requests());
        assert!(
            study.question.contains("read_ahead_kb@sda = 4096 and vm.dirty_ratio = 5"),
            "{}",
            study.question
        );
    }

    /// Two factors, one of them of the setting that is to change.
    const VARIED: &str = "\
flyball = 1
name = \"mine\"
question = \"?\"
[target]
file = \"64MiB\"
[workload.read]
tool = \"fio\"
options = { rw = \"read\", time_based = true, runtime = \"1s\" }
[workload.write]
tool = \"fio\"
options = { rw = \"write\" }
[factor.depth]
option = \"iodepth\"
levels = [1, 8]
workloads = [\"read\"]
[factor.policy]
[[factor.policy.level]]
name = \"slow\"
settings = { \"vm.dirty_ratio\" = 50, \"vm.swappiness\" = 1 }
[[factor.policy.level]]
name = \"fast\"
settings = { \"vm.dirty_ratio\" = 10 }
[measure]
metric = \"iops\"
repeats = 3
timeout = \"1min\"
";

    #[test]
    fn a_cell_of_another_study_is_measured_as_it_was_but_for_the_change() {
        let was = parse::study::parse(VARIED).unwrap();
        let plan = Plan::new(was.clone(), Seed(1)).unwrap();
        let cell = plan.cells.iter().find(|cell| cell.id.as_str() == "read_8_slow").unwrap();
        let study = parse::study::parse(&study_of_cell(&requests(), VARIED, cell).unwrap()).unwrap();
        assert_eq!((study.workloads.len(), &study.target), (1, &was.target));
        assert_eq!(study.workloads[0].options, cell.workload.options);
        let settings: Vec<String> = study.settings.iter().map(ToString::to_string).collect();
        assert_eq!(settings, ["vm.swappiness = 1"]);
        assert_eq!(study.factors[0].levels[1].settings, requests());
        let measure = &study.measure;
        assert_eq!((measure.metric.as_str(), measure.timeout), ("iops", was.measure.timeout));
        assert_eq!((measure.until, measure.repeats_min, measure.repeats_max), (Until::Decided, 5, 20));
    }

    #[test]
    fn a_study_that_varies_the_stack_is_refused() {
        let stack = "flyball = 1\n[factor.level]\nstack = \"array.level\"\nlevels = [0, 1]\n";
        let plan = Plan::new(parse::study::parse(VARIED).unwrap(), Seed(1)).unwrap();
        let refused = study_of_cell(&requests(), stack, &plan.cells[0]).unwrap_err();
        assert!(refused.contains("varies the stack"), "{refused}");
    }
}
