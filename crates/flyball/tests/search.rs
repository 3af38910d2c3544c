//! `until = "best"` on simulated machines: what it finds is as good as the best of the whole grid, in less
//! than a quarter of the trials that ten of each cell take.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it saw"
)]

use crate::support::Place;
use serde_json::Value;
use std::fmt::Write as _;

/// Machines with watts whose driver takes ondemand and conservative.
const MACHINES: [&str; 4] = ["lab", "skylake-leap421", "xeon-e5-acpi", "xeon-e5-acpi-turbo"];

/// Loads on a volume of dm-crypt, and what decides. The least energy is at no end of the grid.
const LOADS: [(&str, &str); 5] = [
    ("rw = \"read\", bs = \"4k\", ioengine = \"psync\"", "throughput"),
    ("rw = \"read\", bs = \"4k\", ioengine = \"psync\"", "energy_per_gb"),
    ("rw = \"randread\", bs = \"16k\", ioengine = \"libaio\", iodepth = 4", "latency_p99"),
    ("rw = \"randwrite\", bs = \"4k\", ioengine = \"libaio\", iodepth = 8", "energy_per_io"),
    ("rw = \"write\", bs = \"64k\", ioengine = \"libaio\", iodepth = 2", "energy_per_gb"),
];

/// The policies: each governor, and the tunables of those that have some. Waiting for a disk is no work, or
/// every threshold would be exceeded on Intel's processors and all of ondemand's were alike.
fn policies() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |name: String, settings: String| all.push((name, settings));
    for threshold in [30, 50, 70, 80, 95] {
        for rate in [10_000, 40_000, 100_000] {
            add(
                format!("ondemand {threshold} {rate}"),
                format!(
                    "governor = \"ondemand\", \"ondemand.io_is_busy\" = 0, \"ondemand.up_threshold\" = {threshold}, \
                     \"ondemand.sampling_rate\" = {rate}"
                ),
            );
        }
    }
    for threshold in [40, 60, 80] {
        for rate in [10_000, 100_000] {
            add(
                format!("conservative {threshold} {rate}"),
                format!(
                    "governor = \"conservative\", \"conservative.up_threshold\" = {threshold}, \"conservative.sampling_rate\" = {rate}"
                ),
            );
        }
    }
    add("performance".into(), "governor = \"performance\"".into());
    add("powersave".into(), "governor = \"powersave\"".into());
    all
}

fn study(machine: &str, (load, metric): (&str, &str), measured: &str) -> String {
    let mut text = format!(
        "flyball = 1\nname = \"grid\"\nquestion = \"Which policy is best?\"\n[sim]\nmachine = \"{machine}\"\n\
         [lab]\nvcpus = 1\npstates = \"laptop-5\"\n\
         [stack.disk]\nkind = \"devices\"\nnull_blk = \"1GiB\"\nattributes = \"irqmode=2 completion_nsec=1000000\"\n\
         [stack.vault]\nkind = \"crypt\"\non = \"disk\"\ntype = \"plain\"\ncipher = \"aes-cbc-essiv:sha256\"\nkey_size = 256\n\
         [workload.load]\ntool = \"fio\"\noptions = {{ {load}, direct = true, time_based = true, runtime = \"2s\" }}\n\
         [factor.policy]\n"
    );
    for (name, settings) in policies() {
        let _ = write!(text, "[[factor.policy.level]]\nname = \"{name}\"\nsettings = {{ {settings} }}\n");
    }
    text + &format!("[measure]\nmetric = \"{metric}\"\n{measured}\n")
}

/// Each cell that was measured: its name, its median, and how many trials it has.
fn cells(report: &Value) -> Vec<(&str, f64, usize)> {
    let all = report["cells"].as_array().unwrap().iter();
    all.filter_map(|cell| {
        Some((cell["cell"].as_str()?, cell["median"].as_f64()?, cell["trials"].as_array()?.len()))
    })
    .collect()
}

#[test]
fn what_a_search_finds_is_as_good_as_the_best_of_the_whole_grid() {
    let cases: Vec<(&str, (&str, &str))> =
        MACHINES.into_iter().flat_map(|machine| LOADS.map(|load| (machine, load))).collect();
    let extent = testing::Extent::of(1, cases.len() as u64);
    for number in 0..extent.count {
        let (machine, load) = cases[((extent.seed + number) % cases.len() as u64) as usize];
        let place = Place::new();
        let run = |name: &str, measured: &str| -> Value {
            let file = place.study(name, &study(machine, load, measured));
            let text = place.measure(&["run", "--new", "--on", "sim", "--seed", "7", "--json", &file]);
            serde_json::from_str(&text).unwrap()
        };
        let (grid, search) =
            (run("grid", "repeats = 10"), run("best", "repeats = [1, 15]\nuntil = \"best\""));
        let is_lower = load.1 != "throughput";
        let (all, searched) = (cells(&grid), cells(&search));
        let better = |a: f64, b: f64| if is_lower { b.total_cmp(&a) } else { a.total_cmp(&b) };
        let best = all.iter().max_by(|a, b| better(a.1, b.1)).unwrap();
        let found = searched.iter().max_by(|a, b| a.2.cmp(&b.2).then_with(|| better(a.1, b.1))).unwrap();
        // What was found, by the trials of the whole grid.
        let worth = all.iter().find(|cell| cell.0 == found.0).unwrap().1;
        let off = if is_lower { worth / best.1 } else { best.1 / worth } - 1.0;
        let trials = |cells: &[(&str, f64, usize)]| cells.iter().map(|cell| cell.2).sum::<usize>();
        let share = trials(&searched) as f64 / trials(&all) as f64;
        eprintln!(
            "{machine}, {load:?}: found {}, {:.1}% off the best, {}, in {} of {} trials",
            found.0,
            off * 100.0,
            best.0,
            trials(&searched),
            trials(&all)
        );
        assert!(all.len() >= 12 && off <= 0.03 && share <= 0.25, "{off} {share}");
        assert!(search["verdict"].as_str().unwrap().contains("has to be measured anew"), "{search:#}");
    }
}

/// The front of a grid whose model has little noise, found in a part of its trials.
#[test]
fn what_a_search_finds_of_the_trade_off_is_the_front_of_the_whole_grid() {
    let extent = testing::Extent::of(1, MACHINES.len() as u64);
    for number in 0..extent.count {
        let machine = MACHINES[((extent.seed + number) % MACHINES.len() as u64) as usize];
        let place = Place::new();
        let run = |name: &str, measured: &str| -> Value {
            let file = place
                .study(name, &study(machine, LOADS[0], measured).replace("\"grid\"", &format!("\"{name}\"")));
            let text = place.measure(&["run", "--new", "--on", "sim", "--seed", "7", "--json", &file]);
            serde_json::from_str(&text).unwrap()
        };
        let (grid, search) =
            (run("grid", "repeats = 10"), run("front", "repeats = [2, 6]\nuntil = \"front\""));
        let watts = |cell: &Value| cell["beside"]["power"]["median"].as_f64();
        let all: Vec<(f64, f64)> = grid["cells"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|cell| Some((cell["median"].as_f64()?, watts(cell)?)))
            .collect();
        let front = search["front"].as_array().unwrap();
        assert!(
            !front.is_empty() && search["verdict"].as_str().unwrap().contains("measured anew"),
            "{search:#}"
        );
        for choice in front {
            // By the trials of the whole grid nothing is better in both by more than 2%.
            let cell =
                grid["cells"].as_array().unwrap().iter().find(|cell| cell["cell"] == choice["cell"]).unwrap();
            let (figure, power) = (cell["median"].as_f64().unwrap(), watts(cell).unwrap());
            let beaten = all.iter().any(|(other, less)| *other > figure * 1.02 && *less < power / 1.02);
            assert!(!beaten, "{machine}: {choice:#}");
            let joules = choice["watts"].as_f64().unwrap() / choice["median"].as_f64().unwrap();
            assert!((choice["joules"].as_f64().unwrap() / joules - 1.0).abs() < 1e-9);
            // A model changes nothing here.
            assert!(choice["keep"].is_null() && choice["settings"]["governor"].is_string(), "{choice:#}");
        }
        // And the fastest and the most frugal of the grid are among them, within 3%.
        let most = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).fold(0.0, f64::max);
        let found = |key: &str| front.iter().filter_map(|one| one[key].as_f64()).collect::<Vec<_>>();
        assert!(found("median").into_iter().fold(0.0, f64::max) >= most(|one| one.0) / 1.03);
        let least = all.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
        assert!(found("watts").into_iter().fold(f64::INFINITY, f64::min) <= least * 1.03);
        let trials = |report: &Value| -> usize {
            report["cells"]
                .as_array()
                .unwrap()
                .iter()
                .map(|cell| cell["trials"].as_array().unwrap().len())
                .sum()
        };
        eprintln!(
            "{machine}: {} of the front in {} of {} trials",
            front.len(),
            trials(&search),
            trials(&grid)
        );
        assert!(trials(&search) < trials(&grid));
        let screen = place.ok(&["show", "front"]);
        assert!(
            screen.contains("Trade-off") && screen.lines().all(|line| line.chars().count() <= 80),
            "{screen}"
        );
        place.ok(&["report", "front", "-o", "page.html"]);
        let page = std::fs::read_to_string(place.path("page.html")).unwrap();
        assert!(page.contains("throughput of load against watts"));
    }
}

#[test]
fn speed_and_watts_are_drawn_against_each_other_and_what_is_a_choice_is_named() {
    let place = Place::new();
    let file = place.study("grid", &study("xeon-e5-acpi", LOADS[0], "repeats = 2"));
    place.measure(&["run", "--new", "--on", "sim", "--seed", "7", &file]);
    let text = place.ok(&["show", "--full", "grid"]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "In throughput and watts together no other cell beats performance (";
    assert!(words.contains(said) && words.contains("powersave ("), "{text}");
    place.ok(&["report", "grid", "-o", "page.html"]);
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains(said) && page.contains("throughput of load against watts"));
    // A metric that is one of energy has no other beside it.
    let file = place
        .study("joules", &study("xeon-e5-acpi", LOADS[1], "repeats = 2").replace("\"grid\"", "\"joules\""));
    place.measure(&["run", "--new", "--on", "sim", "--seed", "7", &file]);
    assert!(!place.ok(&["show", "--full", "joules"]).contains("no other cell beats"));
}
