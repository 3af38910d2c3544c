//! Text, Markdown, CSV and JSON, held against what they were when somebody last looked at them. To accept a
//! change: `UPDATE_EXPECT=1 cargo test -p report`.
#![allow(clippy::unwrap_used)]

mod cases;

use analysis::facts::residency::{IdleState, IdleStates, MeanFrequency, Over, PStates, Residency};
use cases::long::hostile;
use cases::simulated::{on_a_host, simulated};
use cases::virtual_machine::lab;
use cases::{compared, empty, lonely, ordinary, sixty, zeros};
use domain::trial::{Disturbance, Validity};
use domain::units::Hertz;
use expect_test::{expect, expect_file};

#[test]
fn the_ordinary_run_as_text() {
    expect_file!["snapshots/ordinary.txt"].assert_eq(&report::text(&ordinary().report()));
}

#[test]
fn the_ordinary_run_as_markdown() {
    expect_file!["snapshots/ordinary.md"].assert_eq(&report::markdown(&ordinary().report()));
}

#[test]
fn a_run_in_the_lab_in_every_form() {
    let case = lab();
    expect_file!["snapshots/lab.txt"].assert_eq(&report::text(&case.report()));
    expect_file!["snapshots/lab.md"].assert_eq(&report::markdown(&case.report()));
    expect_file!["snapshots/lab.json"].assert_eq(&report::json(&case.report()));
    expect_file!["snapshots/lab.csv"].assert_eq(&report::csv(&case.report()));
}

#[test]
fn a_simulated_run_beside_what_was_published_in_every_form() {
    let case = simulated();
    expect_file!["snapshots/simulated.txt"].assert_eq(&report::text(&case.report()));
    expect_file!["snapshots/simulated.md"].assert_eq(&report::markdown(&case.report()));
    expect_file!["snapshots/simulated.json"].assert_eq(&report::json(&case.report()));
}

#[test]
fn every_form_of_a_simulated_run_says_that_it_is_one() {
    let case = simulated();
    let note = "every figure here is a model's";
    let trial = report::trial_text(&case.data.trials[0], &Residency::default());
    for form in [
        report::text(&case.report()),
        report::findings_text(&case.report()),
        report::markdown(&case.report()),
        report::json(&case.report()),
        report::html(&case.report()),
        trial,
    ] {
        assert!(form.contains(note), "{form}");
    }
    // CSV says it in each row.
    let csv = report::csv(&case.report());
    assert!(csv.lines().skip(1).all(|line| line.contains(",simulation,")));
    assert!(report::simulation_note(&case.data.run).is_some_and(|note| note.contains("a model's")));
    let host = on_a_host();
    assert_eq!(report::simulation_note(&host.data.run), None);
    for form in [report::text(&host.report()), report::markdown(&host.report()), report::json(&host.report())]
    {
        assert!(!form.contains("model's"), "{form}");
    }
}

#[test]
fn a_trial_of_the_lab_as_text() {
    expect_file!["snapshots/lab_trial.txt"]
        .assert_eq(&report::trial_text(&lab().data.trials[0], &Residency::default()));
}

#[test]
fn a_run_of_zeros_and_failures_as_csv() {
    expect_file!["snapshots/zeros.csv"].assert_eq(&report::csv(&zeros().report()));
}

#[test]
fn a_run_of_zeros_and_failures_as_text() {
    expect_file!["snapshots/zeros.txt"].assert_eq(&report::text(&zeros().report()));
}

#[test]
fn one_trial_as_json() {
    expect_file!["snapshots/lonely.json"].assert_eq(&report::json(&lonely().report()));
}

#[test]
fn a_run_without_trials_as_text() {
    expect![[r#"
        Is anything here?
        No verdict: no trial was measured that counts.

        2 × Intel Xeon at 2.5 GHz, 24 GB, Linux 6.18.5, KVM guest, ext4 on vda
        none-20261120-140502-7f3a on host: 0 trials of 2 cells, seed 20261120

        seqread: throughput, higher is better
          block  n  median        interval  of best  spread
          4k     0       –  no valid trial        –       –
          64k    0       –  no valid trial        –       –

        There are too few trials to tell how much identical ones differ among themselves.

        Again
            flyball run none.toml --seed 20261120
    "#]]
    .assert_eq(&report::text(&empty().report()));
}

#[test]
fn a_comparison_as_text() {
    expect![[r#"
        readahead@1a2b3c against readahead@9f8e7d
        B is better in 1 of 4 cells and worse in 1; in the others no difference was found or none could be
        told.

                              against                 ratio          interval        p  verdict
          seqread, block 4k   9f8e7d against 1a2b3c  +12.4%  +10.3% to +14.5%  < 0.001  ▲ better
          seqread, block 64k  9f8e7d against 1a2b3c   −7.0%    −8.7% to −5.3%  < 0.001  ▼ worse
          randread            9f8e7d against 1a2b3c   +0.3%    −0.6% to +1.2%    0.410  = no difference
          seqwrite            9f8e7d against 1a2b3c   +7.0%    too few trials        –  ? undecided

        In words
           seqread, block 4k: 9f8e7d is 1.12 times as fast as 1a2b3c (8 against 8 trials)
           seqread, block 64k: 9f8e7d is 0.93 times as fast as 1a2b3c (8 against 8 trials)
           randread: 9f8e7d is 1.00 times as fast as 1a2b3c (8 against 8 trials)
           seqwrite: 9f8e7d is 1.07 times as fast as 1a2b3c (8 against 8 trials)

        To know besides
           The kernel differs: 6.12.3 against 6.18.5.
           `randwrite` exists in B only.
    "#]]
    .assert_eq(&report::comparison_text(&compared()));
}

#[test]
fn a_comparison_of_nothing_has_no_table() {
    let mut report = compared();
    report.comparisons.clear();
    report.notes.clear();
    assert_eq!(report::comparison_text(&report).lines().skip(3).collect::<String>(), "");
    assert!(!report::comparison_text(&report).contains("In words"));
}

#[test]
fn a_comparison_as_markdown() {
    expect![[r#"
        # readahead@1a2b3c against readahead@9f8e7d

        **B is better in 1 of 4 cells and worse in 1; in the others no difference was found or none could be told.**

        |  | against | ratio | interval | p | verdict |
        |---|---|---|---|---|---|
        | seqread, block 4k | 9f8e7d against 1a2b3c | +12.4% | +10.3% to +14.5% | &lt; 0.001 | ▲ better |
        | seqread, block 64k | 9f8e7d against 1a2b3c | −7.0% | −8.7% to −5.3% | &lt; 0.001 | ▼ worse |
        | randread | 9f8e7d against 1a2b3c | +0.3% | −0.6% to +1.2% | 0.410 | = no difference |
        | seqwrite | 9f8e7d against 1a2b3c | +7.0% | too few trials | – | ? undecided |

        ## In words

        - seqread, block 4k: 9f8e7d is 1.12 times as fast as 1a2b3c (8 against 8 trials)
        - seqread, block 64k: 9f8e7d is 0.93 times as fast as 1a2b3c (8 against 8 trials)
        - randread: 9f8e7d is 1.00 times as fast as 1a2b3c (8 against 8 trials)
        - seqwrite: 9f8e7d is 1.07 times as fast as 1a2b3c (8 against 8 trials)

        ## To know besides

        - The kernel differs: 6.12.3 against 6.18.5.
        - \`randwrite\` exists in B only.
    "#]].assert_eq(&report::comparison_markdown(&compared()));
}

/// A run of which all but the first eight trials are disturbed: every second one in two ways.
fn mostly_disturbed() -> cases::Case {
    let mut case = sixty();
    let disturbance = |kind: &str| Disturbance { kind: kind.into(), detail: "3 cores, more than 0.1".into() };
    case.data.trials.truncate(48);
    for (n, trial) in case.data.trials.iter_mut().enumerate() {
        trial.validity = match n {
            0..8 => Validity::Valid,
            47 => Validity::Failed("fio ended with status 1".into()),
            n if n % 2 == 0 => Validity::Disturbed(vec![disturbance("other-load"), disturbance("unsettled")]),
            _ => Validity::Disturbed(vec![disturbance("other-load")]),
        };
    }
    case
}

#[test]
fn of_forty_trials_that_are_not_counted_five_are_told_and_the_rest_is_counted() {
    let case = mostly_disturbed();
    let text = report::text(&case.report());
    let (_, section) =
        text.split_once("40 trials not counted: other-load 39, unsettled 20, failed 1\n").unwrap();
    let (section, _) = section.split_once("\n\n").unwrap();
    let lines: Vec<&str> = section.lines().collect();
    assert_eq!(lines.iter().filter(|line| line.contains(": disturbed, ")).count(), 5, "{section}");
    assert_eq!(lines[lines.len() - 2], "   35 more; the HTML page has all of them, and this shows one:");
    let shown = format!("    flyball show {} {}", case.data.run.id, case.data.trials[13].key.folder());
    assert_eq!(lines[lines.len() - 1], shown);
}

#[test]
fn markdown_and_page_tell_five_of_them_at_once_too() {
    let case = mostly_disturbed();
    let markdown = report::markdown(&case.report());
    assert_eq!(markdown.matches(": disturbed, ").count(), 5);
    assert!(markdown.contains("35 more; the HTML page has all of them"));
    let page = report::html(&case.report());
    assert!(page.contains("<summary>35 more not counted</summary>"));
}

#[test]
fn every_form_has_latency_energy_and_cpu_without_being_asked() {
    let case = lab();
    let report = case.report();
    let text = report::text(&report);
    assert!(text.contains("  cell            p99  energy\n  performance  221 µs  29.2 J\n"), "{text}");
    assert!(report::markdown(&report).contains("| performance | 221 µs | 29.2 J |"));
    assert!(report::html(&report).contains("Latency, energy and CPU beside it"));
    let json: serde_json::Value = serde_json::from_str(&report::json(&report)).unwrap();
    let beside = &json["cells"][0]["beside"];
    assert_eq!(beside["latency_p99"]["unit"], "seconds");
    assert!((beside["energy_modelled"]["median"].as_f64().unwrap() - 29.16).abs() < 1e-9);
}

#[test]
fn a_model_says_how_many_seeds_it_has_instead_of_intervals_without_width_and_p_values() {
    let mut case = simulated();
    for trial in case.data.trials.iter_mut().filter_map(|trial| trial.measurement.as_mut()) {
        let metric = trial.outcome.metrics.get_mut("throughput").unwrap();
        metric.value = (metric.value / 1e7).round() * 1e7;
    }
    let mut model = case.data.clone();
    model.study.published.clear();
    let summary = analysis::summarise::summarise(&model, None);
    case.data = model;
    case.summary = summary;
    let report = case.report();
    for form in [report::text(&report), report::markdown(&report), report::html(&report)] {
        assert!(form.contains("model, 8 seeds"), "{form}");
        assert!(
            !form.contains("60.0 to 60.0") && !form.contains("p = 0") && !form.contains("p < 0"),
            "{form}"
        );
    }
    assert!(report::text(&report).contains("All seeds of this model give the same."));
    let json: serde_json::Value = serde_json::from_str(&report::json(&report)).unwrap();
    assert!(json["cells"][0]["interval"].is_null());
    let compared = &json["effects"][0]["comparisons"][0];
    assert!(compared["p"].is_null() && compared["interval"].is_null(), "{compared}");
    assert_eq!(compared["verdict"], "worse");
}

#[test]
fn factors_that_the_question_is_not_about_are_curves_without_verdicts() {
    let mut case = ordinary();
    case.data.study.primary = vec!["readahead".into()];
    let report = case.report();
    let section = |form: &str| {
        let (_, rest) = form.split_once("Its context: a curve, and no verdict").unwrap();
        rest.split("What decides").next().unwrap().split("</section>").next().unwrap().to_owned()
    };
    for form in [report::text(&report), report::markdown(&report), report::html(&report)] {
        assert!(form.contains("▲ better") || form.contains("▼ worse"), "{form}");
        let context = section(&form);
        assert!(context.contains("block"), "{context}");
        assert!(!["▲", "▼", "verdict-cell\">?"].iter().any(|sign| context.contains(sign)), "{context}");
    }
    let json: serde_json::Value = serde_json::from_str(&report::json(&report)).unwrap();
    for effect in json["effects"].as_array().unwrap() {
        assert_eq!(effect["asked"], effect["factor"] == "readahead", "{effect}");
    }
}

#[test]
fn medians_under_load_are_marked_and_say_what_their_intervals_are_of() {
    let mut case = ordinary();
    let quiet = report::html(&case.report());
    assert!(!quiet.contains("n median loaded") && !report::text(&case.report()).contains("under load"));
    let load = Disturbance { kind: "other-load".into(), detail: "others used 0.5 CPUs".into() };
    let cell = case.summary.cells[0].cell.clone();
    let trial = case.data.trials.iter_mut().find(|t| t.key.cell == cell && t.validity.is_valid()).unwrap();
    trial.measurement.as_mut().unwrap().disturbances.push(load);
    let report = case.report();
    let text = report::text(&report);
    assert!(text.contains(" MB/s *"), "{text}");
    assert!(text.contains("* under load in 1 of 9 cells: other work ran beside trials"), "{text}");
    assert!(report::markdown(&report).contains("MB/s \\* |"));
    assert_eq!(report::html(&report).matches("n median loaded").count(), 1);
    let json: serde_json::Value = serde_json::from_str(&report::json(&report)).unwrap();
    assert_eq!(json["cells"][0]["under_load"], 1);
}

#[test]
fn the_first_screen_names_the_findings_before_the_details() {
    let text = report::text(&ordinary().report());
    let at = |part: &str| text.find(part).unwrap();
    assert!(at("1. The read-ahead of loop0") < at("What each factor changes"));
    assert!(at("What each factor changes") < at("Findings in full"));
    let first_screen = text.lines().take(32).collect::<Vec<_>>().join("\n");
    assert!(first_screen.contains("2. Steal time"), "{first_screen}");
}

#[test]
fn a_trial_tells_whose_cpu_time_it_took_without_those_who_took_next_to_none() {
    let case = ordinary();
    let text = report::trial_text(&case.data.trials[0], &Residency::default());
    let (_, section) = text.split_once("CPU time by role\n").unwrap();
    let (section, _) = section.split_once("\n\n").unwrap();
    assert!(section.contains("workload") && !section.contains("flyball"), "{section}");
}

#[test]
fn json_is_read_back_with_its_schema() {
    for text in [
        report::json(&sixty().report()),
        report::json(&hostile().report()),
        report::comparison_json(&compared()),
    ] {
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["schema"], report::SCHEMA);
    }
}

#[test]
fn csv_has_one_row_a_trial_and_survives_hostile_names() {
    for case in [ordinary(), sixty(), hostile(), empty()] {
        let text = report::csv(&case.report());
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let width = reader.headers().unwrap().len();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), case.data.trials.len());
        assert!(rows.iter().all(|r| r.len() == width));
    }
}

#[test]
fn what_was_not_measured_is_an_empty_field_and_not_a_zero() {
    let case = zeros();
    let text = report::csv(&case.report());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let column = reader.headers().unwrap().iter().position(|h| h == "metric.throughput (B/s)").unwrap();
    let validity = reader.headers().unwrap().iter().position(|h| h == "validity").unwrap();
    for row in reader.records().map(Result::unwrap) {
        let expected = if &row[validity] == "valid" { "0" } else { "" };
        assert_eq!(&row[column], expected);
    }
}

#[test]
fn no_control_character_reaches_a_terminal() {
    let text = report::text(&hostile().report());
    let bad: Vec<char> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn a_hostile_name_breaks_no_markdown_table() {
    let text = report::markdown(&hostile().report());
    let prose = text.split("```").step_by(2).collect::<String>();
    assert!(!prose.contains("<script>"));
    let mut columns = 0;
    for line in text.lines() {
        let bars = line.replace("\\|", "").matches('|').count();
        if line.starts_with('|') {
            columns = if columns == 0 { bars } else { columns };
            assert_eq!(bars, columns, "{line}");
        } else {
            columns = 0;
        }
    }
}

#[test]
fn every_form_is_the_same_for_the_same_run() {
    let (a, b) = (ordinary(), ordinary());
    assert_eq!(report::text(&a.report()), report::text(&b.report()));
    assert_eq!(report::markdown(&a.report()), report::markdown(&b.report()));
    assert_eq!(report::json(&a.report()), report::json(&b.report()));
    assert_eq!(report::csv(&a.report()), report::csv(&b.report()));
}

#[test]
fn a_text_is_as_wide_as_the_terminal_and_breaks_no_word() {
    let cases = [ordinary(), lab(), simulated(), sixty(), zeros()];
    for case in &cases {
        let report = case.report();
        let trial = &case.data.trials[0];
        let forms: [&dyn Fn(usize) -> String; 3] = [
            &|width| report::Wide(width).text(&report, "flyball"),
            &|width| report::Wide(width).findings_text(&report, "flyball"),
            &|width| report::Wide(width).trial_text(trial, &Residency::default()),
        ];
        for form in forms {
            let whole = form(400);
            for width in [60, 80] {
                let text = form(width);
                let words: std::collections::BTreeSet<&str> =
                    text.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
                let broken = whole.split_whitespace().map(|word| word.trim_end_matches(','));
                assert_eq!(broken.clone().find(|word| !words.contains(word)), None, "{width}: {text}");
                let is_long = |line: &&str| line.chars().count() > width && line.trim().contains(' ');
                assert_eq!(text.lines().find(is_long), None, "{width}: {text}");
            }
        }
    }
}

#[test]
fn a_trial_shows_how_fast_its_cpus_ran_and_in_which_states_they_were() {
    let at = Hertz::from_mhz;
    let state = |state, share, entries| IdleState { state, share, entries };
    let residency = Residency {
        frequencies: vec![
            MeanFrequency { object: "cpu0".into(), frequency: at(3412), over: Over::BusyTime },
            MeanFrequency { object: "policy0".into(), frequency: at(1200), over: Over::AllTime },
        ],
        pstates: vec![PStates {
            policy: "policy0".into(),
            shares: vec![(at(2801), 0.0), (at(2800), 0.25), (at(800), 0.75)],
        }],
        idle: vec![
            IdleStates { cpu: 0, states: vec![state(0, 0.001, Some(40)), state(2, 0.5, Some(2))] },
            IdleStates { cpu: 1, states: vec![state(2, 0.9, None)] },
        ],
    };
    let text = report::trial_text(&ordinary().data.trials[0], &residency);
    let from = text.find("Mean frequency").unwrap();
    let shown = &text[from..text[from..].find("Settings").map_or(text.len(), |end| from + end)];
    expect![[r#"
        Mean frequency, by the trace
          of       frequency  mean
          cpu0      3.41 GHz  while not idle
          policy0   1.20 GHz  idle time included

        Time in each P-state, by the trace
          policy   frequency  share
          policy0   2800 MHz    25%
          policy0    800 MHz    75%

        Time in each idle state, by the trace
          CPU  state0  state2  entries
            0    0.1%     50%       42
            1       –     90%        –

    "#]]
    .assert_eq(shown);
}
