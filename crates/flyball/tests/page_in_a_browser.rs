//! The page of a run as a browser lays it out, at 1280 × 800 and at 390 × 844 px: what is in the first
//! screen, that nothing is wider than the screen, and that sorting, filtering and the crosshair do what they
//! say. The pictures of it in the documents are made here, with `UPDATE_EXPECT=1`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Place, lab};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FRAME: &str = include_str!("browser/frame.html");
const TIMELINE: &str = include_str!("browser/timeline.html");

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
fn looked_at(chromium: &Path, place: &Place, harness: &str, page: &str) -> Vec<String> {
    let frame = place.path("frame.html");
    std::fs::write(&frame, harness.replace("PAGE", page)).unwrap();
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
    let mut found = looked_at(chromium, place, FRAME, "page.html");
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

#[test]
fn a_timeline_is_drawn_moved_searched_and_summed_up() {
    let Some(chromium) = chromium() else { return testing::skip("Chromium is not installed") };
    let place = Place::new();
    let load = "fio --name=load --rw=randread --bs=4k --size=8m --runtime=1 --time_based --filename=file";
    let words: Vec<&str> = ["record", "--events", "--"].into_iter().chain(load.split(' ')).collect();
    let output = place.output(&words);
    let told = crate::support::stderr(&output);
    if told.contains("perf_event_paranoid") || told.contains("not recorded: sched/sched_switch") {
        return testing::skip(format!("no events can be recorded here: {told}"));
    }
    assert!(output.status.success(), "{told}");
    let trial = "b00.recorded.a0";
    place.ok(&["export", "recording-fio", "--trace", trial, "--format", "timeline", "--out", "page.html"]);
    let mut found = looked_at(&chromium, &place, TIMELINE, "page.html");
    let last = found.pop().unwrap();
    assert!(found.is_empty(), "{}\n{last}", found.join("\n"));
    assert!(tried(&last, "screens") == 2 && tried(&last, "moves") == 8, "{last}");
    assert!(tried(&last, "tracks") > 10 && tried(&last, "spans") > 1000, "{last}");
    assert!(tried(&last, "matches") > 100 && tried(&last, "pixels") > 10_000, "{last}");
    println!("{last}");
}

/// Small reads and writes of a volume of dm-crypt in memory, recorded in a machine with nothing else on it.
const ENCRYPTED: &str = r"
exec 3>&1 >&2
modprobe brd rd_nr=1 rd_size=65536
modprobe dm_crypt
printf 32-bytes-of-a-key-of-no-secrecy. | cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 \
    --key-file - /dev/ram0 vault
cd /run
export FLYBALL_NOTEBOOK=/run/notebook
flyball record --events -- fio --name=load --rw=randrw --bs=4k --ioengine=libaio --iodepth=8 --direct=1 --runtime=3 \
    --time_based --size=32m --filename=/dev/mapper/vault
flyball export recording-fio --trace b00.recorded.a0 --format timeline --out timeline.html
cat timeline.html >&3
";

/// A few milliseconds of a timeline, as the documents show it. It is drawn anew only where that is asked for.
#[test]
fn the_picture_of_a_timeline_in_the_documents_is_of_its_first_screen() {
    const SIZES: [(&str, (u32, u32)); 2] = [("timeline", (1280, 800)), ("timeline-on-a-phone", (390, 844))];
    if std::env::var_os("UPDATE_EXPECT").is_none() {
        return SIZES.iter().for_each(|(name, size)| keep_picture(name, &[], *size));
    }
    let Some(chromium) = chromium() else { return testing::skip("Chromium is not installed") };
    let place = Place::new();
    let kernel = lab::KERNELS[1];
    if let Some(why) = lab::without(&["cryptsetup", "fio"]).or_else(|| lab::missing(&place, kernel)) {
        return testing::skip(why);
    }
    let machine = ["lab", "exec", "--kernel", kernel, "--vcpus", "2", "--memory", "1GiB", "--"];
    let page = place.ok(&[&machine[..], &["bash", "-c", ENCRYPTED]].concat());
    std::fs::write(place.path("page.html"), page).unwrap();
    for (name, size) in SIZES {
        let png = photographed(&chromium, &place, "page.html#2000000000-2008000000", size);
        keep_picture(name, &png, size);
    }
}

/// Writes a picture of the documents anew where that is asked for; the one that is kept has this size.
fn keep_picture(name: &str, png: &[u8], size: (u32, u32)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/pictures/{name}.png"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, png).unwrap();
    }
    assert_eq!(size_of(&std::fs::read(&path).unwrap()), size);
}

/// The first screen of a page at a size, as a PNG file.
fn photographed(chromium: &Path, place: &Place, page: &str, (width, height): (u32, u32)) -> Vec<u8> {
    let picture = place.path("picture.png");
    let options = [format!("--window-size={width},{height}"), format!("--screenshot={}", picture.display())];
    // A timeline unpacks itself before it is drawn.
    let options = ["--hide-scrollbars", "--virtual-time-budget=8000", &options[0], &options[1]];
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
    let place = Place::new();
    for (study, run, name) in [
        ("published/raid10", "raid10-published", "page"),
        ("oltp-governors", "oltp-governors", "page-of-curves"),
    ] {
        place.measure(&["run", study, "--on", "sim", "--seed", "1"]);
        place.ok(&["report", run, "--out", "page.html"]);
        for (suffix, size) in [("", (1280, 800)), ("-on-a-phone", (390, 844))] {
            let png = photographed(&chromium, &place, "page.html", size);
            keep_picture(&format!("{name}{suffix}"), &png, size);
        }
    }
}
