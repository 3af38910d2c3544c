//! The book: pages that put lab and simulation beside published reports. What is committed is what the
//! command writes; a page is made of runs from a notebook, also where there are none yet.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it saw"
)]

use crate::support;
use crate::support::Place;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The pages of `make book`.
const PAGES: [&str; 5] = [
    "studies/raid10-governors.toml",
    "studies/dmcrypt-ondemand.toml",
    "studies/raid5-journal.toml",
    "studies/oltp-governors.toml",
    "studies/raid-levels.toml",
];

/// The most that kept runs may weigh: they are in the repository. Five are of the lab's model.
const MAX_KEPT: u64 = 5 << 18;

#[test]
fn the_committed_book_is_what_the_command_writes() {
    let place = Place::new();
    let arguments =
        [&["report", "--published"][..], &PAGES, &["--pages", "docs/studies", "--check"]].concat();
    let output = place.flyball(&arguments).current_dir(ROOT).output().unwrap();
    assert!(output.status.success(), "{}", support::stderr(&output));
    let gallery = gallery();
    let studies: Vec<&str> = gallery.iter().map(String::as_str).collect();
    let arguments =
        [&["report", "--published"][..], &studies, &["--pages", "docs/gallery", "--check"]].concat();
    let output = place.flyball(&arguments).current_dir(ROOT).output().unwrap();
    assert!(output.status.success(), "{}", support::stderr(&output));
    let makefile = std::fs::read_to_string(format!("{ROOT}/Makefile")).unwrap();
    let names: Vec<&str> =
        PAGES.iter().map(|page| &page["studies/".len()..page.len() - ".toml".len()]).collect();
    assert!(makefile.contains(&format!("BOOK := {}\n", names.join(" "))), "the Makefile has other pages");
    let kept = std::fs::read_dir(format!("{ROOT}/docs/studies/runs")).unwrap();
    let size: u64 = kept.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    eprintln!("the kept runs have {size} bytes");
    assert!(size < MAX_KEPT, "{size}");
}

/// A question of the book's index that leads to a page.
struct Row<'i> {
    /// The heading that it leads to, as links name it.
    anchor: &'i str,
    /// How it stands on a host, in the lab and in the simulation.
    stands: Vec<&'i str>,
}

/// The questions of the book's index that lead to a page.
fn rows<'i>(index: &'i str, page: &str) -> Vec<Row<'i>> {
    let link = format!("]({page}.md#");
    let row = |line: &'i str| {
        let (_, after) = line.strip_prefix("| [")?.split_once(&link)?;
        let (anchor, cells) = after.split_once(") |")?;
        Some(Row { anchor, stands: cells.trim_matches(['|', ' ']).split(" | ").collect() })
    };
    index.lines().filter_map(row).collect()
}

/// The names by which links lead to a page's headings of questions: letters, digits, hyphens and underscores
/// in lower case, with a hyphen for each space.
fn anchors(page: &str) -> Vec<String> {
    let anchor = |heading: &str| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    };
    page.lines().filter_map(|line| line.strip_prefix("### ")).map(anchor).collect()
}

#[test]
fn no_question_of_the_book_stands_without_an_answer_or_what_an_answer_needs() {
    let index = std::fs::read_to_string(format!("{ROOT}/docs/studies/README.md")).unwrap();
    for study in PAGES {
        let text = std::fs::read_to_string(format!("{ROOT}/{study}")).unwrap();
        let asked = text.lines().filter(|line| line.starts_with("asked = ")).count();
        let page = Path::new(study).file_stem().unwrap().to_str().unwrap();
        let rows = rows(&index, page);
        assert_eq!(rows.len(), asked, "{study}");
        let text = std::fs::read_to_string(format!("{ROOT}/docs/studies/{page}.md")).unwrap();
        let anchors = anchors(&text);
        for Row { anchor, stands: row } in rows {
            let leads_to = anchors.iter().filter(|heading| *heading == anchor).count();
            assert_eq!(leads_to, 1, "{study}: headings of the page named `{anchor}`");
            assert_eq!(row.len(), 3, "{study}: {row:?}");
            let stands = |cell: &&str| {
                ["answered", "not answered: needs ", "not run: "].iter().any(|start| cell.starts_with(start))
            };
            assert!(row.iter().all(stands), "{study}: {row:?}");
        }
    }
}

/// The studies of the gallery, from the root, in the order of their names.
fn gallery() -> Vec<String> {
    let files = std::fs::read_dir(format!("{ROOT}/studies/gallery")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut studies: Vec<String> =
        names.filter(|name| name.ends_with(".toml")).map(|name| format!("studies/gallery/{name}")).collect();
    studies.sort();
    assert!(studies.len() >= 20, "{studies:?}");
    studies
}

/// The study of dm-crypt on a model, as a page of its own.
fn study(place: &Place) -> String {
    let text = std::fs::read_to_string(format!("{ROOT}/studies/published/dmcrypt.toml")).unwrap();
    place.study("dmcrypt", &format!("{text}{PAGE}"))
}

const PAGE: &str = r#"
[page]
title = "dm-crypt"
source = "lxadm.com"
published = ["It was slow."]
[[page.part]]
about = "A model."
[[page.question]]
asked = "Is a low frequency slow?"
[[page.question.answer]]
claim = "powersave is slower"
levels = { governor = "powersave" }
over = { levels = { governor = "performance" } }
yes_if = "worse"
"#;

#[test]
fn a_page_is_made_of_the_newest_runs_and_of_none() {
    let place = Place::new();
    let study = study(&place);
    place.ok(&["run", &study, "--on", "sim", "--seed", "1"]);
    place.ok(&["run", &study, "--on", "sim", "--seed", "2", "--new"]);
    let page = |arguments: &[&str]| place.ok(&[&["report", "--published", &study][..], arguments].concat());
    let newest = page(&["--format", "markdown"]);
    assert!(newest.contains("--on sim --seed 2") && newest.contains("Lab: not run yet"), "{newest}");
    assert!(newest.contains("simulation **yes**"), "{newest}");
    let named = page(&["--format", "text", "--use-run", "dmcrypt-published~1"]);
    assert!(named.contains("--on sim --seed 1"), "{named}");
    let json: serde_json::Value = serde_json::from_str(&page(&["--json"])).unwrap();
    assert_eq!(json["parts"][0]["rows"][1]["ours"]["simulation"]["agrees"], "yes");
    assert_eq!(json["parts"][0]["rows"][1]["ours"]["lab"], serde_json::Value::Null);
    page(&["--out", "page.html"]);
    assert!(std::fs::read_to_string(place.path("page.html")).unwrap().contains("<h1>dm-crypt</h1>"));
}

#[test]
fn a_book_keeps_its_runs_and_is_checked_against_them() {
    let place = Place::new();
    let study = study(&place);
    place.ok(&["run", &study, "--on", "sim", "--seed", "1"]);
    let book = |arguments: &[&'static str]| {
        [&["report", "--published", &study, "--pages", "book"][..], arguments].concat()
    };
    place.ok(&book(&["--update"]));
    // Without the notebook it is the same.
    std::fs::remove_dir_all(place.path("notebook")).unwrap();
    place.ok(&book(&["--check"]));
    let page = place.path("book/dmcrypt-published.md");
    let text = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, text.replace("57.1", "58.1")).unwrap();
    let error = place.fails(1, &book(&["--check"]));
    assert!(error.contains("dmcrypt-published.md") && error.contains("without --check"), "{error}");
    place.ok(&book(&[]));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), text);
}

#[test]
fn what_cannot_be_a_page_is_said() {
    let place = Place::new();
    let plain = format!("{ROOT}/studies/published/dmcrypt.toml");
    let said = place.fails(2, &["report", "--published", &plain]);
    assert!(said.contains("has no [page]"), "{said}");
    let said = place.fails(2, &["report", &plain]);
    assert!(said.contains("--published"), "{said}");
    let said = place.fails(2, &["report", "one", "two"]);
    assert!(said.contains("--pages"), "{said}");
    let wrong = PAGE.replace("levels = { governor = \"powersave\" }", "study = \"other\"");
    let text = std::fs::read_to_string(Path::new(&plain)).unwrap();
    let study = place.study("wrong", &format!("{text}{wrong}"));
    let said = place.fails(2, &["report", "--published", &study, "--pages", "book"]);
    assert!(said.contains("`other`, which is no part of the page"), "{said}");
}
