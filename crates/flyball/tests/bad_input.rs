//! What a careless or hostile user types: a clear error, the documented exit code, nothing touched.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::{Place, SMALL};

#[test]
fn a_wrong_command_names_the_nearest_one() {
    let error = Place::new().fails(2, &["inspekt"]);
    assert!(error.contains("inspect"), "{error}");
}

#[test]
fn a_study_that_does_not_exist_is_named() {
    let place = Place::new();
    let error = place.fails(2, &["run", "nothing.toml"]);
    assert!(error.contains("nothing.toml"), "{error}");
    assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
}

#[test]
fn an_unknown_key_is_shown_with_its_line_and_the_nearest_known_one() {
    let place = Place::new();
    let study = place.study("typo", &SMALL.replace("repeats", "repeat"));
    let error = place.fails(2, &["run", &study]);
    assert!(error.contains("repeats"), "{error}");
    assert!(error.contains("typo.toml:22:1") || error.contains("typo.toml:23:1"), "{error}");
    assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
}

#[test]
fn every_mistake_of_a_study_is_shown_at_once() {
    let place = Place::new();
    let study =
        place.study("typos", &SMALL.replace("repeats", "repeat").replace("tool = \"dd\"", "tool = \"ddd\""));
    let error = place.fails(2, &["run", &study]);
    assert!(error.contains("repeat") && error.contains("ddd"), "{error}");
}

#[test]
fn a_file_that_cannot_be_imported_says_why_and_what_to_do() {
    let place = Place::new();
    std::fs::write(place.path("empty.json"), "").unwrap();
    std::fs::create_dir(place.path("folder")).unwrap();
    for (file, why, what_to_do) in [
        ("nofile.json", "No such file", "`ls .`"),
        ("no/file.json", "No such file", "the folder `no` is not there either"),
        ("empty.json/file", "Not a directory", "`empty.json` is a file and no folder"),
        ("folder", "it is a folder", "name the files in it"),
        ("empty.json", "it is empty", "run the tool again"),
        ("/dev/zero", "it is a device", "name the file that its output went to"),
    ] {
        let error = place.fails(1, &["import", file]);
        assert!(error.contains(&format!("cannot import `{file}`: ")), "{error}");
        assert!(error.contains(why) && error.contains(what_to_do), "{file}: {error}");
        assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
    }
}

/// Faults of the file, of a tool's options and of settings, each in another part; what could be read of it.
const FAULTY: &str = r#"name = "faulty"
question = "q"
[target]
file = "4MiB"
[workload.a]
tool = "fio"
options = { rw = "randraed", bs = "4kk", runtim = "1s" }
[workload.b]
tool = "fioo"
[workload.c]
tool = "fio"
options = { rw = "read", size = "8m" }
[settings]
govenor = "performance"
"vm.dirty_ratioo" = 20
scheduler = "mq-dedline"
[factor.depth]
option = "iodepth"
levels = [1, "deep"]
workloads = ["a"]
[factor.threshold]
setting = "ondemand.up_treshold"
levels = [80, 95]
[mesure]
repeat = 3
"#;

#[test]
fn mistakes_of_every_kind_in_every_part_are_shown_in_one_go() {
    let place = Place::new();
    let study = place.study("faulty", FAULTY);
    for arguments in [&["run", &study][..], &["run", &study, "--dry-run"], &["run", &study, "--on", "sim"]] {
        let error = place.fails(2, arguments);
        for said in [
            ":1:1: `flyball`: missing; write `flyball = 1`",
            ":7:13: `workload.a.options.rw`: is `randraed`; write one of `read`",
            ":7:30: `workload.a.options.bs`: is `4kk`; write a size such as `4k`",
            "`workload.a.options.runtim`: is no option of fio that a study can set; did you mean `runtime`?",
            ":9:8: `workload.b.tool`: there is no tool `fioo`",
            ":12:1: `workload.c.options`: in the cell `c_80`, fio would go up to 8 MiB",
            ":14:1: `settings.govenor`: there is no setting `govenor`; did you mean `governor`?",
            ":15:1: `settings.\"vm.dirty_ratioo\"`: there is no sysctl `vm.dirty_ratioo`",
            ":16:13: `settings.scheduler`: cannot set `scheduler` to `mq-dedline`",
            "`iodepth` is `deep`; write a number",
            ":22:1: `factor.threshold.setting`: there is no setting `ondemand.up_treshold`",
            ":24:2: `mesure`: unknown key; did you mean `measure`?",
            ":25:1: `measure.repeat`: unknown key; did you mean `repeats`?",
        ] {
            assert_eq!(error.matches(said).count(), 1, "{said}\n{error}");
        }
        assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
    }
}

#[test]
fn a_tunable_that_no_kernel_is_known_to_have_ends_it_before_the_first_trial() {
    let place = Place::new();
    for (setting, value, meant) in [
        ("ondemand.up_treshold", "95", "`ondemand.up_threshold`"),
        ("iosched.read_expir", "100", "`iosched.read_expire`"),
        ("mq-deadline.read_expir", "100", "`iosched.read_expire`"),
        ("governor", "performence", "`performance`"),
    ] {
        let text =
            SMALL.replace("[measure]", &format!("[settings]\n\"{setting}\" = \"{value}\"\n\n[measure]"));
        let study = place.study("misspelt", &text);
        for arguments in [&["run", &study][..], &["run", &study, "--dry-run"]] {
            let error = place.fails(2, arguments);
            assert!(error.contains(&format!("did you mean {meant}?")), "{error}");
        }
        assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
    }
}

#[test]
fn what_only_the_lab_has_is_refused_on_a_host_before_anything_is_made() {
    let place = Place::new();
    let device = SMALL.replace("file = \"4MiB\"", "device = \"/dev/null\"");
    let energy =
        SMALL.replace("[measure]", "[lab]\npstates = \"xeon\"\n[measure]\nmetric = \"energy_modelled\"");
    for (text, why) in [(device, "`/dev/null`"), (energy, "`energy_modelled`")] {
        let study = place.study("labs", &text);
        for arguments in [&["run", &study][..], &["run", &study, "--dry-run"]] {
            let error = place.fails(2, arguments);
            assert!(error.contains(why) && error.contains("flyball lab run"), "{error}");
        }
        assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
    }
}

#[test]
fn a_database_is_shown_before_it_is_made_and_simulated() {
    let place = Place::new();
    let text = r#"
flyball = 1
name = "oltp"
question = "Is a transaction of one statement sooner done?"

[workload.database]
tool = "sysbench"
options = { threads = 4, time = 1, duty_cycle = "10%", period = "100ms", network_delay = "25us" }

[factor.test]
option = "test"
levels = ["oltp_read_only", "oltp_point_select"]

[sim]
machine = "xeon-e5-pstate"

[measure]
metric = "transactions"
repeats = 2
"#;
    let study = place.study("oltp", text);
    let shown = place.measure(&["run", &study, "--dry-run"]);
    assert!(
        shown.contains("makes a database server of its own") && shown.contains("--burst-us=10000"),
        "{shown}"
    );
    assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
    // Writing needs a log on a disk, and this machine has none.
    let writes = place.study("writes", &text.replace("oltp_point_select", "oltp_read_write"));
    let shown = place.measure(&["run", &writes, "--on", "sim", "--dry-run"]);
    assert!(shown.contains("has no disk for it"), "{shown}");
    place.measure(&["run", &study, "--on", "sim"]);
    assert_eq!(place.trials().len(), 4);
}

#[test]
fn an_option_that_would_write_elsewhere_is_refused() {
    let place = Place::new();
    let text = SMALL
        .replace("tool = \"dd\"", "tool = \"fio\"")
        .replace("direction = \"read\"", "rw = \"write\", filename = \"/dev/null\"");
    let error = place.fails(2, &["run", &place.study("elsewhere", &text)]);
    assert!(error.contains("filename"), "{error}");
}

#[test]
fn a_workload_that_fails_is_kept_as_failed_and_the_rest_is_measured() {
    let place = Place::new();
    let text = SMALL.replace(
        "[measure]",
        "[workload.broken]\ntool = \"fio\"\noptions = { rw = \"read\", buffer_pattern = \"sideways\" }\n\n[measure]",
    );
    let output = place.output(&["run", &place.study("broken", &text)]);
    assert_eq!(output.status.code(), Some(3), "{}", support::stderr(&output));
    assert!(support::stderr(&output).contains("sideways"), "{}", support::stderr(&output));
    // A busy machine disturbs some, which are made again.
    let first = |t: &&String| t.ends_with(".a0") && (t.contains("read_") || t.contains("write_"));
    assert_eq!(place.trials().iter().filter(first).count(), 12);
}

#[test]
fn a_run_that_nobody_measured_is_named_with_what_there_is() {
    let place = Place::new();
    place.measure(&["run", &place.study("small", SMALL)]);
    let error = place.fails(1, &["show", "smell"]);
    assert!(error.contains("smell") && error.contains("small"), "{error}");
    let error = place.fails(1, &["show", "small", "b99.read_4k.a0"]);
    assert!(error.contains("no trial `b99.read_4k.a0`"), "{error}");
    let error = place.fails(1, &["compare", "small"]);
    assert!(error.contains("no run of the study `small` is older"), "{error}");
    let output = place.output(&["list", "smell"]);
    assert!(output.stdout.is_empty() && support::stderr(&output).contains("smell"), "{output:?}");
}

#[test]
fn a_folder_that_is_no_notebook_is_not_written_to() {
    let place = Place::new();
    let folder = place.path("mine");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("thesis.txt"), "years of work").unwrap();
    let study = place.study("small", SMALL);
    let error = place.fails(1, &["--notebook", folder.to_str().unwrap(), "run", &study]);
    assert!(error.contains("notebook"), "{error}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn the_reader_of_a_pipe_may_leave() {
    let place = Place::new();
    place.measure(&["run", &place.study("small", SMALL)]);
    let script = format!("'{}' export small --format json | head -c 10", env!("CARGO_BIN_EXE_flyball"));
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("FLYBALL_NOTEBOOK", place.path("notebook"))
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{}", support::stderr(&output));
}

#[test]
fn an_option_that_its_tool_cannot_take_ends_it_before_anything_is_made() {
    let place = Place::new();
    let study = place.study("banana", &SMALL.replace("256k", "banana"));
    let error = place.fails(2, &["run", &study]);
    assert!(error.contains("banana"), "{error}");
    assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
}

#[test]
fn a_setting_that_no_machine_has_ends_it_before_anything_is_made() {
    let place = Place::new();
    let text = SMALL.replace("[measure]", "[settings]\nread_ahead_kbb = 3\n\n[measure]");
    let error = place.fails(2, &["run", &place.study("misspelt", &text)]);
    assert!(error.contains("read_ahead_kbb") && error.contains("`read_ahead_kb`"), "{error}");
    assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
}

#[test]
fn without_root_a_study_that_needs_it_says_so_before_anything_is_made() {
    if !support::is_root() {
        eprintln!("skipped: needs root, to become somebody who is not");
        return;
    }
    let place = Place::new();
    let study = place.study("loop", &SMALL.replace("file =", "loop ="));
    // Another user has to reach the program, the study and the folders.
    let folder = place.folder.path();
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let program = folder.join("flyball");
    std::fs::copy(env!("CARGO_BIN_EXE_flyball"), &program).unwrap();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["run", &study])
        .env("FLYBALL_NOTEBOOK", place.path("notebook"))
        .env("FLYBALL_STATE", place.path("state"))
        .env("FLYBALL_RUN", place.path("."))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", support::stderr(&output));
    assert!(
        support::stderr(&output).contains("needs root: it makes a loop device"),
        "{}",
        support::stderr(&output)
    );
    assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
    assert!(!place.path("state").exists(), "a state folder was made for nothing");
}

#[test]
fn a_target_that_is_gone_ends_the_run_and_the_next_one_goes_on() {
    let place = Place::new();
    let script = format!("rm -f '{}'; echo {{x}}", place.path("notebook/work/target").display());
    let text = format!(
        "flyball = 1\nname = \"gone\"\nquestion = \"Q?\"\n[target]\nfile = \"1MiB\"\n[workload.rm]\ntool = \"command\"\n\
         argv = [\"sh\", \"-c\", \"{script}\"]\n[factor.x]\nlevels = [1, 2, 3]\n[measure]\nmetric = \"elapsed\"\nrepeats = 2\n"
    );
    let study = place.study("gone", &text);
    let error = place.fails(1, &["run", &study]);
    assert!(error.contains("cannot go on") && error.contains("target"), "{error}");
    assert_eq!(place.trials().len(), 1, "trials were run on a target that is gone");
    place.fails(1, &["run", &study]);
    assert_eq!(place.trials().len(), 2);
}

#[test]
fn a_recorded_command_that_a_signal_ends_gives_the_code_of_a_shell() {
    let place = Place::new();
    place.fails(137, &["record", "--", "sh", "-c", "kill -9 $$"]);
    place.fails(7, &["record", "--", "sh", "-c", "exit 7"]);
}

#[test]
fn a_study_without_end_is_refused() {
    let error = Place::new().fails(2, &["run", "/dev/zero"]);
    assert!(error.contains("/dev/zero"), "{error}");
}

/// The folder of the first trial.
fn first_trial(place: &Place) -> std::path::PathBuf {
    let run = std::fs::read_dir(place.path("notebook/runs")).unwrap().next().unwrap().unwrap().path();
    run.join("trials").join(&place.trials()[0])
}

#[test]
fn a_torn_trial_does_not_keep_a_run_from_going_on() {
    let place = Place::new();
    let study = place.study("small", &SMALL.replace("repeats = [3, 3]", "repeats = [30, 30]"));
    let mut child = place.spawn(&["run", &study]);
    support::wait_until("a trial is there", || !place.trials().is_empty());
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let torn = first_trial(&place).join("trial.json");
    let text = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &text[..text.len() / 2]).unwrap();
    let before = place.trials().len();
    let mut child = place.spawn(&["run", &study]);
    support::wait_until("the run goes on", || {
        place.trials().len() > before + 1 || child.try_wait().unwrap().is_some()
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read(&torn).unwrap().len(), text.len() / 2, "a damaged trial was written to");
}

#[test]
fn a_torn_trace_is_told_and_the_page_is_written_without_it() {
    let place = Place::new();
    place.measure(&["run", &place.study("small", SMALL)]);
    // Of all of them: a trial that other load disturbed is not drawn.
    let trials = first_trial(&place).parent().unwrap().to_owned();
    for trial in place.trials() {
        std::fs::write(trials.join(trial).join("trace.parquet"), "PAR1 and nothing").unwrap();
    }
    let page = place.path("page.html");
    let output = place.output(&["report", "small", "--out", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", support::stderr(&output));
    assert!(support::stderr(&output).contains("is not drawn"), "{}", support::stderr(&output));
    assert!(page.exists());
}

#[test]
fn a_word_that_means_nothing_is_told_with_what_to_do() {
    let place = Place::new();
    std::fs::write(place.path("binary"), [0xff, 0xfe, 0, 1]).unwrap();
    std::fs::write(place.path("file"), "").unwrap();
    for (code, arguments, why, what_to_do) in [
        (2, &["settings", "/nope"][..], "none that is named so", "a setting's path begins with /sys/"),
        (2, &["settings", "/proc/sys/vm"], "none that is named so", "`flyball settings vm` lists"),
        (2, &["settings", "vm.swapiness"], "none that is named so", "did you mean `vm.swappiness`?"),
        (2, &["settings", "/sys/nope"], "none that is named so", "`flyball settings` lists the names"),
        (2, &["settings", "nope"], "there is no setting `nope`", "`flyball settings` lists them"),
        (2, &["settings", "vm.swappiness@x"], "no object `x`", "`flyball settings vm.swappiness` lists"),
        (2, &["run", "binary"], "not UTF-8", "`flyball new` writes one"),
        (2, &["record", "--", "/nope/program"], "nothing was recorded", "name a program by its path"),
        (1, &["inspect", "--root", "file"], "holds neither", "name a folder"),
        (1, &["man", "file"], "cannot", "name a"),
        (1, &["man", "file/below"], "cannot", "name a"),
    ] {
        let error = place.fails(code, arguments);
        assert!(error.contains(why) && error.contains(what_to_do), "{arguments:?}: {error}");
    }
}

#[test]
fn an_error_is_text_on_standard_error_with_json_too() {
    let place = Place::new();
    for (code, arguments) in [
        (2, &["run", "nope"][..]),
        (1, &["show", "nope"]),
        (1, &["explain", "nope"]),
        (1, &["replay", "nope"]),
        (1, &["compare", "nope", "neither"]),
        (1, &["inspect", "--root", "nope"]),
        (2, &["settings", "nope"]),
        (1, &["import", "nope"]),
        (2, &["record", "--", "/nope/program"]),
        (2, &["claim", "/nope"]),
        (2, &["tune", "nope"]),
        (2, &["rm", "nope"]),
        (2, &["list", "--nope"]),
    ] {
        let output = place.output(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", support::stderr(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
        assert!(support::stderr(&output).starts_with("error: "), "{arguments:?}");
    }
}

#[test]
fn restore_speaks_json_too() {
    let text = Place::new().ok(&["restore", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(value["schema"].is_number() && value["restored"].is_array(), "{text}");
}

#[test]
fn an_unknown_option_gets_no_advice_that_leads_nowhere() {
    let place = Place::new();
    let told = |arguments: &[&str]| {
        let output = place.output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        support::stderr(&output)
    };
    let unknown = told(&["list", "--bogus"]);
    assert!(
        unknown.contains("unexpected argument '--bogus'") && !unknown.contains("as a value"),
        "{unknown}"
    );
    let misspelt = told(&["list", "--jsno"]);
    assert!(misspelt.contains("a similar argument exists: '--json'"), "{misspelt}");
}
