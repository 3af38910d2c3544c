//! A page of the book in every form: what was published, the lab and the simulation side by side. To accept a
//! change: `UPDATE_EXPECT=1 cargo test -p report`.
#![allow(clippy::unwrap_used)]

mod cases;

use analysis::page::{Found, PartRuns, hold};
use cases::simulated::simulated;
use domain::ids::RunId;
use domain::page::{Answer, Column, Look, Page, Part, Question, YesIf};
use domain::published::Selection;
use domain::study::Study;
use domain::trial::Provenance;
use expect_test::expect_file;
use report::{IndexEntry, PageOrigin, PageReport};
use std::collections::BTreeMap;

/// Everything that a page is made of.
struct Case {
    page: Page,
    study: Study,
    files: Vec<String>,
    parts: Vec<PartRuns>,
    found: Found,
    machines: BTreeMap<RunId, String>,
    made: PageOrigin,
}

fn governor(level: &str) -> Selection {
    Selection { workload: None, levels: [("governor".to_owned(), level.to_owned())].into() }
}

fn page() -> Page {
    let against = |claim: &str, level: &str, yes_if| Answer {
        claim: claim.into(),
        study: None,
        of: governor(level),
        look: Look::Against { over: governor("performance"), metric: None, yes_if },
    };
    let look =
        |claim: &str, look| Answer { claim: claim.into(), study: None, of: governor("ondemand"), look };
    let part = |not_run: &[(Provenance, &str)]| Part {
        study: None,
        about: "A model, in `MB/s`.".into(),
        only: BTreeMap::new(),
        not_run: not_run.iter().map(|(provenance, why)| (*provenance, (*why).to_owned())).collect(),
    };
    Page {
        title: "Reading <slowly>".into(),
        source: "https://example.org/slow|ly, 2011".into(),
        published: vec!["It was slow under `ondemand`.".into()],
        parts: vec![part(&[(Provenance::Lab, "no such CPU")])],
        questions: vec![
            Question {
                asked: "Is it the governor?".into(),
                answers: vec![
                    against("ondemand is slower", "ondemand", YesIf::Worse),
                    against("schedutil is as fast", "schedutil", YesIf::Same),
                    against("conservative is slower", "conservative", YesIf::Worse),
                    look("Whose CPU time", Look::Cpu),
                ],
                known: None,
                needs: BTreeMap::new(),
                note: None,
            },
            Question {
                asked: "Why?".into(),
                answers: vec![],
                known: None,
                needs: [(Provenance::Lab, "a *faster* CPU".to_owned())].into(),
                note: Some("Nobody *knows*.".into()),
            },
            Question {
                asked: "How fast is `small`, and how far apart are trials?".into(),
                answers: vec![
                    look("How fast", Look::Figure { metric: None }),
                    look("How far apart", Look::Spread { metric: Some("iops".into()) }),
                ],
                known: Some("The report says 7.6 MB/s.".into()),
                needs: BTreeMap::new(),
                note: None,
            },
        ],
        not_reproduced: vec!["The <machine>.".into()],
        needs: [(Provenance::Host, "such a CPU".to_owned())].into(),
    }
}

/// A simulated run, and the same as one of the lab, or of its model.
fn case(lab: Lab) -> Case {
    let data = simulated().data;
    let study = data.study.clone();
    let mut runs = BTreeMap::from([(Column::Simulation, data.clone())]);
    if lab == Lab::Run {
        let mut of_lab = data;
        of_lab.run.provenance = Provenance::Lab;
        of_lab.run.id = RunId("crypt-model-lab".into());
        of_lab.trials.truncate(8);
        of_lab.study.lab.vcpus = 9;
        runs.insert(Column::Lab, of_lab);
    }
    if lab == Lab::Modelled {
        let mut of_lab = simulated().data;
        of_lab.run.id = RunId("crypt-model-of-lab".into());
        runs.insert(Column::LabModel, of_lab);
    }
    let parts = vec![PartRuns { study: study.clone(), runs }];
    let page = page();
    let found = hold(&page, &study.name, &parts).unwrap();
    let machines = [(RunId("crypt-model-lab".into()), "lab: 1 virtual CPU".to_owned())].into();
    let made =
        PageOrigin { from: "the notebook `x`".into(), command: "flyball report --published x.toml".into() };
    Case { page, study, files: vec!["studies/x y.toml".into()], parts, found, machines, made }
}

#[derive(PartialEq, Eq)]
enum Lab {
    Run,
    Modelled,
    NotRun,
}

impl Case {
    fn report(&self) -> PageReport<'_> {
        PageReport {
            page: &self.page,
            study: &self.study,
            files: &self.files,
            parts: &self.parts,
            found: &self.found,
            machines: &self.machines,
            made: &self.made,
        }
    }
}

#[test]
fn a_page_in_every_form() {
    let case = case(Lab::Run);
    expect_file!["snapshots/page.txt"].assert_eq(&report::page_text(&case.report()));
    expect_file!["snapshots/page.md"].assert_eq(&report::page_markdown(&case.report()));
    expect_file!["snapshots/page.json"].assert_eq(&report::page_json(&case.report()));
    let index = report::index_markdown(&[IndexEntry { report: case.report(), file: "x.md" }]);
    expect_file!["snapshots/index.md"].assert_eq(&index);
}

#[test]
fn the_model_of_the_lab_has_a_column_where_it_was_run() {
    let case = case(Lab::Modelled);
    let text = report::page_markdown(&case.report());
    assert!(text.contains("| what | compared | published | lab | model of the lab | simulation |"), "{text}");
    assert!(text.contains("\nflyball run 'studies/x y.toml' --on sim --machine lab --seed"), "{text}");
    assert!(text.contains("Model of the lab: "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&report::page_json(&case.report())).unwrap();
    assert!(json["parts"][0]["rows"][0]["ours"]["lab_model"].is_object(), "{json}");
}

#[test]
fn a_kind_of_machine_without_a_run_has_no_figure_and_says_why() {
    let case = case(Lab::NotRun);
    let text = report::page_markdown(&case.report());
    assert!(text.contains("Lab: not run: no such CPU"), "{text}");
    let rows = text.lines().filter(|line| line.starts_with("| throughput of small"));
    assert!(rows.clone().count() > 4 && rows.clone().all(|row| row.contains("| not run |")), "{text}");
    assert!(!text.contains("flyball lab run"), "what is never run there is not told to be run:\n{text}");
    assert!(!text.contains("lab **not run**"), "{text}");
}

#[test]
fn no_text_of_a_page_is_markup() {
    let html = report::page_html(&case(Lab::Run).report());
    assert!(
        html.contains("Reading &lt;slowly&gt;") && !html.contains("<slowly>") && !html.contains("<machine>")
    );
    assert!(html.contains("<code>ondemand</code>") && html.contains("<em>knows</em>"));
    assert!(html.contains("href=\"https://example.org/slow|ly\""), "an address can be followed");
    assert!(html.contains("every figure here is a model") || html.contains("computed by a model"));
    assert!(!html.contains("<script src") && !html.contains("<link"));
}
