//! The page of a run as a browser lays it out, at 1280 × 800 and at 390 × 844 px: what is in the first
//! screen, that nothing is wider than the screen, and that sorting, filtering and the crosshair do what they
//! say. The pictures of it in the documents are made here, with `UPDATE_EXPECT=1`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::Place;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FRAME: &str = include_str!("browser/frame.html");

/// A curve with two lines, figures beside published ones, and trials enough for a filter.
const STUDY: &str = r#"
flyball = 1
name = "amounts-by-block-size-and-depth"
question = "Does the block size decide how fast a file is read, with one request in flight and with sixteen of them?"
primary = "block"

[target]
file = "8MiB"

[workload.read]
tool = "fio"
options = { rw = "randread", ioengine = "libaio", direct = true, size = "8m" }

[factor.block]
option = "bs"
levels = ["4k", "64k"]

[factor.depth]
option = "iodepth"
levels = [1, 4, 16]

[measure]
repeats = [6, 6]

[[published]]
source = "a report whose title is longer than a line on the screen of a phone would be"
workload = "read"
levels = { block = "4k", depth = 1 }
metric = "iops"
at_least = "100 /s"
note = "a remark"
"#;

/// A browser that has no window takes some seconds to start; a busy host makes half a minute of them.
const PATIENCE: Duration = Duration::from_secs(180);

fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|p| p.is_file())
}

/// Opens a file in a browser without a window, and waits until that ends.
fn browse(chromium: &Path, place: &Place, file: &Path, options: &[&str], output: Stdio) {
    let mut browser = Command::new(chromium)
        // Chromium's own sandbox refuses root, and the pages are our own.
        .args(["--headless", "--disable-gpu", "--no-sandbox"])
        .args(options)
        .arg(format!("--user-data-dir={}", place.path("profile").display()))
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while browser.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            browser.kill().unwrap();
            browser.wait().unwrap();
            panic!("{} took longer than {PATIENCE:?}", chromium.display());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the browser found wrong, and as its last line what it tried.
fn looked_at(chromium: &Path, place: &Place, page: &str) -> Vec<String> {
    let frame = place.path("frame.html");
    std::fs::write(&frame, FRAME.replace("PAGE", page)).unwrap();
    let seen = place.path("seen.html");
    let options = ["--allow-file-access-from-files", "--virtual-time-budget=20000", "--dump-dom"];
    browse(chromium, place, &frame, &options, std::fs::File::create(&seen).unwrap().into());
    let seen = std::fs::read_to_string(seen).unwrap();
    let list = seen.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    list.unwrap_or_else(|| panic!("the browser gave `{seen}`")).lines().map(str::to_owned).collect()
}

/// The count of a word in the browser's last line.
fn tried(line: &str, what: &str) -> usize {
    let after = line.split(&format!("{what} ")).nth(1).unwrap_or_else(|| panic!("{line}"));
    after.split(',').next().unwrap().parse().unwrap()
}

fn checked(chromium: &Path, place: &Place, run: &str) -> String {
    place.ok(&["report", run, "--out", "page.html"]);
    let mut found = looked_at(chromium, place, "page.html");
    let last = found.pop().unwrap();
    assert!(found.is_empty(), "{run}:\n{}", found.join("\n"));
    assert!(tried(&last, "screens") == 2 && tried(&last, "elements") > 500, "{last}");
    assert!(tried(&last, "words") > 4, "{last}");
    last
}

/// Runs the study, and looks at its page; it has to hold this.
fn fits(study: &str, holds: &str) {
    let Some(chromium) = chromium() else { return testing::skip("Chromium is not installed") };
    let place = Place::new();
    let study = place.study("amounts-by-block-size-and-depth", study);
    place.measure(&["run", &study, "--on", "sim", "--machine", "server-nvme", "--seed", "1"]);
    let last = checked(&chromium, &place, "amounts-by-block-size-and-depth");
    assert!(std::fs::read_to_string(place.path("page.html")).unwrap().contains(holds), "{holds}");
    assert!(tried(&last, "sorted") > 4 && tried(&last, "filtered") >= 2, "{last}");
    assert!(tried(&last, "read") > 0 && tried(&last, "zoomed") == 2, "{last}");
}

#[test]
fn a_curve_and_its_tables_fit_a_screen_and_a_phone() {
    fits(STUDY, "class=\"timed curve\"");
}

#[test]
fn a_heat_map_and_its_tables_fit_a_screen_and_a_phone() {
    let names = "option = \"rw\"\nlevels = [\"randread\", \"read\", \"randwrite\"]";
    let study = STUDY.replace("option = \"iodepth\"\nlevels = [1, 4, 16]", names);
    fits(&study.replace("depth = 1 }", "depth = \"read\" }"), "class=\"heat\"");
}

/// The first screen of a page at a size, as a PNG file.
fn photographed(chromium: &Path, place: &Place, page: &str, (width, height): (u32, u32)) -> Vec<u8> {
    let picture = place.path("picture.png");
    let options = [format!("--window-size={width},{height}"), format!("--screenshot={}", picture.display())];
    let options = ["--hide-scrollbars", &options[0], &options[1]];
    browse(chromium, place, &place.path(page), &options, Stdio::null());
    let png = std::fs::read(picture).unwrap();
    assert_eq!(size_of(&png), (width, height));
    png
}

/// Width and height of a PNG file, from its header (RFC 2083, 4.1.1).
fn size_of(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!(&png[1..4], b"PNG");
    (number(16), number(20))
}

#[test]
fn the_pictures_of_pages_in_the_documents_are_of_their_first_screens() {
    let Some(chromium) = chromium() else { return testing::skip("Chromium is not installed") };
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let place = Place::new();
    for (study, run, name) in [
        ("published/raid10", "raid10-published", "page"),
        ("oltp-governors", "oltp-governors", "page-of-curves"),
    ] {
        place.measure(&["run", study, "--on", "sim", "--seed", "1"]);
        place.ok(&["report", run, "--out", "page.html"]);
        for (suffix, size) in [("", (1280, 800)), ("-on-a-phone", (390, 844))] {
            let png = photographed(&chromium, &place, "page.html", size);
            let path = kept.join(format!("{name}{suffix}.png"));
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                std::fs::write(&path, &png).unwrap();
            }
            assert_eq!(size_of(&std::fs::read(&path).unwrap()), size);
        }
    }
}
