//! What commands print of a run by themselves: one screen.
#![allow(clippy::unwrap_used)]

mod cases;

use analysis::summary::RunData;
use cases::long::hostile;
use cases::simulated::simulated;
use cases::virtual_machine::lab;
use cases::{Case, empty, lonely, measured, ordinary, sixty, summary, zeros};
use domain::inventory::Inventory;
use domain::outcome::{Better, Metric};
use domain::plan::Plan;
use domain::rng::Seed;
use domain::trial::{Disturbance, Validity};
use domain::units::Unit;
use expect_test::expect_file;
use machine::RecordedMachine;
use report::{Checked, checked_text, short_text, usual_sources};
use std::path::Path;

const CHECK: &str = include_str!("../../../studies/check.toml");

fn inventory(name: &str) -> Inventory {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines").join(name);
    machine::inventory::take(&RecordedMachine::open(folder).unwrap()).unwrap()
}

/// A run of `flyball check` on a device, with so many requests a second in each cell.
fn check(device: &str, rate: f64) -> Case {
    let study = parse::study::parse(CHECK).unwrap();
    let plan = Plan::new(study.clone(), Seed(1)).unwrap();
    let mut trials = measured(&plan, 5, 0.01, |_| rate * 4096.0);
    for trial in &mut trials {
        trial.environment.insert("device".into(), device.into());
        trial.environment.insert("filesystem".into(), "ext4".into());
        let metrics = &mut trial.measurement.as_mut().unwrap().outcome.metrics;
        let mut put = |name: &str, value: f64, unit: Unit, better: Better| {
            metrics.insert(name.to_owned(), Metric { value, unit, better });
        };
        put("elapsed", 0.5, Unit::Seconds, Better::Lower);
        put("iops", rate, Unit::PerSecond, Better::Higher);
        put("syncs", rate, Unit::PerSecond, Better::Higher);
        for name in ["latency", "sync_latency"] {
            for (percentile, seconds) in [("p50", 0.001), ("p99", 0.01), ("p999", 0.02)] {
                put(&format!("{name}_{percentile}"), seconds, Unit::Seconds, Better::Lower);
            }
        }
    }
    let summary =
        summary(&plan, &trials, "depth decides: 32 gives 3.62 times the throughput of 1 in randread");
    let data = RunData { run: cases::run(&study, CHECK), study, trials, skipped: Default::default() };
    Case { data, summary, ..lonely() }
}

fn screen(case: &Case, inventory: &Inventory, width: usize) -> String {
    screen_of(case, inventory, "flyball", width)
}

fn screen_of(case: &Case, inventory: &Inventory, program: &str, width: usize) -> String {
    let report = case.report();
    checked_text(&Checked { report: &report, inventory, page: "flyball-check/report.html", program }, width)
}

#[test]
fn a_check_is_one_screen() {
    let (case, machine) = (check("vda", 4000.0), inventory("vm-2cpu"));
    let text = screen(&case, &machine, 80);
    expect_file!["snapshots/check.txt"].assert_eq(&text);
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let typed = "flyball --notebook '/srv/results of the new server'";
    for width in [60, 80] {
        let text = screen_of(&case, &machine, typed, width);
        let commands = text.lines().skip_while(|line| !line.starts_with("Next")).skip(1);
        assert!(
            commands.clone().all(|line| line.starts_with("    ") && line.chars().count() <= width),
            "{text}"
        );
        let joined = commands.collect::<Vec<_>>().join("\n").replace(" \\\n      ", " ");
        assert!(joined.contains(&format!("    {typed} show --full check-20261120-140502-7f3a")), "{joined}");
    }
    let narrow = screen(&case, &machine, 70);
    assert!(narrow.lines().all(|line| line.chars().count() <= 70) && !narrow.contains("100 k"), "{narrow}");
    // A row stays a line: at 60 columns p99.9 goes as well.
    let narrowest = screen(&case, &machine, 60);
    let rows = |text: &str| text.lines().filter(|line| line.contains("10.0 ms")).count();
    assert_eq!(rows(&narrowest), rows(&text), "{narrowest}");
    assert!(narrowest.lines().all(|line| line.chars().count() <= 60), "{narrowest}");
    assert!(!narrowest.contains("p99.9") && !narrowest.contains("20.0 ms"), "{narrowest}");
}

#[test]
fn a_percentile_of_too_few_requests_is_left_out() {
    let text = screen(&check("vda", 300.0), &inventory("vm-2cpu"), 80);
    let row = text.lines().find(|line| line.contains("4k write + fsync")).unwrap();
    assert!(row.contains("10.0 ms") && row.contains('–') && !row.contains("20.0 ms"), "{row}");
}

#[test]
fn each_usual_figure_says_where_it_is_from() {
    let case = check("vda", 4000.0);
    let (report, inventory) = (case.report(), inventory("vm-2cpu"));
    let checked = Checked { report: &report, inventory: &inventory, page: "", program: "flyball" };
    let sources = usual_sources(&checked);
    assert!(sources.len() >= 6, "{sources:?}");
    assert!(sources.iter().all(|line| line.contains("Amazon") || line.contains("assumed")), "{sources:?}");
    // A device that is not there is of no class.
    let unknown = check("nvme7n1", 4000.0);
    let report = unknown.report();
    assert!(usual_sources(&Checked { report: &report, ..checked }).is_empty());
}

#[test]
fn the_ordinary_run_is_one_screen() {
    expect_file!["snapshots/ordinary-short.txt"].assert_eq(&short_text(&ordinary().report(), "flyball", 80));
}

/// The path of a notebook may be long: the cells come first.
#[test]
fn a_long_path_of_a_notebook_takes_no_cell_from_the_screen() {
    let folder = "/srv/measurements/2026-11-25-storage-of-the-new-database-servers/results-of-the-first-week";
    let cells = |text: &str| text.lines().filter(|line| line.contains("MB/s  ")).count();
    for case in [sixty(), ordinary(), simulated()] {
        let report = case.report();
        for width in [80, 100] {
            let usual = short_text(&report, "flyball", width);
            let text = short_text(&report, &format!("flyball --notebook {folder}"), width);
            assert!(text.lines().count() <= 24, "{text}");
            // The path has two lines.
            assert!(cells(&text) + 2 >= cells(&usual), "{usual}\n{text}");
            assert!(text.contains(folder), "{text}");
        }
    }
    let text = short_text(&sixty().report(), &format!("flyball --notebook {folder}"), 80);
    let joined = text.replace(" \\\n      ", " ");
    assert!(joined.contains(&format!("    export FLYBALL_NOTEBOOK={folder}\n    flyball ")), "{text}");
}

#[test]
fn no_run_is_wider_than_the_screen_or_breaks_a_word() {
    for (name, case) in [
        ("ordinary", ordinary()),
        ("sixty", sixty()),
        ("lonely", lonely()),
        ("empty", empty()),
        ("zeros", zeros()),
        ("lab", lab()),
        ("simulated", simulated()),
    ] {
        for width in [60, 80, 120] {
            let text = short_text(&case.report(), "flyball", width);
            let long =
                text.lines().find(|line| line.chars().count() > width && line.split_whitespace().count() > 2);
            assert_eq!(long, None, "{name}, {width}:\n{text}");
            let sections = ["Machine", "Run", "Figures", "Verdict", "Next"];
            assert!(sections.iter().all(|section| text.contains(&format!("\n{section}"))), "{name}\n{text}");
        }
        let lines = short_text(&case.report(), "flyball", 80).lines().count();
        assert!(lines <= 24, "{name}: {lines}");
    }
}

/// The lines of the screen that name a cell.
fn named_cells(case: &Case, text: &str) -> usize {
    let names: Vec<String> = case.summary.cells.iter().map(|cell| cell.cell.to_string()).collect();
    let is_of = |line: &str| names.iter().any(|name| line.split_whitespace().any(|word| word == name));
    text.lines().filter(|line| is_of(line)).count()
}

#[test]
fn a_narrow_screen_shows_as_many_cells_as_a_usual_one() {
    for case in [ordinary(), simulated(), lab(), sixty()] {
        let usual = short_text(&case.report(), "flyball", 80);
        let narrow = short_text(&case.report(), "flyball", 60);
        assert!(named_cells(&case, &usual) > 0, "{usual}");
        assert!(named_cells(&case, &narrow) >= named_cells(&case, &usual), "{narrow}\n{usual}");
        assert!(narrow.lines().count() <= 24, "{narrow}");
    }
}

#[test]
fn hostile_text_is_inert_on_the_screen() {
    let text = short_text(&hostile().report(), "flyball", 80);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
}

#[test]
fn a_cell_of_which_nothing_counts_shows_what_was_seen() {
    let mut case = ordinary();
    let cell = &mut case.summary.cells[0];
    cell.points.clear();
    cell.median = None;
    cell.interval = None;
    let trial = &case.data.trials[0];
    cell.excluded = vec![analysis::summary::Excluded {
        key: trial.key.clone(),
        value: Some(38e6),
        validity: Validity::Disturbed(vec![]),
    }];
    let text = short_text(&case.report(), "flyball", 80);
    assert!(text.contains("none counts; 1 disturbed: 38.0 MB/s"), "{text}");
}

#[test]
fn a_models_run_leads_on_and_the_page_names_the_command_of_the_screen() {
    let mut case = simulated();
    case.data.study.sim.machine = None;
    case.data.run.command = ["run", "a dir/crypt-model.toml", "--on", "sim"].map(str::to_owned).to_vec();
    let command = "flyball lab run 'a dir/crypt-model.toml'";
    let screen = short_text(&case.report(), "flyball", 80);
    assert!(
        screen.contains(&format!("Next         the same in the lab; all of it; a page\n    {command}\n")),
        "{screen}"
    );
    let page = page_of(&case);
    assert!(page.contains(&command.replace('\'', "&#39;")) || page.contains(command), "the page has another");

    // What only a simulation has leads on to the factor that the verdict does not tell of.
    let mut case = ordinary();
    case.findings.clear();
    case.data.run.provenance = domain::trial::Provenance::Simulation;
    case.data.study.sim.machine = Some("laptop-2007".into());
    let screen = short_text(&case.report(), "flyball", 80);
    let next = screen.lines().skip_while(|line| !line.starts_with("Next")).nth(1).unwrap().to_owned();
    assert!(next.contains("flyball compare ") && next.contains(" --factor "), "{screen}");
    assert!(page_of(&case).contains(next.trim()), "the page has another");
}

/// The page, without the marks around each word of a command, which no browser breaks.
fn page_of(case: &Case) -> String {
    report::html(&case.report()).replace("<span>", "").replace("</span>", "")
}

#[test]
fn a_run_that_its_machines_load_spoilt_names_the_run_beside_it() {
    let mut case = lonely();
    let shown = |case: &Case| short_text(&case.report(), "flyball", 80);
    case.data.run.command = ["run", "my study.toml", "--seed", "7"].map(str::to_owned).to_vec();
    let command = "flyball run 'my study.toml' --seed 7 --under-load --new";
    assert!(!shown(&case).contains("--under-load"));
    let load = Disturbance { kind: "other-load".into(), detail: String::new() };
    case.data.trials[0].validity = Validity::Disturbed(vec![load]);
    assert!(shown(&case).contains(command), "{}", shown(&case));
    for notebook in [&["--notebook", "n"][..], &["--notebook=n"]] {
        let words = notebook.iter().chain(&["run", "s.toml"]).map(|word| (*word).to_owned());
        case.data.run.command = words.collect();
        let screen = short_text(&case.report(), "flyball --notebook n", 80);
        assert!(screen.contains("    flyball --notebook n run s.toml --under-load --new\n"), "{screen}");
    }
    let stepped = Disturbance { kind: "clock-stepped".into(), detail: String::new() };
    case.data.trials[0].validity = Validity::Disturbed(vec![stepped]);
    assert!(!shown(&case).contains("--under-load"), "another disturbance than load remains");
}
