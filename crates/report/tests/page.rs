//! The page as a structure: what has to hold whatever the run is.
#![allow(clippy::unwrap_used)]

mod cases;

use cases::long::{HOSTILE, hostile, long_names};
use cases::simulated::{on_a_host, simulated};
use cases::virtual_machine::lab;
use cases::{Case, compared, empty, lonely, ordinary, sixty, zeros};
use std::collections::BTreeSet;

fn all() -> Vec<(&'static str, String)> {
    let page = |case: Case| report::html(&case.report());
    vec![
        ("ordinary", page(ordinary())),
        ("sixty", page(sixty())),
        ("lonely", page(lonely())),
        ("empty", page(empty())),
        ("zeros", page(zeros())),
        ("hostile", page(hostile())),
        ("long names", page(long_names())),
        ("lab", page(lab())),
        ("simulated", page(simulated())),
        ("comparison", report::comparison_html(&compared())),
    ]
}

/// The tags of a page, script and style without their content: `("div", "class=\"x\"")`, `("/div", "")`.
fn tags(page: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag is never closed");
        let (name, attributes) = rest[start + 1..end].split_once(' ').unwrap_or((&rest[start + 1..end], ""));
        found.push((name, attributes));
        rest = &rest[end + 1..];
        if ["script", "style"].contains(&name) {
            rest = &rest[rest.find(&format!("</{name}>")).expect("script and style end")..];
        }
    }
    found
}

fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let at = format!(" {attributes}").find(&format!(" {name}=\""))?;
    let value = &attributes[at + name.len() + 2..];
    value.split('"').next()
}

#[test]
fn every_tag_is_closed_in_its_place() {
    for (name, page) in all() {
        let mut open = Vec::new();
        for (tag, _) in tags(&page) {
            match tag.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop(), Some(closed), "{name}"),
                None if ["!DOCTYPE", "meta", "br"].contains(&tag) => {}
                None => open.push(tag),
            }
        }
        assert!(open.is_empty(), "{name}: {open:?}");
    }
}

#[test]
fn ids_are_unique_and_every_link_leads_somewhere() {
    for (name, page) in all() {
        let mut ids = BTreeSet::new();
        for (_, attributes) in tags(&page) {
            if let Some(id) = attribute(attributes, "id") {
                assert!(ids.insert(id.to_owned()), "{name}: two elements are #{id}");
            }
        }
        for (_, attributes) in tags(&page) {
            if let Some(target) = attribute(attributes, "href") {
                let id =
                    target.strip_prefix('#').unwrap_or_else(|| panic!("{name}: {target} leaves the page"));
                assert!(ids.contains(id), "{name}: nothing is {target}");
            }
        }
    }
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    for (name, page) in all() {
        for (tag, attributes) in tags(&page) {
            assert!(!["link", "img", "iframe", "object", "base", "image"].contains(&tag), "{name}: {tag}");
            assert_eq!(attribute(attributes, "src"), None, "{name}: {tag}");
        }
        for word in ["http:", "https:", "@import", "url("] {
            assert!(!page.contains(word), "{name}: {word}");
        }
    }
}

#[test]
fn a_hostile_name_stays_text() {
    let page = report::html(&hostile().report());
    assert!(!page.contains(HOSTILE));
    assert!(!page.contains("<script>alert"));
    assert_eq!(page.matches("</style>").count(), 1);
    assert_eq!(page.matches("</script>").count(), 1);
    assert!(page.contains("&lt;/style&gt;&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;"));
}

#[test]
fn every_trial_with_a_value_is_a_mark() {
    for case in [ordinary(), sixty(), lonely(), zeros()] {
        let page = report::html(&case.report());
        let rows = page.split("<svg class=\"strip\"").skip(1).map(|row| row.split("</svg>").next().unwrap());
        let (mut counted, mut crossed) = (0, 0);
        for row in rows {
            counted += row.matches("class=\"dot s").count();
            crossed += row.matches("class=\"dot out\"").count();
        }
        let cells = &case.summary.cells;
        assert_eq!(counted, cells.iter().map(|c| c.points.len()).sum::<usize>());
        let left_out = cells.iter().flat_map(|c| &c.excluded).filter(|e| e.value.is_some()).count();
        assert_eq!(crossed, left_out);
    }
}

#[test]
fn no_figure_is_a_nan_or_an_infinity() {
    for (name, page) in all() {
        let body = page.split("<body>").nth(1).unwrap().split("<script>").next().unwrap();
        for word in ["NaN", "inf", "-inf"] {
            let said = body.split(|c: char| !c.is_alphanumeric() && c != '-').any(|w| w == word);
            assert!(!said, "{name}: {word}");
        }
    }
}

/// Where texts begin, which all have to be there.
fn places<const N: usize>(page: &str, texts: [&str; N]) -> [usize; N] {
    texts.map(|text| page.find(text).unwrap_or_else(|| panic!("no {text}")))
}

#[test]
fn the_first_screen_is_question_answer_picture_and_next_command() {
    for (name, page) in all().into_iter().filter(|(name, _)| *name != "comparison") {
        let [question, answer, command, facts, contents] =
            places(&page, ["<h1>", "class=\"verdict\"", "id=\"next\"", "<dl class=\"facts\">", "<nav "]);
        assert!(question < answer && answer < command && command < facts && facts < contents, "{name}");
        let picture = page.find("id=\"picture\"");
        assert_eq!(picture.is_none(), name == "empty", "{name}");
        assert!(picture.is_none_or(|picture| answer < picture && picture < command), "{name}");
    }
    let next = next_of(&report::html(&ordinary().report()));
    assert!(next.contains("flyball run studies/readahead.toml --seed 20261120"), "{next}");
}

/// What a page says to type next, without the marks around each word of the command.
fn next_of(page: &str) -> String {
    let next = page.split("id=\"next\"").nth(1).and_then(|rest| rest.split("</div>").next()).unwrap();
    next.replace("<span>", "").replace("</span>", "")
}

#[test]
fn a_models_run_leads_on_to_a_seed_that_it_does_not_have() {
    let mut case = simulated();
    case.data.run.seed = domain::rng::Seed(41);
    let next = next_of(&report::html(&case.report()));
    assert!(next.contains("flyball run crypt-model.toml --on sim --seed 42"), "{next}");
    for (typed, command) in [
        (&["run", "x.toml", "--on", "sim"][..], "flyball run x.toml --on sim --seed 42"),
        (&["run", "x.toml", "--on", "sim", "--seed", "41"], "flyball run x.toml --on sim --seed 42"),
        (&["run", "x.toml", "--seed=41", "--on", "sim"], "flyball run x.toml --seed=42 --on sim"),
    ] {
        case.data.run.command = typed.iter().map(|word| (*word).to_owned()).collect();
        let page = report::html(&case.report());
        assert!(next_of(&page).contains(command), "{command}: {}", next_of(&page));
        // The same again has its own.
        assert!(page.contains(&command.replace("42", "41")), "{command}");
    }
}

#[test]
fn a_simulated_machine_that_was_typed_is_the_one_that_is_named() {
    let mut case = simulated();
    case.data.run.machine = "sim-server-nvme-7e0943f8".into();
    assert!(report::html(&case.report()).contains("simulation of laptop-2007"));
    case.data.run.command = ["run", "x.toml", "--machine", "server-nvme"].map(str::to_owned).to_vec();
    assert!(report::html(&case.report()).contains("simulation of server-nvme"));
    case.data.run.command.clear();
    case.data.study.sim.machine = None;
    assert!(report::html(&case.report()).contains("simulation of server-nvme"));
}

/// The plots of a page along a factor; those of cores in use apart.
fn curves(page: &str) -> (Vec<&str>, Vec<&str>) {
    let all = page.split("<div class=\"timed curve\">").skip(1);
    all.map(|rest| rest.split("</div>").next().unwrap()).partition(|plot| !plot.contains("cores in use of"))
}

#[test]
fn a_factor_that_is_an_amount_is_a_curve_with_bands_and_the_rows_are_folded() {
    let case = ordinary();
    let page = report::html(&case.report());
    // Of seqread in the first screen, of both workloads among the results.
    let (curves, cores) = curves(&page);
    assert_eq!((curves.len(), cores.len()), (3, 2), "cores in use below each of the results'");
    for (plot, lines) in curves.iter().zip([2, 2, 1]) {
        assert_eq!(plot.matches("class=\"stroke").count(), lines);
        assert_eq!(plot.matches("class=\"band").count(), lines);
        assert_eq!(plot.matches("<use ").count(), 3 * lines, "a mark a cell");
    }
    assert_eq!(curves[0].matches("class=\"told\"").count(), 2, "what the verdict holds against each other");
    assert_eq!(curves[1].matches("class=\"told\"").count(), 0);
    let folded: Vec<&str> = page.split("<details class=\"behind\">").skip(1).collect();
    assert_eq!(folded.len(), 2);
    assert!(
        folded.iter().all(|behind| behind.split("</details>").next().unwrap().contains("class=\"strip\""))
    );
}

#[test]
fn each_mark_says_its_figure_its_interval_and_n() {
    let case = ordinary();
    let page = report::html(&case.report());
    for plot in curves(&page).0 {
        for mark in plot.split("<use ").skip(1) {
            let title = mark.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
            assert!(
                ["median ", "% interval ", " of best", "; n = "].iter().all(|part| title.contains(part)),
                "{title}"
            );
        }
    }
}

#[test]
fn two_factors_that_are_names_are_a_heat_map_in_which_the_best_is_one() {
    let mut case = ordinary();
    for (factor, levels) in
        case.data.study.factors.iter_mut().zip([["small", "large", ""], ["low", "middle", "high"]])
    {
        factor.levels.iter_mut().zip(levels).for_each(|(level, name)| level.name = name.into());
        let renamed: Vec<(String, String)> = if factor.name == "block" {
            vec![("4k".into(), "small".into()), ("64k".into(), "large".into())]
        } else {
            vec![("16".into(), "low".into()), ("128".into(), "middle".into()), ("4096".into(), "high".into())]
        };
        for cell in &mut case.summary.cells {
            let level = cell.levels.get_mut(&factor.name);
            let new = level
                .and_then(|level| Some((renamed.iter().find(|(old, _)| old == level)?.1.clone(), level)));
            if let Some((new, level)) = new {
                *level = new;
            }
        }
    }
    let page = report::html(&case.report());
    let maps: Vec<&str> =
        page.split("<table class=\"heat\">").skip(1).map(|m| m.split("</table>").next().unwrap()).collect();
    assert_eq!(maps.len(), 1, "seqread has two factors, randread one");
    assert_eq!((maps[0].matches("<td ").count(), maps[0].matches(">1.00<br>").count()), (6, 1));
    assert!(maps[0].contains("class=\"n top\" style=\"--share:1.00\""), "{}", maps[0]);
    assert!(curves(&page).0.is_empty());
}

#[test]
fn over_time_opens_on_the_cell_that_the_verdict_is_about() {
    let mut case = ordinary();
    let view = case.traces[0].1.clone();
    case.traces = case.data.trials.iter().take(30).map(|t| (t.key.clone(), view.clone())).collect();
    let page = report::html(&case.report());
    let open = page.split("<details class=\"trace\" open>").nth(1).unwrap();
    let title = open.split("</summary>").next().unwrap();
    assert!(title.contains("seqread_4k_4096"), "{title}");
    assert_eq!(page.matches("<details class=\"trace\" open>").count(), 1);
}

#[test]
fn what_holds_for_all_plots_is_said_once() {
    let page = report::html(&ordinary().report());
    assert!(page.matches("<details class=\"trace\"").count() > 1);
    for note in ["in whole ticks", "bands are their intervals", "higher is better</p>"] {
        assert_eq!(page.matches(note).count(), if note.starts_with("bands") { 2 } else { 1 }, "{note}");
    }
    // The rows of one note stand before it together.
    let published = report::html(&simulated().report());
    let notes = published.split("Notes of the rows").nth(1).unwrap().split("</ul>").next().unwrap();
    let said: Vec<&str> = notes.split("<li>").skip(1).map(|n| n.split("</li>").next().unwrap()).collect();
    let told: BTreeSet<&str> = said.iter().filter_map(|n| n.split(": ").nth(1)).collect();
    assert_eq!(told.len(), said.len(), "{said:?}");
}

#[test]
fn the_study_file_is_an_appendix() {
    let page = report::html(&ordinary().report());
    let [reproduce, appendix, study] =
        places(&page, ["id=\"reproduce\"", "class=\"appendix\"", "[workload.seqread]"]);
    assert!(reproduce < appendix && appendix < study);
    assert_eq!(page.matches("[workload.seqread]").count(), 1);
}

#[test]
fn what_a_table_is_sorted_by_is_the_figure_and_not_its_words() {
    let case = ordinary();
    let page = report::html(&case.report());
    for table in ["cells", "trials"] {
        assert!(page.contains(&format!("<table class=\"{table} sortable\">")), "{table}");
    }
    for trial in &case.data.trials {
        let Some(value) = trial.metric("throughput") else { continue };
        assert!(page.contains(&format!("data-v=\"{value}\"")), "{value}");
    }
    // A trial that failed has no value, and is not taken for zero.
    assert!(!page.contains("data-v=\"\""));
    assert!(!page.contains("<td class=\"n\" data-v=\"0\">–"));
}

#[test]
fn a_plot_over_time_says_what_its_heights_and_widths_are() {
    let case = ordinary();
    let page = report::html(&case.report());
    let plots: Vec<&str> =
        page.split("<svg class=\"plot\" ").skip(1).map(|p| p.split('>').next().unwrap()).collect();
    assert!(plots.len() > 10);
    for plot in plots {
        let number =
            |name: &str| attribute(plot, name).unwrap_or_else(|| panic!("no {name}: {plot}")).parse::<f64>();
        assert!(number("data-end").unwrap() > 0.0, "{plot}");
        assert!((number("data-seconds").unwrap() - case.traces[0].1.span.secs()).abs() < 1e-9, "{plot}");
        assert!(attribute(plot, "data-unit").is_some());
    }
}

#[test]
fn paper_has_the_first_findings_and_counts_the_others() {
    let mut case = ordinary();
    let count = |page: &str| page.matches("on the page, not printed").count();
    assert_eq!(count(&report::html(&case.report())), 0);
    case.findings.extend(case.findings.clone());
    let page = report::html(&case.report());
    assert_eq!((count(&page), page.contains("2 more findings on the page, not printed")), (1, true));
    // The style hides what is counted.
    assert!(page.contains(".finding:nth-of-type(n + 3)"));
}

#[test]
fn traces_beyond_the_bound_are_counted_and_not_drawn() {
    let mut case = sixty();
    let view = case.traces[0].1.clone();
    case.traces = case.data.trials.iter().map(|t| (t.key.clone(), view.clone())).collect();
    let page = report::html(&case.report());
    assert_eq!(page.matches("<details class=\"trace\"").count(), report::MAX_TRACES);
    assert!(page.contains(&format!("{} more traces in the notebook", 360 - report::MAX_TRACES)));
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
}

#[test]
fn a_lab_says_what_it_is_and_shows_what_its_cpus_really_did() {
    let page = report::html(&lab().report());
    for said in [
        "<dt>On</dt><dd>lab</dd>",
        "lab: 1 virtual CPU seen in 4 P-states from 350 MHz to 2.80 GHz, Linux 6.1.0-44-amd64, time dilation 20",
        "ground truth",
        "virtual CPU 0",
        "the half-life of utilisation",
        "flyball lab run",
        "modelled, not measured",
        "fell behind their pace by 0.4%",
        "over 2.0 s, every 10 ms",
    ] {
        assert!(page.contains(said), "{said}");
    }
    // No array, no journal and no slow disk were there.
    for unsaid in ["md's delay", "commit interval", "timeout of a request"] {
        assert!(!page.contains(unsaid), "{unsaid}");
    }
    assert!(!report::html(&ordinary().report()).contains("ground truth"));
}

#[test]
fn a_simulated_run_is_said_to_be_one_and_a_measured_one_is_not() {
    let page = report::html(&simulated().report());
    for said in [
        "class=\"model\"",
        "every figure here is a model's",
        "<dt>On</dt><dd>simulation</dd>",
        "<dt>Computed</dt>",
        "simulation of laptop-2007",
        "flyball run crypt-model.toml --on sim --seed",
        "ours (simulation)",
        "What does not agree",
    ] {
        assert!(page.contains(said), "{said}");
    }
    assert!(!page.contains("2 × Intel Xeon"), "the host's own machine is not what was simulated");
    let host = report::html(&on_a_host().report());
    assert!(host.contains("ours (host)") && host.contains("<dt>Measured</dt>"));
    for unsaid in ["class=\"model\"", "is a model's", "--on sim"] {
        assert!(!host.contains(unsaid), "{unsaid}");
    }
    assert!(!report::html(&ordinary().report()).contains("Beside what was published"));
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    assert_eq!(report::html(&ordinary().report()), report::html(&ordinary().report()));
}

#[test]
fn a_run_without_trials_says_so_and_shows_no_zero() {
    let page = report::html(&empty().report());
    assert!(page.contains("No trial was measured."));
    assert!(page.contains("No verdict: no trial was measured that counts."));
    assert!(page.contains(", not finished"));
    assert!(!page.contains("0 B/s"));
}

/// Relative luminance and contrast as WCAG 2.1 defines them.
fn luminance(colour: &str) -> f64 {
    let channel = |i: usize| {
        let c = f64::from(u8::from_str_radix(&colour[i..i + 2], 16).unwrap()) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn text_and_marks_have_enough_contrast_in_light_and_dark() {
    let page = report::html(&lonely().report());
    let rules = page.split('}').filter_map(|rule| rule.split('{').next_back());
    let themes: Vec<&str> = rules.filter(|rule| rule.contains("--ground:#")).collect();
    assert_eq!(themes.len(), 3, "light, dark by the system, dark by choice");
    for theme in themes {
        let colour = |name: &str| {
            let value = theme.split(&format!("--{name}:")).nth(1).unwrap_or_else(|| panic!("no --{name}"));
            value.split(';').next().unwrap().to_owned()
        };
        for text in ["ink", "muted", "link"] {
            for ground in ["ground", "raised"] {
                let c = contrast(&colour(text), &colour(ground));
                assert!(c >= 4.5, "{text} on {ground}: {c:.2}");
            }
        }
        for series in 0..7 {
            let c = contrast(&colour(&format!("s{series}")), &colour("ground"));
            assert!(c >= 3.0, "s{series}: {c:.2}");
        }
    }
}

#[test]
fn a_page_has_what_a_unit_of_work_took_and_how_fast_cpus_ran() {
    let page = report::html(&lab().report());
    for text in ["What a unit of work took", "energy/GB", "<summary>Mean frequency</summary>", "of samples"] {
        assert!(page.contains(text), "{text}");
    }
    let without = report::html(&ordinary().report());
    assert!(!without.contains("What a unit of work took") && !without.contains("Mean frequency"));
}
