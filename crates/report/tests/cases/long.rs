//! Names that are long, and names that mean harm.

use super::*;

/// What a name may hold at worst: markup, quotes, an escape sequence, a line break, a cell separator.
pub const HOSTILE: &str = "</style></script><script>alert(1)</script>\"'&\u{1b}[31m\n|`x`";

/// The ordinary run with a hostile text in every place that takes one.
pub fn hostile() -> Case {
    let study = study(HOSTILE, HOSTILE, &[HOSTILE], vec![factor(HOSTILE, &[HOSTILE, "b"], &[])]);
    let plan = Plan::new(study.clone(), Seed(1)).unwrap();
    let mut trials = measured(&plan, 6, 0.01, |_| 1e8);
    trials[0].validity = Validity::Failed(HOSTILE.into());
    trials[1].validity =
        Validity::Disturbed(vec![Disturbance { kind: HOSTILE.into(), detail: HOSTILE.into() }]);
    for t in &mut trials {
        t.environment.insert(HOSTILE.into(), HOSTILE.into());
        let m = t.measurement.as_mut().unwrap();
        m.outcome.tool = HOSTILE.into();
        m.outcome.warnings = vec![HOSTILE.into()];
        m.commands = vec![vec![HOSTILE.into()]];
    }
    let mut summary = summary(&plan, &trials, HOSTILE);
    summary.metric = "throughput".into();
    summary.effects =
        vec![effect(HOSTILE, HOSTILE, vec![comparison(HOSTILE, HOSTILE, 1.2, 0.1, Verdict::Better)])];
    summary.effects[0].comparisons[0].sentence = HOSTILE.into();
    summary.attribution = vec![Attribution { workload: HOSTILE.into(), source: HOSTILE.into(), share: 1.0 }];
    let mut findings = findings();
    for f in &mut findings {
        f.title = HOSTILE.into();
        f.reason = HOSTILE.into();
        f.next = HOSTILE.into();
        f.evidence[0].figure = HOSTILE.into();
    }
    let not_measured = vec![NotMeasured { what: HOSTILE.into(), why: HOSTILE.into() }];
    let mut traces = vec![(trials[2].key.clone(), view(1))];
    traces[0].1.busy.lines[0].name = HOSTILE.into();
    let data = RunData { run: run(&study, HOSTILE), study, trials, skipped: BTreeMap::new() };
    Case { data, summary, findings, not_measured, inventory: Some(HOSTILE.into()), traces }
}

/// Long names without a place to break.
pub fn long_names() -> Case {
    let long = "a_very_long_level_name_that_somebody_generated_from_all_of_its_options_and_then_some_more";
    let study = study(
        "long",
        "How long may a name be before the page breaks, and does a question that goes on and on still read well?",
        &["mixed_random_read_write_70_30_with_fsync_every_64_writes"],
        vec![
            factor("a_factor_with_a_long_name_of_its_own", &[long, "short"], &[]),
            factor("mode", &["data=journal", "data=ordered"], &[]),
        ],
    );
    let plan = Plan::new(study.clone(), Seed(1)).unwrap();
    let trials = measured(&plan, 7, 0.05, |c| if c.levels["mode"] == "data=journal" { 3.1e7 } else { 5.2e7 });
    let mut case = bare(study, &plan, trials, "data=ordered is 1.68 times as fast as data=journal.");
    case.findings = findings();
    case.findings[0].title = format!("The journal of {long} is written twice");
    case
}
