//! The governors of crate `governors` decide as the kernels do that are booted here: what they read and
//! decide is recorded afresh in a guest (`fixtures/governors/record.sh`) and replayed.
//!
//! Where QEMU, a kernel or the plugin is missing, a line `skipped:` says so. Nothing here depends on how fast
//! the host is.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

#[path = "../../governors/tests/recording/mod.rs"]
mod recording;
use crate::support;
use crate::support::Place;
use crate::support::lab::{kernels, missing, slow_pstates, without_plugin};
use recording::{Replayed, Updates, parse, replay};

const RECORD: &str = include_str!("../../../fixtures/governors/record.sh");

/// Of the recordings that there are: each governor, waiting for disks, limits and tunables that change, in
/// half a minute.
const RECORDED: [&str; 6] = [
    "ondemand-disk",
    "ondemand-bias",
    "conservative-steps",
    "conservative-limits",
    "schedutil-rate",
    "schedutil-limits",
];

/// What a host says that is too busy even to boot a guest.
const NOT_BOOTED: &str = "the guest said nothing";

#[test]
fn what_a_kernel_decides_now_the_models_decide() {
    let place = Place::new();
    if let Some(reason) = without_plugin() {
        return println!("skipped: {reason}");
    }
    let table = slow_pstates(&place);
    for kernel in kernels() {
        match missing(&place, kernel) {
            Some(reason) => println!("skipped: {reason}"),
            None => check(&place, kernel, &table),
        }
    }
}

fn check(place: &Place, kernel: &str, table: &str) {
    let mut arguments = vec!["lab", "exec", "--kernel", kernel, "--pstates", table, "--"];
    arguments.extend(["bash", "-c", RECORD, "record.sh"]);
    arguments.extend(RECORDED);
    let output = place.output(&arguments);
    let said = support::stderr(&output);
    if said.contains(NOT_BOOTED) {
        return println!("skipped: the host is too busy to boot kernel {kernel}: {}", said.trim());
    }
    assert!(output.status.success(), "{said}");
    let recordings = parse(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(recordings.len(), RECORDED.len());

    let mut all = Replayed::default();
    for recording in recordings {
        if recording.straddled {
            let what = format!("{} {}", recording.kernel, recording.name);
            testing::skip_in_part(format!("{what}: interrupts came in between each time"));
            continue;
        }
        let replayed = replay(&recording, Updates::All);
        println!("{} {}: {replayed}", recording.kernel, recording.name);
        for difference in &replayed.differences {
            println!("    {difference}");
        }
        assert!(replayed.decisions > 10, "{}: a recording of nothing", recording.name);
        all.add(&replayed);
    }
    println!("kernel {kernel}: {all}");
    assert_eq!(all.equal, all.decisions, "decisions differ");
    assert!(all.same_state() >= 0.99, "{all}");
}
