//! What CPU time was spent in, by sampled call stacks.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod made;

use domain::Nanos;
use domain::profile::{Interrupts, Profile, Subsystem};
use domain::trace::Role;
use events::{Kind, Owner};
use made::File;

/// Where functions begin.
const SUBMITS: u64 = 0xffff_ffff_8100_0000;
const MAKES_REQUEST: u64 = 0xffff_ffff_c000_0000;
const COPIES: u64 = 0xffff_ffff_8200_0000;
const EXECUTES: u64 = 0xffff_ffff_8300_0000;
const ENCRYPTS: u64 = 0xffff_ffff_c100_0000;
const THREAD: u64 = 0xffff_ffff_8400_0000;
const MD_THREAD: u64 = 0xffff_ffff_c000_8000;

/// A recording with one stack a millisecond of fio (7), a kernel thread's mother (2) and somebody else (9).
fn recording() -> File {
    let mut file = File::new();
    file.frame(Kind::Period, 0, &1_000_000_u64.to_le_bytes());
    file.task(2, Owner::Kernel, "kthreadd");
    file.task(7, Owner::Workload, "fio");
    file.task(9, Owner::Other, "sshd");
    let names = [
        (SUBMITS, "submit_bio_noacct"),
        (MAKES_REQUEST, "raid10_make_request [raid10]"),
        (COPIES, "memcpy"),
        (EXECUTES, "process_one_work"),
        (ENCRYPTS, "kcryptd_crypt [dm_crypt]"),
        (THREAD, "kthread"),
        (MD_THREAD, "md_thread [md_mod]"),
    ];
    names.iter().for_each(|(address, name)| file.symbol(*address, name));
    file
}

fn profile(file: &mut File) -> Profile {
    file.end(1_000_000_000);
    file.facts().profile.unwrap()
}

#[test]
fn md_in_the_context_of_the_submitter_is_told_from_the_submitters_own() {
    let mut file = recording();
    file.stack(0, 1, 7, &[]);
    file.stack(0, 2, 7, &[SUBMITS + 8]);
    file.stack(0, 3, 7, &[COPIES + 4, MAKES_REQUEST + 40, SUBMITS + 80]);
    file.stack(1, 3, 9, &[]);
    let profile = profile(&mut file);
    let of = |role, subsystem| profile.samples.get(&(role, subsystem)).copied();
    assert_eq!(of(Role::Workload, Subsystem::User), Some(1));
    assert_eq!(of(Role::Workload, Subsystem::Block), Some(1));
    assert_eq!(of(Role::Workload, Subsystem::Md), Some(1));
    assert_eq!(of(Role::Other, Subsystem::User), Some(1));
    assert_eq!((profile.all(), profile.time(3)), (4, Nanos::from_millis(3)));
    assert_eq!(profile.functions["memcpy"], 1);
    // What md was asked for by the block layer is the block layer's too, where both are on the stack.
    assert_eq!((profile.inclusive[&Subsystem::Block], profile.inclusive[&Subsystem::Md]), (2, 1));
}

#[test]
fn a_return_behind_the_end_of_a_function_is_of_that_function() {
    let mut file = recording();
    // The last instruction of the caller was the call: it would return to where the next function begins.
    file.symbol(MAKES_REQUEST + 64, "stranger");
    file.stack(0, 1, 7, &[COPIES, MAKES_REQUEST + 64]);
    assert_eq!(profile(&mut file).samples[&(Role::Workload, Subsystem::Md)], 1);
}

#[test]
fn kernel_threads_that_began_within_the_recording_are_known_by_what_they_run() {
    let mut file = recording();
    file.fork(1, 10, 2, 20);
    file.fork(1, 11, 2, 21);
    file.stack(0, 12, 20, &[ENCRYPTS + 4, EXECUTES + 100, THREAD + 9]);
    file.stack(0, 13, 21, &[MAKES_REQUEST + 4, MD_THREAD + 50, THREAD + 9]);
    let profile = profile(&mut file);
    assert_eq!(profile.samples[&(Role::Crypt, Subsystem::Crypt)], 1);
    assert_eq!(profile.samples[&(Role::Array, Subsystem::Md)], 1);
}

#[test]
fn a_child_is_whose_its_parent_is_from_its_birth_on() {
    let mut file = recording();
    // The number was somebody else's before.
    file.task(30, Owner::Other, "cron");
    file.fork(0, 100, 7, 30);
    file.fork(1, 110, 30, 31);
    file.stack(0, 120, 31, &[]);
    file.stack(0, 50, 30, &[]);
    let profile = profile(&mut file);
    assert_eq!(profile.samples[&(Role::Workload, Subsystem::User)], 1);
    assert_eq!(profile.samples[&(Role::Other, Subsystem::User)], 1);
}

#[test]
fn what_is_lost_is_counted_and_what_has_no_name_is_unnamed() {
    let mut file = File::new();
    file.frame(Kind::Period, 0, &1_000_000_u64.to_le_bytes());
    file.stack(0, 1, 7, &[COPIES]);
    file.of_clock(0, 2, 0, &[1_u64.to_ne_bytes(), 5_u64.to_ne_bytes()].concat());
    let profile = profile(&mut file);
    assert_eq!((profile.lost, profile.all()), (5, 1));
    assert_eq!(profile.samples[&(Role::Other, Subsystem::Unnamed)], 1);
}

#[test]
fn what_a_handler_held_off_counts_to_interrupts_and_not_to_what_it_interrupted() {
    let mut file = recording();
    let ms = |count: u64| count * 1_000_000;
    file.stack(0, ms(1), 7, &[COPIES + 4, SUBMITS + 80]);
    for at in 2..6 {
        // Half of a period in a handler: of four samples, two were due in it.
        file.handler(0, ms(at), 36, "nvme0q1", 7);
        file.event(0, ms(at) + 500_000, "irq/irq_handler_exit", &[("irq", 36), ("common_pid", 7)]);
        let (behind, stack) = if at % 2 == 0 { (501_000, &[][..]) } else { (900_000, &[SUBMITS + 8][..]) };
        file.stack(0, ms(at) + behind, 7, stack);
    }
    // One that finds the CPU idle has no sample.
    file.handler(1, ms(2), 37, "nvme0q2", 0);
    file.event(1, ms(4), "irq/irq_handler_exit", &[("irq", 37)]);
    let profile = profile(&mut file);
    let of = |role, subsystem| profile.samples.get(&(role, subsystem)).copied();
    assert_eq!(of(Role::Workload, Subsystem::User), None);
    assert_eq!(of(Role::Workload, Subsystem::Block), Some(3));
    assert_eq!(of(Role::Workload, Subsystem::Interrupt), Some(2));
    assert_eq!(of(Role::Interrupt, Subsystem::Interrupt), Some(2));
    assert_eq!(profile.inclusive[&Subsystem::Interrupt], 4);
    assert_eq!(profile.inclusive.get(&Subsystem::User), None);
    let handlers =
        [("36 nvme0q1", 2), ("37 nvme0q2", 2)].map(|(name, of)| (name.to_owned(), Nanos::new(ms(of))));
    let held_off = [(Subsystem::User, 2)].into();
    let interrupts = Interrupts { held_off, unsampled: 2, handlers: handlers.into() };
    assert_eq!(profile.interrupts, Some(interrupts));
}

#[test]
fn a_ring_of_parents_ends() {
    let mut file = recording();
    file.fork(0, 100, 41, 40);
    file.fork(0, 100, 40, 41);
    file.stack(0, 120, 40, &[]);
    assert_eq!(profile(&mut file).samples[&(Role::Other, Subsystem::User)], 1);
}
