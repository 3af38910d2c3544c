//! What Flyball promises: one sentence each, the tests that show it, and how many tries are wanted.
//!
//! A test prints its figure as `promise ID: N tried, M broken; WORDS` (`testing::promise`). Where several
//! tests show one promise, or one test prints several lines, what was tried is added up.

/// One promise.
pub struct Promise {
    pub id: &'static str,
    pub section: &'static str,
    pub sentence: &'static str,
    pub shown_by: Shown,
    /// How many tries the project wants behind it.
    pub wanted: u64,
    /// What is counted.
    pub unit: &'static str,
}

/// What shows a promise.
#[derive(Clone, Copy)]
pub enum Shown {
    /// Tests: a file and a function each.
    Tests(&'static [(&'static str, &'static str)]),
    /// `cargo xtask fuzz all`, whose CPU time is kept in an account.
    Fuzzing,
}

/// The sections of the document, in its order, with what stands at their heads.
pub const SECTIONS: [(&str, &str); 5] = [
    (
        "Settings",
        "What Flyball changes of a machine (sysctls, files of sysfs, loop devices, arrays, mappings, mounts, files), it puts back.",
    ),
    ("Data", "What is on a disk or in a file, and was not given to Flyball, is not written."),
    ("Results", "A trial that was measured is there once and whole, or not at all."),
    ("Imports", "Files of other tools may hold anything."),
    ("Lab", "Lab machines are QEMU's, started by an ordinary user's or root's Flyball."),
];

/// What is not promised, one paragraph each.
pub const NOT_PROMISED: [&str; 7] = [
    "A workload does what its study says. A command of a study runs as whoever started Flyball; Flyball does not confine it.",
    "A claimed disk is overwritten. That is what claiming it means.",
    "Nobody is protected from a root user of the same machine who wants Flyball to fail. What somebody else writes to a setting \
     meanwhile is left and reported, and not fought over.",
    "A kernel that hangs or crashes in a driver while Flyball uses it. After the restart the next start of Flyball, or its boot \
     service, undoes what the restart has not undone by itself.",
    "A disk that acknowledges a flush and loses the data all the same.",
    "That a figure is right because it was measured. A trial tells what disturbed it, as far as Flyball looks.",
    "Fuzzing, kills and power cuts are samples: a figure of none broken says how often it was tried, and no more.",
];

const KILL: &str = "crates/machine/tests/kill.rs";
const DEATH: &str = "crates/machine/tests/death.rs";
const LASTING: &str = "crates/machine/tests/lasting.rs";

const EXISTING_SERVER: &str = "crates/flyball/tests/existing_server.rs";
const WATCHED_SERVER: &str = "crates/flyball/tests/watched_server.rs";

/// All of them, in the order of their sections.
pub const PROMISES: &[Promise] = &[
    Promise {
        id: "modelled-kills",
        section: "Settings",
        sentence: "Killed at any operation on a machine's files, Flyball leaves nothing changed once it has recovered.",
        shown_by: Shown::Tests(&[
            (DEATH, "dying_at_any_operation_leaves_nothing_changed"),
            (DEATH, "random_machines_with_random_settings_are_as_before_wherever_the_program_dies"),
            (LASTING, "dying_at_any_operation_leaves_nothing_or_a_complete_lasting_change"),
            (LASTING, "dying_at_any_operation_of_a_second_order_leaves_the_first_or_both"),
            (LASTING, "dying_at_any_operation_of_taking_back_leaves_all_or_nothing_of_it"),
            (LASTING, "random_orders_that_die_anywhere_are_taken_back_whole"),
        ]),
        wanted: 10_000,
        unit: "kills on modelled machines",
    },
    Promise {
        id: "modelled-kills-in-recovery",
        section: "Settings",
        sentence: "Killed again at any operation of that recovery, it leaves nothing once the next one has ended.",
        shown_by: Shown::Tests(&[
            (DEATH, "dying_again_at_any_operation_of_the_recovery_leaves_nothing_changed"),
            (
                "crates/machine/tests/death_of_stacks.rs",
                "dying_at_any_operation_of_the_recovery_leaves_nothing_of_any_stack",
            ),
        ]),
        wanted: 5_000,
        unit: "kills on modelled machines during recovery",
    },
    Promise {
        id: "real-kills",
        section: "Settings",
        sentence: "Killed at any moment on a real machine, alone, with its process group or with its supervisor, it leaves no \
                   setting, mount, loop device, file or process behind once it is recovered from.",
        shown_by: Shown::Tests(&[(
            KILL,
            "what_is_killed_at_any_moment_and_again_while_it_recovers_leaves_nothing",
        )]),
        wanted: 1_000,
        unit: "kills of real processes",
    },
    Promise {
        id: "real-kills-in-recovery",
        section: "Settings",
        sentence: "The same holds where the recovery is killed too.",
        shown_by: Shown::Tests(&[(
            KILL,
            "what_is_killed_at_any_moment_and_again_while_it_recovers_leaves_nothing",
        )]),
        wanted: 500,
        unit: "kills of real recoveries",
    },
    Promise {
        id: "killed-tune",
        section: "Settings",
        sentence: "`flyball tune --persist` and `--undo`, killed at any moment, leave all of a lasting change or nothing of it.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/lasting.rs",
            "kill_9_leaves_nothing_or_a_complete_lasting_change",
        )]),
        wanted: 500,
        unit: "kills of `flyball tune`",
    },
    Promise {
        id: "lab-kills",
        section: "Settings",
        sentence: "Killed while it builds md arrays, LUKS and plain encryption, volumes and filesystems, the whole program leaves \
                   none of them, and loses and doubles no trial.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/lab_kills.rs",
            "killed_at_any_moment_in_the_lab_nothing_is_left_and_no_trial_is_lost_or_doubled",
        )]),
        wanted: 150,
        unit: "kills in a lab machine",
    },
    Promise {
        id: "lab-tune",
        section: "Settings",
        sentence: "In a lab machine, with its own `/etc`, `flyball tune --persist` and `--undo` leave all or nothing too.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/lab_kills.rs",
            "tune_killed_at_any_moment_in_the_lab_leaves_all_or_nothing",
        )]),
        wanted: 100,
        unit: "kills of `flyball tune` in a lab machine",
    },
    Promise {
        id: "foreign-writes",
        section: "Settings",
        sentence: "What somebody else writes to a setting while Flyball holds it is left and reported, and all else is put back.",
        shown_by: Shown::Tests(&[(KILL, "a_foreign_write_is_left_and_reported")]),
        wanted: 1_000,
        unit: "foreign writes",
    },
    Promise {
        id: "failing-calls",
        section: "Settings",
        sentence: "Where the kernel fails any one write, flush, rename or truncation of a run, Flyball ends with an error or goes \
                   on; nothing is left changed, no trial is torn, and the run can be gone on with.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/failing_calls.rs",
            "whichever_call_fails_nothing_is_left_and_no_trial_is_torn",
        )]),
        wanted: 300,
        unit: "failed system calls",
    },
    Promise {
        id: "occupied-states",
        section: "Data",
        sentence: "No verb writes to a disk that is in use or holds something, unless it was claimed for just that.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/lab_claims.rs",
            "no_verb_overwrites_a_disk_that_is_in_use_or_holds_something",
        )]),
        wanted: 40,
        unit: "occupied states, each met by every verb",
    },
    Promise {
        id: "swapped-files",
        section: "Data",
        sentence: "A file of Flyball's own that somebody exchanges for a link at any moment, again and again, leads it nowhere else.",
        shown_by: Shown::Tests(&[(
            "crates/files/tests/swaps.rs",
            "whatever_a_name_means_at_any_moment_nothing_is_written_through_a_link",
        )]),
        wanted: 1_000,
        unit: "exchanges under a writer",
    },
    Promise {
        id: "swapped-folders",
        section: "Data",
        sentence: "A folder that root writes to, exchanged for a link to another at any moment of a run, leads nothing into that one.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/hostile_place.rs",
            "a_folder_that_is_exchanged_for_a_link_during_a_run_leads_nothing_elsewhere",
        )]),
        wanted: 1_000,
        unit: "exchanges while Flyball plans and runs",
    },
    Promise {
        id: "foreign-databases",
        section: "Data",
        sentence: "Of a database server that is somebody's nothing is written but a database of Flyball's own, and that is dropped \
                   whatever ends the run.",
        shown_by: Shown::Tests(&[
            (EXISTING_SERVER, "postgresql_is_measured_in_a_database_of_its_own"),
            (EXISTING_SERVER, "mariadb_is_measured_in_a_database_of_its_own"),
            (EXISTING_SERVER, "a_killed_run_leaves_no_database_in_postgresql"),
            (EXISTING_SERVER, "a_killed_run_leaves_no_database_in_mariadb"),
        ]),
        wanted: 10,
        unit: "runs at real servers, each compared with a dump of before",
    },
    Promise {
        id: "passwords",
        section: "Data",
        sentence: "The password of a server stands in no file of Flyball's, and in no process's arguments.",
        shown_by: Shown::Tests(&[
            (EXISTING_SERVER, "postgresql_is_measured_in_a_database_of_its_own"),
            (EXISTING_SERVER, "mariadb_is_measured_in_a_database_of_its_own"),
            (WATCHED_SERVER, "what_flyball_asks_of_postgresql_does_not_count"),
            (WATCHED_SERVER, "what_flyball_asks_of_mariadb_does_not_count"),
        ]),
        wanted: 4,
        unit: "runs and recordings with a password",
    },
    Promise {
        id: "watched-servers",
        section: "Data",
        sentence: "Nothing is changed in a server that is watched, and what Flyball asks of it is in none of its rates.",
        shown_by: Shown::Tests(&[
            (WATCHED_SERVER, "what_flyball_asks_of_postgresql_does_not_count"),
            (WATCHED_SERVER, "what_flyball_asks_of_mariadb_does_not_count"),
        ]),
        wanted: 2,
        unit: "recordings of idle servers, each compared with a dump of before",
    },
    Promise {
        id: "dry-run",
        section: "Data",
        sentence: "A dry run opens nothing for writing, and makes, renames and removes nothing, but its own output.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/dry_run.rs",
            "a_dry_run_writes_nothing_but_its_output",
        )]),
        wanted: 5,
        unit: "commands under strace",
    },
    Promise {
        id: "killed-runs",
        section: "Results",
        sentence: "A run that is killed at any moment, and gone on with, loses no trial, changes none and has none twice.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/kills.rs",
            "killed_at_any_moment_and_again_while_it_recovers_it_leaves_nothing_and_loses_and_doubles_no_trial",
        )]),
        wanted: 160,
        unit: "kills of the whole program",
    },
    Promise {
        id: "killed-notebooks",
        section: "Results",
        sentence: "A process that is killed while it writes to a notebook leaves each trial whole or not there.",
        shown_by: Shown::Tests(&[(
            "crates/notebook/tests/processes.rs",
            "kill_9_at_any_moment_leaves_a_trial_whole_or_not_at_all",
        )]),
        wanted: 1_000,
        unit: "kills of a writer",
    },
    Promise {
        id: "power-cuts",
        section: "Results",
        sentence: "A trial that was acknowledged, by the next one having begun, outlives a power cut, and what was changed is undone.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/lab_power.rs",
            "power_cuts_lose_nothing_that_was_acknowledged_and_leave_nothing_changed",
        )]),
        wanted: 100,
        unit: "power cuts of a lab machine",
    },
    Promise {
        id: "server-restarts",
        section: "Results",
        sentence: "No rate of a watched server is computed across a restart of it, and the restart is told.",
        shown_by: Shown::Tests(&[
            (WATCHED_SERVER, "no_rate_is_computed_across_a_restart_of_postgresql"),
            (WATCHED_SERVER, "no_rate_is_computed_across_a_restart_of_mariadb"),
        ]),
        wanted: 2,
        unit: "restarts of watched servers",
    },
    Promise {
        id: "broken-notebooks",
        section: "Results",
        sentence: "A notebook that is damaged is told and read as far as it is whole; no verb crashes, hangs or harms it.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/broken_files.rs",
            "a_broken_notebook_is_told_and_harms_nothing_else",
        )]),
        wanted: 31,
        unit: "broken notebooks, each met by every verb that reads one",
    },
    Promise {
        id: "fuzzing",
        section: "Imports",
        sentence: "No file makes a reader of `flyball import` crash, take more than 2 s of CPU time for 64 KiB, or read \
                   differently twice.",
        shown_by: Shown::Fuzzing,
        wanted: 6 * 3600,
        unit: "seconds of CPU time, fuzzing",
    },
    Promise {
        id: "kept-inputs",
        section: "Imports",
        sentence: "Each damaged file that ever led a reader to something new is read again with every run of the tests.",
        shown_by: Shown::Tests(&[(
            "crates/parse/tests/corpus.rs",
            "what_the_fuzzer_kept_makes_no_reader_panic",
        )]),
        wanted: 100,
        unit: "kept files",
    },
    Promise {
        id: "hostile-files",
        section: "Imports",
        sentence: "A file that is hostile, where a study, a machine, a recording or an import is expected, is refused or read; \
                   Flyball neither crashes nor hangs, and leaves nothing.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/broken_files.rs",
            "a_hostile_file_is_refused_or_read_and_leaves_nothing",
        )]),
        wanted: 30,
        unit: "hostile files, each met by every verb that reads such",
    },
    Promise {
        id: "nothing-hangs",
        section: "Imports",
        sentence: "A pipe, a socket, a device or a folder in the place of any file of a notebook, a state folder or a study holds no \
                   command up.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/hostile_place.rs",
            "a_pipe_a_socket_or_a_device_in_the_place_of_any_file_holds_nothing_up",
        )]),
        wanted: 200,
        unit: "commands",
    },
    Promise {
        id: "inert-text",
        section: "Imports",
        sentence: "Text of others that would steer a terminal, forge a line, run in a page or be computed by a spreadsheet is inert in \
                   all that Flyball prints and writes.",
        shown_by: Shown::Tests(&[
            ("crates/flyball/tests/inert_text.rs", "a_foreign_notebook_is_inert_in_every_form"),
            (
                "crates/flyball/tests/inert_text.rs",
                "foreign_files_are_inert_from_their_names_to_their_reports",
            ),
            ("crates/flyball/tests/inert_text.rs", "a_study_is_inert_before_it_is_run"),
        ]),
        wanted: 200,
        unit: "payloads, each in every text field",
    },
    Promise {
        id: "lab-ends",
        section: "Lab",
        sentence: "However its Flyball, its QEMU or its command ends, a lab machine leaves no process.",
        shown_by: Shown::Tests(&[(
            "crates/flyball/tests/lab_faults.rs",
            "a_killed_flyball_takes_its_machine_with_it",
        )]),
        wanted: 20,
        unit: "killed Flyballs",
    },
];
