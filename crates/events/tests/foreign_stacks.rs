//! Call stacks that perf sampled: its files, and the text of `perf script`.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod damage;

use damage::damage;
use domain::profile::{Profile, Subsystem};
use domain::trace::Role;
use events::foreign::{Converted, Error, converter_naming};
use events::{Facts, perf_data, perf_script};
use parse::import::Kind;
use proptest::prelude::*;
use std::io::Cursor;

/// 91 samples of dd, which writes to ext4 and syncs, the functions of that kernel, and what perf 6.1 prints
/// (fixtures/tools/PROVENANCE.md).
const DATA: &[u8] = include_bytes!("../../../fixtures/tools/perf/stacks-6.1.data");
const KALLSYMS: &[u8] = include_bytes!("../../../fixtures/tools/perf/stacks-6.1.kallsyms");
const TEXT: &[u8] = include_bytes!("../../../fixtures/tools/perf/script-stacks-6.1.txt");

/// Of a whole machine (`-a`).
const ALL: &[u8] = include_bytes!("../../../fixtures/tools/perf/script-stacks-all-6.1.txt");

fn facts(convert: impl FnOnce(&mut Vec<u8>) -> Result<Converted, Error>) -> (Converted, Facts) {
    let mut output = Vec::new();
    let converted = convert(&mut output).unwrap();
    let facts = Facts::read(|| Ok(Cursor::new(&output))).unwrap();
    assert_eq!(facts.profile.as_ref().map_or(0, Profile::all), converted.stacks);
    (converted, facts)
}

fn of_text(text: &[u8]) -> (Converted, Profile) {
    let (converted, facts) = facts(|output| perf_script::convert(text, output));
    (converted, facts.profile.unwrap())
}

fn of_data(kallsyms: &[u8]) -> (Converted, Profile) {
    let convert = converter_naming(Kind::PerfData).unwrap();
    let (converted, facts) = facts(|output| convert(DATA, kallsyms, output));
    (converted, facts.profile.unwrap())
}

fn in_layer(profile: &Profile, layer: Subsystem) -> u64 {
    profile.count(|_, subsystem| subsystem == layer)
}

#[test]
fn the_text_of_a_file_and_the_file_with_its_kernels_functions_have_one_profile() {
    let ((of_text, text), (of_data, data)) = (of_text(TEXT), of_data(KALLSYMS));
    assert_eq!((of_text.stacks, of_data.stacks), (91, 91));
    assert_eq!((of_text.events, of_data.events, of_data.others), (0, 0, 0));
    assert_eq!(text.samples, data.samples);
    assert_eq!(text.inclusive, data.inclusive);
    assert_eq!((text.period.get(), data.period.get()), (1_000_000, 1_000_000));
    assert!(of_data.span.get().abs_diff(of_text.span.get()) <= 1000);
    // All of it is of the command, and nearly all of that the kernel's.
    assert_eq!(data.count(|role, _| role == Role::Workload), 91);
    let [user, vfs, filesystem] =
        [Subsystem::User, Subsystem::Vfs, Subsystem::Filesystem].map(|layer| in_layer(&data, layer));
    assert!(vfs > 10 && filesystem > 10 && user < 10, "{:?}", data.samples);
    assert!(data.inclusive[&Subsystem::Vfs] > vfs);
    assert_eq!(in_layer(&data, Subsystem::Unnamed), 0);
    assert!(of_data.notes.is_empty() && of_text.notes.is_empty(), "{:?}", of_data.notes);
}

#[test]
fn without_the_kernels_functions_what_programs_took_is_known_and_the_rest_is_unnamed() {
    let ((converted, unnamed), (_, named)) = (of_data(&[]), of_data(KALLSYMS));
    assert_eq!(in_layer(&unnamed, Subsystem::User), in_layer(&named, Subsystem::User));
    let all = in_layer(&unnamed, Subsystem::User) + in_layer(&unnamed, Subsystem::Unnamed);
    assert_eq!(all, unnamed.all());
    assert!(converted.notes.iter().any(|note| note.contains("--kallsyms FILE")), "{:?}", converted.notes);
}

#[test]
fn functions_of_another_boot_and_hidden_ones_are_refused() {
    let why =
        |kallsyms: &[u8]| perf_data::convert_naming(DATA, kallsyms, &mut Vec::new()).unwrap_err().to_string();
    let other = String::from_utf8_lossy(KALLSYMS).replacen("ffffffff81000000", "ffffffff9a000000", 1);
    assert!(
        why(other.as_bytes()).contains("another boot: `_text` is at 0xffffffff9a000000"),
        "{}",
        why(other.as_bytes())
    );
    assert!(why(b"0000000000000000 T _text\n").contains("copy /proc/kallsyms as root"));
}

#[test]
fn of_a_whole_machine_roles_are_told_by_names_and_by_what_runs() {
    let (converted, profile) = of_text(ALL);
    let of = |wanted: Role| profile.count(|role, _| role == wanted);
    assert_eq!(converted.stacks, profile.all());
    // dd is the command behind `--`; compilers are somebody's.
    assert!(of(Role::Workload) == 30 && of(Role::Other) == 8, "{:?}", profile.samples);
    assert_eq!(of(Role::Kernel), 3);
    assert_eq!(of(Role::Workload) + of(Role::Other) + of(Role::Kernel) + 14, profile.all());
    let kworkers = profile.count(|role, layer| {
        matches!(role, Role::Kworker | Role::Writeback | Role::Journal) && layer != Subsystem::User
    });
    assert_eq!(kworkers, 14);
}

/// A text of samples: thread, CPU in brackets or none, event, and functions.
fn text(samples: &[(&str, &str, &str, &[&str])]) -> String {
    let mut text = String::new();
    for (number, (thread, cpu, event, functions)) in samples.iter().enumerate() {
        text += &format!("{thread} {cpu} 5.{:06}: {event}: \n", 1000 * (number + 1));
        for function in *functions {
            text += &format!("\t{function}\n");
        }
        text += "\n";
    }
    text
}

const SUBMITS: &str = "ffffffff81000010 submit_bio_noacct+0x10 ([kernel.kallsyms])";
const MAKES: &str = "ffffffffc0000010 raid10_make_request+0x10 ([raid10])";
const COPIES: &str = "ffffffff82000010 memcpy+0x10 ([kernel.kallsyms])";
const HALTS: &str = "ffffffff83000010 pv_native_safe_halt+0x10 ([kernel.kallsyms])";
const INTERRUPTS: &str = "ffffffff84000010 asm_common_interrupt+0x10 ([kernel.kallsyms])";
const READS: &str = "                f8350 read+0x10 (/usr/lib/libc.so.6)";

#[test]
fn md_in_the_context_of_the_submitter_and_interrupts_of_idle_cpus_are_told_apart() {
    let clock = "250000 cpu-clock";
    let samples = text(&[
        ("fio 7/8", "[000]", clock, &[COPIES, MAKES, SUBMITS, READS]),
        ("fio 7/8", "[000]", clock, &[READS, READS]),
        ("swapper 0", "[001]", clock, &[HALTS]),
        ("swapper 0", "[001]", clock, &["ffffffff85000010 nvme_irq+0x1 ([nvme])", INTERRUPTS, HALTS]),
    ]);
    let (converted, profile) = of_text(samples.as_bytes());
    assert_eq!((converted.stacks, profile.period.get()), (3, 250_000));
    assert_eq!(profile.samples[&(Role::Other, Subsystem::Md)], 1);
    assert_eq!(profile.samples[&(Role::Other, Subsystem::User)], 1);
    assert_eq!(profile.samples[&(Role::Kernel, Subsystem::Driver)], 1);
    assert_eq!((profile.inclusive[&Subsystem::Md], profile.inclusive[&Subsystem::Block]), (1, 1));
}

#[test]
fn cycles_count_as_the_time_between_two_samples_and_other_events_count_nothing() {
    let samples: Vec<(&str, &str, &str, &[&str])> = vec![
        ("fio 7", "[000]", "123456 cycles:P", &[SUBMITS]),
        ("fio 7", "[000]", "999 instructions", &[SUBMITS]),
        ("fio 7", "[000]", "654321 cycles:P", &[COPIES]),
        ("fio 7", "[000]", "654321 cycles:P", &[READS]),
    ];
    let (converted, profile) = of_text(text(&samples).as_bytes());
    assert_eq!((converted.stacks, converted.others, profile.period.get()), (3, 1, 2_000_000));
    assert!(converted.notes.iter().any(|note| note.contains("median distance")), "{:?}", converted.notes);
    // The header says how often a second.
    let header =
        "# event : name = cycles:P, , id = { 1 }, { sample_period, sample_freq } = 4000, freq = 1, x = 2\n";
    let (converted, profile) = of_text((header.to_owned() + &text(&samples)).as_bytes());
    assert_eq!(profile.period.get(), 250_000);
    assert_eq!(converted.notes.len(), 1);
}

#[test]
fn one_function_is_a_stack_of_one_and_said_to_be() {
    let line = "fio 7 [000] 5.000001: 250000 cpu-clock:k: ffffffff81000010 submit_bio_noacct+0x10 ([kernel.kallsyms])\n";
    let (converted, profile) = of_text(line.as_bytes());
    assert_eq!(profile.samples[&(Role::Other, Subsystem::Block)], 1);
    assert!(converted.notes.iter().any(|note| note.contains("no call stacks")), "{:?}", converted.notes);
    assert!(converted.notes.iter().any(|note| note.contains("of the kernel alone")), "{:?}", converted.notes);
}

#[test]
fn tracepoints_with_stacks_stay_events_beside_the_clocks_samples() {
    let mixed = format!(
        "a 7 [001] 5.000001: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000\n\t{COPIES}\n\n{}",
        text(&[("a 7", "[001]", "250000 cpu-clock", &[MAKES])])
    );
    let (converted, facts) = facts(|output| perf_script::convert(mixed.as_bytes(), output));
    assert_eq!((converted.events, converted.stacks), (1, 1));
    assert_eq!(facts.kinds["sched/sched_waking"].recorded, 1);
    assert_eq!(in_layer(&facts.profile.unwrap(), Subsystem::Md), 1);
}

#[test]
fn a_call_stack_without_end_is_cut() {
    let many = vec![SUBMITS; 5000];
    let (converted, _) = of_text(text(&[("a 7", "", "250000 cpu-clock", &many)]).as_bytes());
    assert_eq!(converted.stacks, 1);
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(damage in damage(3)) {
        for bytes in damage.to(&[TEXT, ALL, DATA]) {
            let mut output = Vec::new();
            let converted = match damage.which {
                2 => perf_data::convert_naming(&bytes, KALLSYMS, &mut output),
                _ => perf_script::convert(&bytes, &mut output),
            };
            if converted.is_ok() {
                let _ = Facts::read(|| Ok(Cursor::new(&output)));
            }
        }
    }
}
