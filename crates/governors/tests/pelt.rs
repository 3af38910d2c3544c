//! Utilisation is computed as real kernels do: steps of a CPU's runqueue, recorded on Debian's 6.1 and 6.12.
//!
//! What a recording holds, and how it came about: `fixtures/governors/README.md`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use domain::time::Nanos;
use governors::pelt::{Activity, Signal};

fn signal(words: &[&str]) -> Signal {
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    Signal {
        last_update_ns: number(0),
        load_sum: number(1),
        runnable_sum: number(2),
        util_sum: u32::try_from(number(3)).unwrap(),
        period_contrib: u32::try_from(number(4)).unwrap(),
        load_avg: number(5),
        runnable_avg: number(6),
        util_avg: number(7),
    }
}

/// The weight as the signals count it (`scale_load_down`).
fn scaled(weight: u64) -> u64 {
    if weight == 0 { 0 } else { (weight >> 10).max(2) }
}

/// Each step from the kernel's own state before it, and all from the first on as far as no task came or left.
fn check(text: &str) {
    let mut lines = text.lines();
    let kernel = lines.next().unwrap();
    let (mut steps, mut equal, mut ended, mut highest) = (0, 0, 0, 0);
    let mut model = Signal::default();
    for line in lines {
        let (before, after) = line.split_once(" > ").unwrap();
        let before: Vec<&str> = before.split_whitespace().collect();
        let after: Vec<&str> = after.split_whitespace().collect();
        if before[4] != "=" {
            model = signal(&before[4..]);
        }
        let number = |at: usize| before[at].parse::<u64>().unwrap();
        let activity = Activity { load: scaled(number(1)), runnable: number(2), running: before[3] == "1" };
        let crossed = model.update(Nanos::new(number(0)), activity, 1);
        let kernel = signal(&after);
        steps += 1;
        if model == kernel && crossed == (after[8] == "1") {
            equal += 1;
        } else {
            println!("    {line}\n    {model:?}");
        }
        ended += usize::from(crossed);
        highest = highest.max(kernel.util_avg);
    }
    println!(
        "{kernel}: {equal} of {steps} steps equal, {ended} of them into a new period, utilisation up to {highest}"
    );
    assert!(steps > 200 && ended > 100 && highest > 500, "a recording of nothing");
    assert_eq!(equal, steps);
}

#[test]
fn every_step_of_kernel_6_1_is_the_models() {
    check(include_str!("../../../fixtures/governors/pelt-6.1.txt"));
}

#[test]
fn every_step_of_kernel_6_12_is_the_models() {
    check(include_str!("../../../fixtures/governors/pelt-6.12.txt"));
}
