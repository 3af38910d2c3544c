//! The governors decide as real kernels did: recordings of Debian's 6.1 and 6.12, replayed.
//!
//! What a recording holds, and how it came about: `fixtures/governors/README.md`.
#![allow(clippy::print_stdout, reason = "a test")]

mod recording;

use recording::{Replayed, Updates, idle, parse, pstate, replay};

const RECORDED: [&str; 2] = [
    include_str!("../../../fixtures/governors/6.1.txt"),
    include_str!("../../../fixtures/governors/6.12.txt"),
];

/// In passive mode: `intel_cpufreq` without and with HWP, and `amd_pstate`.
const PASSIVE: [[&str; 2]; 3] = [
    [
        include_str!("../../../fixtures/governors/passive-pstate-6.1.txt"),
        include_str!("../../../fixtures/governors/passive-pstate-6.12.txt"),
    ],
    [
        include_str!("../../../fixtures/governors/passive-hwp-6.1.txt"),
        include_str!("../../../fixtures/governors/passive-hwp-6.12.txt"),
    ],
    [
        include_str!("../../../fixtures/governors/passive-amd-6.1.txt"),
        include_str!("../../../fixtures/governors/passive-amd-6.12.txt"),
    ],
];

/// `amd_pstate` in guided mode, which 6.1 does not have.
const GUIDED: &str = include_str!("../../../fixtures/governors/guided-amd-6.12.txt");

const PSTATE: [&str; 2] = [
    include_str!("../../../fixtures/governors/pstate-6.1.txt"),
    include_str!("../../../fixtures/governors/pstate-6.12.txt"),
];

const IDLE: [&str; 2] = [
    include_str!("../../../fixtures/governors/idle-6.1.txt"),
    include_str!("../../../fixtures/governors/idle-6.12.txt"),
];

/// Replays all recordings of a kernel; each decision has to be the kernel's own.
fn check(text: &str, updates: Updates) -> Replayed {
    let recordings = parse(text);
    assert!(!recordings.is_empty());
    let mut all = Replayed::default();
    for recording in &recordings {
        let replayed = replay(recording, updates);
        println!("{} {}: {replayed}", recording.kernel, recording.name);
        for difference in replayed.differences.iter().take(5) {
            println!("    {difference}");
        }
        assert!(replayed.decisions > 30, "{}: a recording of nothing", recording.name);
        assert!(replayed.requests > 3, "{}: a recording in which nothing changes", recording.name);
        all.add(&replayed);
    }
    println!("{}: {all}", recordings[0].kernel);
    assert_eq!(all.equal, all.decisions, "decisions differ");
    assert_eq!(all.differences, Vec::<String>::new());
    assert_eq!(all.time, all.time_in_same_state);
    all
}

#[test]
fn every_decision_of_kernel_6_1_is_the_models() {
    check(RECORDED[0], Updates::All);
}

#[test]
fn every_decision_of_kernel_6_12_is_the_models() {
    check(RECORDED[1], Updates::All);
}

#[test]
fn every_decision_in_passive_mode_is_the_models() {
    for text in PASSIVE.into_iter().flatten() {
        assert!(parse(text).iter().all(|recording| recording.policy.frequency_invariant));
        check(text, Updates::All);
    }
}

#[test]
fn every_decision_in_guided_mode_is_the_models() {
    assert!(GUIDED.lines().filter(|line| *line == "mode guided").count() == parse(GUIDED).len());
    check(GUIDED, Updates::All);
}

#[test]
fn updates_before_a_governor_is_due_change_nothing() {
    for text in RECORDED.into_iter().chain(PASSIVE.into_iter().flatten()) {
        let all = check(text, Updates::WhenDue);
        assert!(all.skipped > all.updates / 5, "{all}");
    }
}

#[test]
fn every_decision_of_intel_pstate_is_the_models() {
    for text in PSTATE {
        let mut all = Replayed::default();
        for recording in pstate::parse(text) {
            let replayed = pstate::replay(&recording);
            println!("{} {}: {replayed}", recording.kernel, recording.name);
            assert_eq!(replayed.differences, Vec::<String>::new(), "{}", recording.name);
            assert!(replayed.decisions > 30, "{}: a recording of nothing", recording.name);
            assert!(replayed.requests > 3, "{}: a recording in which nothing changes", recording.name);
            all.add(&replayed);
        }
        println!("{all}");
        assert!(all.decisions > 300, "{all}");
        assert_eq!((all.equal, all.time_in_same_state), (all.decisions, all.time));
    }
}

#[test]
fn every_decision_of_menu_is_the_models() {
    for text in IDLE {
        let mut all = idle::Replayed::default();
        for recording in idle::parse(text) {
            let replayed = idle::replay(&recording);
            println!("{} {}: {replayed}", recording.kernel, recording.name);
            for difference in replayed.differences.iter().take(5) {
                println!("    {difference}");
            }
            assert!(replayed.decisions > 15, "{}: a recording of nothing", recording.name);
            all.add(&replayed);
        }
        println!("{all}");
        assert!(all.decisions > 300 && all.states.len() > 3 && all.stopped > 30, "{all}");
        assert_eq!(all.differences, Vec::<String>::new());
        assert_eq!(all.equal, all.decisions);
    }
}
