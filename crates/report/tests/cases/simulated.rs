//! A simulated run beside what was published: each answer once, in figures, bounds and relations.

use super::{Case, bare, factor, measured, study};
use domain::plan::Plan;
use domain::published::{Figure, Published, Selection};
use domain::rng::Seed;
use domain::trial::{Provenance, Validity};
use domain::units::Unit;

const PAPER: &str = "dm-crypt is slow under ondemand, a mailing list, 2011";
const BLOG: &str = "Reading at random, a blog, 2016 <script>";

/// A row about `small` under a governor, by its throughput.
fn row(source: &str, governor: &str, figure: Figure) -> Published {
    Published {
        source: source.into(),
        of: selection(Some("small"), governor),
        over: None,
        metric: "throughput".into(),
        unit: Unit::BytesPerSecond,
        figure,
        note: None,
    }
}

fn selection(workload: Option<&str>, governor: &str) -> Selection {
    let levels = [("governor".to_owned(), governor.to_owned())].into();
    Selection { workload: workload.map(str::to_owned), levels }
}

fn rows() -> Vec<Published> {
    let over = |governor: &str| Some(selection(None, governor));
    vec![
        row(PAPER, "performance", Figure::within(57.1e6, 0.1)),
        Published {
            note: Some("`up_threshold` was 80 there".into()),
            ..row(PAPER, "ondemand", Figure::within(7.6e6, 0.1))
        },
        row(PAPER, "schedutil", Figure::Value { value: 44e6, low: 40e6, high: 46.4e6 }),
        Published { over: over("performance"), ..row(PAPER, "ondemand", Figure::within(0.133, 0.2)) },
        Published { over: over("ondemand"), ..row(BLOG, "schedutil", Figure::AtLeast(1.2)) },
        Published {
            metric: "latency_p99".into(),
            unit: Unit::Seconds,
            ..row(BLOG, "performance", Figure::AtMost(300e-6))
        },
        row(BLOG, "conservative", Figure::Between { low: 10e6, high: 20e6 }),
    ]
}

/// One factor, four governors, of which one gave nothing.
pub fn simulated() -> Case {
    let governors = ["performance", "ondemand", "schedutil", "conservative"];
    let mut study = study(
        "crypt-model",
        "Does the model read an encrypted volume as slowly as was published?",
        &["small"],
        vec![factor("governor", &governors, &[])],
    );
    study.sim.machine = Some("laptop-2007".into());
    study.published = rows();
    let plan = Plan::new(study.clone(), Seed(3)).unwrap();
    let mut trials = measured(&plan, 8, 0.01, |cell| match cell.levels["governor"].as_str() {
        "performance" => 58e6,
        "ondemand" => 31e6,
        _ => 46e6,
    });
    for trial in &mut trials {
        trial.provenance = Provenance::Simulation;
        if trial.levels["governor"] == "conservative" {
            trial.validity = Validity::Failed("the model has no such governor".into());
            trial.measurement = None;
        }
    }
    let mut case = bare(study, &plan, trials, "performance is better than ondemand and schedutil.");
    case.data.run.provenance = Provenance::Simulation;
    case.summary.published = analysis::published::beside(&case.data);
    case
}

/// The same on a host, whose figures were measured.
pub fn on_a_host() -> Case {
    let mut case = simulated();
    case.data.run.provenance = Provenance::Host;
    case.data.trials.iter_mut().for_each(|trial| trial.provenance = Provenance::Host);
    case
}
