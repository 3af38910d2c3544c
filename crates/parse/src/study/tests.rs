use super::*;
use domain::database::Address;
use domain::outcome::Better;
use domain::plan::Plan;
use domain::rng::Seed;
use domain::study::{Measure, Tool, Until};
use domain::time::Nanos;
use domain::units::Unit;
use expect_test::{Expect, expect};
use proptest::prelude::*;

/// The least that is a study; line 5 is where a test goes on.
const HEAD: &str = "flyball = 1\nname = \"s\"\nquestion = \"q\"\ntarget.file = \"1MiB\"\n";
const FIO: &str = "[workload.w]\ntool = \"fio\"\noptions = { rw = \"read\" }\n";

fn check(text: &str, expected: Expect) {
    let errors = parse(text).expect_err("this study is wrong");
    expected.assert_eq(&format!("{errors}\n").replace(&workloads::in_words(), "TOOLS"));
}

fn check_after_head(text: &str, expected: Expect) {
    check(&format!("{HEAD}{text}"), expected);
}

fn study(text: &str) -> Study {
    parse(&format!("{HEAD}{text}")).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_least_study_takes_every_default() {
    let study = study(FIO);
    assert_eq!(study.measure, Measure::default());
    assert_eq!(study.target, Target::File(Bytes::from_mib(1)));
    assert_eq!((study.workloads.len(), study.factors.len(), study.settings.len()), (1, 0, 0));
}

#[test]
fn workloads_and_factors_keep_the_order_of_the_file() {
    let study = study(
        "[factor.z]\noption = \"bs\"\nlevels = [\"64k\", 4096]\n[workload.b]\ntool = \"fio\"\n[workload.a]\ntool = \"dd\"\n[factor.a]\nsetting = \"vm.dirty_ratio\"\nlevels = [20, 5]\n",
    );
    let names: Vec<&str> = study.workloads.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["b", "a"]);
    let factors: Vec<&str> = study.factors.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(factors, ["z", "a"]);
    assert_eq!(study.factors[0].levels[1].options["bs"], "4096");
    assert_eq!(study.factors[1].levels[0].settings[0].to_string(), "vm.dirty_ratio = 20");
}

#[test]
fn a_boolean_is_one_or_zero_to_tools_and_a_word_to_people() {
    let study = study(&format!("{FIO}[factor.direct]\noption = \"direct\"\nlevels = [false, true]\n"));
    let level = &study.factors[0].levels[1];
    assert_eq!((level.name.as_str(), level.options["direct"].as_str()), ("true", "1"));
}

#[test]
fn a_bundle_changes_options_and_settings_together() {
    let study = study(&format!(
        "{FIO}[factor.policy]\n[[factor.policy.level]]\nname = \"fast\"\nsettings = {{ governor = \"performance\", \"turbo\" = true }}\n[[factor.policy.level]]\nname = \"slow\"\noptions = {{ iodepth = 1 }}\n"
    ));
    let [fast, slow] = &study.factors[0].levels[..] else { panic!("two levels") };
    let settings: Vec<String> = fast.settings.iter().map(ToString::to_string).collect();
    assert_eq!(settings, ["governor = performance", "turbo = 1"]);
    assert_eq!(slow.options["iodepth"], "1");
}

#[test]
fn a_command_has_its_metrics_and_placeholders() {
    let study = study(
        "[workload.build]\ntool = \"command\"\nargv = [\"make\", \"-j{jobs}\", \"-C\", \"{target}\", \"awk '{ print $1 }'\", \"{}\"]\n[[workload.build.metric]]\nname = \"rate\"\npattern = 'rate (\\d+)'\nunit = \"MB/s\"\nbetter = \"higher\"\n[factor.jobs]\nlevels = [1, 2]\n[measure]\nmetric = \"rate\"\n",
    );
    let Tool::Command { metrics, .. } = &study.workloads[0].tool else { panic!("a command") };
    assert_eq!((&metrics[0].unit, metrics[0].better), (&Unit::Other("MB/s".into()), Better::Higher));
    assert!(study.factors[0].levels[0].options.is_empty());
}

/// A study of a database: no target is needed.
const OLTP: &str = "flyball = 1\nname = \"s\"\nquestion = \"q\"\n[measure]\nmetric = \"transactions\"\n[workload.w]\ntool = \"sysbench\"\n";

#[test]
fn sysbench_needs_no_target_and_has_metrics_of_its_own() {
    let options = "options = { test = \"oltp_read_only\", threads = 8, \"rand-type\" = \"uniform\", duty_cycle = \"20%\" }\n";
    let study = parse(&format!("{OLTP}{options}")).unwrap();
    assert_eq!((&study.workloads[0].tool, &study.target), (&Tool::Sysbench, &Target::None));
    assert_eq!(study.workloads[0].options["threads"], "8");
    check(
        &format!("{}{options}", OLTP.replace("transactions", "throughput")),
        expect![[r#"
            line 5, column 10: `measure.metric`: `throughput` is not reported by the workload `w`, which has `transactions`, `queries`, `latency_mean`, `latency_p95`, `latency_p99`, `elapsed`, `errors`, `cpu_busy`
        "#]],
    );
}

#[test]
fn sysbench_options_are_checked_alone_and_together() {
    check(
        &format!(
            "{OLTP}options = {{ test = \"oltp_delete\", threads = 0, mysql-host = \"db\", thread = 4, time = \"10s\" }}\n"
        ),
        expect![[r#"
            line 8, column 13: `workload.w.options.test`: is `oltp_delete`; write one of `oltp_read_only`, `oltp_read_write`, `oltp_point_select`
            line 8, column 35: `workload.w.options.threads`: is `0`; write a whole number from 1 to 4096
            line 8, column 48: `workload.w.options.mysql-host`: is no option of sysbench that a study can set; see docs/STUDY-FORMAT.md and `man sysbench`
            line 8, column 67: `workload.w.options.thread`: is no option of sysbench that a study can set; did you mean `threads`?
            line 8, column 79: `workload.w.options.time`: is `10s`; write a whole number from 1 to 86400
        "#]],
    );
    check(
        &format!("{OLTP}options = {{ test = \"oltp_read_only\", period = \"1s\" }}\n"),
        expect![[r#"
        line 8, column 1: `workload.w.options`: in the cell `w`, `period` is that of bursts; add `duty_cycle = "20%"`, or take it out
    "#]],
    );
    check(
        &format!("{OLTP}[factor.threads]\noption = \"threads\"\nlevels = [1, 2]\n"),
        expect![[r#"
        line 6, column 11: `workload.w`: in the cell `w_1`, `test` is missing; write `test = "oltp_read_only"`
    "#]],
    );
    let of_a_factor =
        "[factor.test]\noption = \"test\"\nlevels = [\"oltp_read_only\", \"oltp_point_select\"]\n";
    assert!(parse(&format!("{OLTP}{of_a_factor}")).is_ok());
}

/// A study of a filesystem: the files are bonnie's own.
const BONNIE: &str = "flyball = 1\nname = \"s\"\nquestion = \"q\"\n[measure]\nmetric = \"block_write\"\n[target]\nfile = \"1MiB\"\n[workload.w]\ntool = \"bonnie\"\n";

#[test]
fn bonnie_has_metrics_for_each_phase_and_a_folder_to_write_in() {
    let options = "options = { size = \"1000MiB\", ram = \"256MiB\", chunk = \"16k\", per_char = false }\n";
    let study = parse(&format!("{BONNIE}{options}")).unwrap();
    assert_eq!((&study.workloads[0].tool, &study.workloads[0].options["per_char"][..]), (&Tool::Bonnie, "0"));
    check(
        &format!("{}{options}", BONNIE.replace("[target]\nfile = \"1MiB\"\n", "")),
        expect![[r#"
            line 6, column 11: `workload.w`: makes files beside that of the target, whose folder says where; add `[target]` with `file = "1MiB"`
        "#]],
    );
    check(
        &format!(
            "{BONNIE}options = {{ size = \"100MiB\", ram = \"256MiB\", seeker = 3, chunk = \"12k\" }}\n"
        ),
        expect![[r#"
            line 10, column 46: `workload.w.options.seeker`: is no option of bonnie that a study can set; did you mean `seekers`?
            line 10, column 58: `workload.w.options.chunk`: is `12k`; write a power of two such as `"8k"`, from 256 B to 1 MiB
        "#]],
    );
    check(
        &format!(
            "{BONNIE}options = {{ size = \"100MiB\" }}\n[factor.ram]\noption = \"ram\"\nlevels = [\"10MiB\", \"64MiB\"]\n"
        ),
        expect![[r#"
            line 10, column 1: `workload.w.options`: in the cell `w_64MiB`, `size` is 100 MiB, less than twice the memory of 64 MiB, so that much of it would stay in memory; make it larger, or `ram` smaller (0: it is not looked at)
        "#]],
    );
    check(
        &format!("{BONNIE}[stack.disk]\nkind = \"devices\"\nloop = \"64MiB\"\n"),
        expect![[r#"
            line 8, column 11: `workload.w`: makes files of its own, and in the cell `w` the stack ends in a block device; end it in a filesystem, or name the workloads of the factor that changes it
        "#]],
    );
}

#[test]
fn settings_are_the_same_with_and_without_quotes() {
    let study = study(&format!(
        "{FIO}[settings]\n\"vm.dirty_ratio\" = 20\nvm.swappiness = 0x0a\n\"read_ahead_kb@loop3\" = 128\n"
    ));
    let settings: Vec<String> = study.settings.iter().map(ToString::to_string).collect();
    assert_eq!(settings, ["vm.dirty_ratio = 20", "vm.swappiness = 10", "read_ahead_kb@loop3 = 128"]);
}

#[test]
fn every_key_of_measure_is_read() {
    let study = study(&format!(
        "{FIO}[measure]\nmetric = \"iops\"\nrepeats = 8\nuntil = \"precise\"\nprecision = 0.1\nconfidence = \"99%\"\nthreshold = 0\ndrop_caches = false\ninterval = \"100ms\"\nevents = \"power,sched\"\nevents_apart = true\ntimeout = \"1min\"\nsettle = \"0s\"\nretries = 3\nunder_load = true\n"
    ));
    let expected = Measure {
        metric: "iops".into(),
        repeats_min: 8,
        repeats_max: 8,
        until: Until::Precise,
        precision: 0.1,
        confidence: 0.99,
        threshold: 0.0,
        drop_caches: false,
        interval: Nanos::from_millis(100),
        events: Some("sched,power".parse().unwrap()),
        events_apart: true,
        timeout: Nanos::from_secs(60),
        settle: Nanos::ZERO,
        retries: 3,
        under_load: true,
    };
    assert_eq!(study.measure, expected);
}

#[test]
fn a_study_that_goes_on_until_it_is_decided_has_two_cells() {
    let two = format!("{FIO}[factor.depth]\noption = \"iodepth\"\nlevels = [1, 2]\n");
    let decided = "[measure]\nuntil = \"decided\"\n";
    assert_eq!(study(&format!("{two}{decided}")).measure.until, Until::Decided);
    check_after_head(
        &format!("{FIO}{decided}"),
        expect![[r#"
        line 9, column 9: `measure.until`: `decided` takes one workload and one factor of two levels, of which the second is held against the first; with more, write `precise`, or `best`
    "#]],
    );
    check_after_head(
        &format!("{FIO}[measure]\nuntil = \"clear\"\n"),
        expect![[r#"
        line 9, column 9: `measure.until`: is `clear`; repeats go on until a cell is `precise`, two are `decided`, the `best` of many is found, or the `front` of speed and watts
    "#]],
    );
    let best = "[measure]\nuntil = \"best\"\n";
    assert_eq!(study(&format!("{two}{best}")).measure.until, Until::Best);
    check_after_head(
        &format!("{FIO}{best}"),
        expect![[r#"
        line 9, column 9: `measure.until`: `best` takes one workload and at least one factor: cells of two workloads are no better or worse than one another
    "#]],
    );
    let front = "[measure]\nuntil = \"front\"\n";
    assert_eq!(study(&format!("{two}{front}")).measure.until, Until::Front);
    check_after_head(
        &format!("{FIO}{front}"),
        expect![[r#"
        line 9, column 9: `measure.until`: `front` takes one workload and at least one factor: cells of two workloads are no choice between speed and watts
    "#]],
    );
}

#[test]
fn an_empty_file_lacks_its_version() {
    check(
        "",
        expect![[r#"
            line 1, column 1: `flyball`: missing; write `flyball = 1`
            line 1, column 1: `name`: missing; write `name = "my-study"`
            line 1, column 1: `question`: missing; write `question = "Does … decide …?"`
            line 1, column 1: `workload`: missing; write `[workload.NAME]`
        "#]],
    );
}

#[test]
fn a_later_version_is_the_only_thing_said_of_a_file() {
    check(
        "flyball = 2\nshape = \"new\"\n",
        expect![[r#"
        line 1, column 11: `flyball`: this program reads version 1 of the study format; write `flyball = 1`, or get the flyball that reads this file
    "#]],
    );
}

#[test]
fn a_primary_factor_is_one_that_there_is() {
    let with = |primary: &str| {
        format!(
            "flyball = 1\nname = \"s\"\nquestion = \"q\"\nprimary = {primary}\ntarget.file = \"1MiB\"\n{FIO}\
             [factor.depth]\noption = \"iodepth\"\nlevels = [1, 8]\n"
        )
    };
    assert_eq!(parse(&with("\"depth\"")).unwrap().primary, ["depth"]);
    assert_eq!(parse(&with("[\"depth\"]")).unwrap().primary, ["depth"]);
    check(
        &with("\"dept\""),
        expect![[r#"
        line 4, column 11: `primary`: there is no factor `dept`; did you mean `depth`?
    "#]],
    );
    check(
        &with("[\"depth\", 1]"),
        expect![[r#"
        line 4, column 21: `primary[2]`: has to be a string, `"…"`; this is an integer
    "#]],
    );
}

#[test]
fn all_is_said_at_once_where_a_section_is_misspelt_or_the_version_missing() {
    check(
        "name = \"s\"\nquestion = \"q\"\n[targt]\nfile = \"1MiBB\"\n[worklod.w]\ntool = \"foi\"\n[factor.f]\noption = \"bs\"\nlevls = [1]\n[mesure]\nrepeats = 0\n",
        expect![[r#"
            line 1, column 1: `flyball`: missing; write `flyball = 1`
            line 3, column 2: `targt`: unknown key; did you mean `target`?
            line 4, column 8: `target.file`: is not a size; write a number and its unit, as in `"256MiB"` or `"4k"`
            line 5, column 2: `worklod`: unknown key; did you mean `workload`?
            line 6, column 8: `workload.w.tool`: there is no tool `foi`; write TOOLS
            line 7, column 9: `factor.f.levels`: missing; write `levels = ["4k", "64k"]`
            line 9, column 1: `factor.f.levls`: unknown key; did you mean `levels`?
            line 10, column 2: `mesure`: unknown key; did you mean `measure`?
            line 11, column 11: `measure.repeats`: has to be from 1 to 1000
        "#]],
    );
}

#[test]
fn a_misspelt_section_is_checked_like_the_one_that_is_meant() {
    check(
        "flybal = 1\nname = \"s\"\nquestion = \"q\"\ntarget.file = \"1MiB\"\n[workloads.w]\ntool = \"fio\"\noptions = { rw = \"read\", blcksize = 1 }\n",
        expect![[r#"
            line 1, column 1: `flybal`: unknown key; did you mean `flyball`?
            line 5, column 2: `workloads`: unknown key; did you mean `workload`?
            line 7, column 26: `workload.w.options.blcksize`: is no option of fio that a study can set; did you mean `blocksize`?
        "#]],
    );
}

#[test]
fn the_version_comes_first() {
    check(
        &format!("name = \"s\"\nflyball = 1\nquestion = \"q\"\ntarget.file = \"1MiB\"\n{FIO}"),
        expect![[r#"
            line 2, column 1: `flyball`: has to be the first key of the file, so that it can be told what the others mean
        "#]],
    );
}

#[test]
fn what_is_not_toml_is_said_for_each_line() {
    check_after_head(
        "[workload.w]\ntool = fio\noptions = { bs = 4k, rw = read }\nname = \"a\n",
        expect![[r#"
            line 6, column 8: this is neither a string, which is quoted, nor `true` or `false`; see https://toml.io for the syntax
            line 7, column 18: string values must be quoted, expected literal string; see https://toml.io for the syntax
            line 8, column 10: invalid basic string, expected `"`; see https://toml.io for the syntax
        "#]],
    );
}

#[test]
fn an_unknown_key_names_the_nearest_and_only_a_near_one() {
    check_after_head(
        "[workload.w]\ntool = \"fio\"\noptoins = { rw = \"read\" }\n[mesure]\n[measure]\nrepeat = 3\ncolour = \"red\"\n",
        expect![[r#"
            line 7, column 1: `workload.w.optoins`: unknown key; did you mean `options`?
            line 8, column 2: `mesure`: unknown key; did you mean `measure`?
            line 10, column 1: `measure.repeat`: unknown key; did you mean `repeats`?
            line 11, column 1: `measure.colour`: unknown key; known here: `metric`, `repeats`, `until`, `precision`, `confidence`, `threshold`, `drop_caches`, `interval`, `events`, `events_apart`, `timeout`, `settle`, `retries`, `under_load`
        "#]],
    );
}

#[test]
fn every_wrong_value_of_measure_is_said_at_once() {
    check_after_head(
        &format!(
            "{FIO}[measure]\nmetric = \"speed\"\nrepeats = [15, 5]\nprecision = 5\nconfidence = 1.0\nthreshold = \"two\"\ndrop_caches = \"yes\"\ninterval = \"1us\"\nevents = \"sched,tea\"\ntimeout = 10\nsettle = \"2 fortnights\"\nretries = -1\n"
        ),
        expect![[r#"
            line 10, column 11: `measure.repeats`: the least, 15, is above the most, 5; write `[5, 15]`
            line 11, column 13: `measure.precision`: is not a share; write it as `"5%"` or `0.05`
            line 12, column 14: `measure.confidence`: has to be at least 0.5 and below 1, such as `0.95`
            line 13, column 13: `measure.threshold`: is not a share; write it as `"5%"` or `0.05`
            line 14, column 15: `measure.drop_caches`: has to be `true` or `false`; this is a string
            line 15, column 12: `measure.interval`: is 1 µs; it has to be from 1 ms to 10.0 s
            line 16, column 10: `measure.events`: there is no set of events `tea`; there are default, all, power, sched, block, work, timer, lock, irq, hardirq, bios, calls, profile; or `none`
            line 17, column 11: `measure.timeout`: is not a span of time; write a number and its unit, `us`, `ms`, `s`, `min` or `h`: `"10ms"`
            line 18, column 10: `measure.settle`: is not a span of time; write a number and its unit, `us`, `ms`, `s`, `min` or `h`: `"10ms"`
            line 19, column 11: `measure.retries`: has to be from 0 to 100
        "#]],
    );
}

#[test]
fn repeats_are_bounded_in_number_and_form() {
    check_after_head(
        &format!("{FIO}[measure]\nrepeats = [0, 1001]\n"),
        expect![[r#"
        line 9, column 12: `measure.repeats[1]`: has to be from 1 to 1000
        line 9, column 15: `measure.repeats[2]`: has to be from 1 to 1000
    "#]],
    );
    check_after_head(
        &format!("{FIO}[measure]\nrepeats = [1, 2, 3]\n"),
        expect![[r#"
        line 9, column 11: `measure.repeats`: has to be `[LEAST, MOST]`, such as `[5, 15]`, or one number
    "#]],
    );
    check_after_head(
        &format!("{FIO}[measure]\nrepeats = 99999999999999999999\n"),
        expect![[r#"
        line 9, column 11: `measure.repeats`: has to be from 1 to 1000
    "#]],
    );
}

#[test]
fn a_target_is_one_size_within_bounds() {
    let with =
        |target: &str| format!("flyball = 1\nname = \"s\"\nquestion = \"q\"\n[target]\n{target}\n{FIO}");
    check(
        &with(""),
        expect![[r#"
        line 4, column 2: `target`: is empty; write `file = "256MiB"`, `loop = "256MiB"` or `read_only = "/dev/…"`, or take the table out
    "#]],
    );
    check(
        &with("file = \"1M\"\nloop = \"1M\""),
        expect![[r#"
        line 6, column 1: `target.loop`: a study has one target; take out `file` or `loop`
    "#]],
    );
    check(
        &with("file = \"0\""),
        expect![[r#"
        line 5, column 8: `target.file`: is 0 B; it has to be from 1 B to 1 TiB
    "#]],
    );
    check(
        &with("file = \"2TiB\""),
        expect![[r#"
        line 5, column 8: `target.file`: is 2 TiB; it has to be from 1 B to 1 TiB
    "#]],
    );
    check(
        &with("loop = \"10000\""),
        expect![[r#"
        line 5, column 8: `target.loop`: has to be a multiple of 4 KiB, which a loop device is made of
    "#]],
    );
    check(
        &with("file = \"big\""),
        expect![[r#"
        line 5, column 8: `target.file`: is not a size; write a number and its unit, as in `"256MiB"` or `"4k"`
    "#]],
    );
    check(
        &with("file = 4096"),
        expect![[r#"
        line 5, column 8: `target.file`: is not a size; write a number and its unit, as in `"256MiB"` or `"4k"`
    "#]],
    );
    check(
        &with("disk = \"/dev/sda\""),
        expect![[r#"
            line 5, column 1: `target.disk`: unknown key; known here: `file`, `loop`, `device`, `read_only`, `folder`, `server`, `size`, `user`, `password_file`, `database`
        "#]],
    );
}

/// A study that reads what is there, with this after its target.
fn reads(path: &str, rest: &str) -> String {
    format!("flyball = 1\nname = \"s\"\nquestion = \"q\"\ntarget.read_only = \"{path}\"\n{rest}")
}

#[test]
fn what_is_there_already_may_be_read_by_fio_dd_and_hdparm() {
    for rest in [
        FIO,
        "[workload.w]\ntool = \"fio\"\noptions = { pattern = \"4 KiB; 100% Read; 100% random\" }\n",
        "[workload.w]\ntool = \"dd\"\noptions = { bs = \"1M\", iflag = \"direct\" }\n",
        "[workload.w]\ntool = \"hdparm\"\n[measure]\nmetric = \"read_throughput\"\n",
    ] {
        let study = parse(&reads("/dev/disk/by-id/x", rest)).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(study.target, Target::ReadOnly("/dev/disk/by-id/x".into()));
    }
    for path in ["sda", "/dev/../etc/shadow", "/", "//dev/sda", "/dev/sda/"] {
        assert!(
            parse(&reads(path, FIO)).unwrap_err().to_string().contains("an absolute path, without"),
            "{path}"
        );
    }
}

#[test]
fn what_is_there_already_is_not_written() {
    check(
        &reads(
            "/dev/sda",
            "[workload.w]\ntool = \"fio\"\n[factor.rw]\noption = \"rw\"\nlevels = [\"read\", \"randwrite\"]\n",
        ),
        expect![[r#"
            line 5, column 11: `workload.w`: in the cell `w_randwrite`, on a `read_only` target: `rw = randwrite` does more than read; write `read` or `randread`
        "#]],
    );
    check(
        &reads("/dev/sda", "[workload.w]\ntool = \"fio\"\noptions = { rw = \"read\", verify = \"md5\" }\n"),
        expect![[r#"
            line 7, column 1: `workload.w.options`: in the cell `w`, on a `read_only` target: `verify` is not among the options of fio that cannot make it write; take it out
        "#]],
    );
    check(
        &reads("/dev/sda", "[workload.w]\ntool = \"fio\"\noptions = { pattern = \"File server\" }\n"),
        expect![[r#"
            line 7, column 1: `workload.w.options`: in the cell `w`, on a `read_only` target: `rw = randrw` does more than read; write `read` or `randread`
        "#]],
    );
    check(
        &reads("/dev/sda", "[workload.w]\ntool = \"dd\"\noptions = { direction = \"write\" }\n"),
        expect![[r#"
            line 7, column 1: `workload.w.options`: in the cell `w`, on a `read_only` target: `direction = write` writes to it; write `direction = "read"`
        "#]],
    );
    check(
        &reads(
            "/dev/sda",
            "[workload.w]\ntool = \"command\"\nargv = [\"cat\", \"{target}\"]\n[measure]\nmetric = \"elapsed\"\n",
        ),
        expect![[r#"
            line 5, column 11: `workload.w`: in the cell `w`, on a `read_only` target: command may write; fio, dd and hdparm can be held to reading
        "#]],
    );
    check(
        &reads(
            "/dev/sda",
            "[workload.w]\ntool = \"sysbench\"\noptions = { time = 1 }\n[measure]\nmetric = \"transactions\"\n",
        ),
        expect![[r#"
            line 7, column 1: `workload.w.options`: in the cell `w`, `test` is missing; write `test = "oltp_read_only"`
            line 7, column 1: `workload.w.options`: in the cell `w`, on a `read_only` target: sysbench may write; fio, dd and hdparm can be held to reading
        "#]],
    );
    check(
        &reads("/dev/sda", &format!("{FIO}[stack.d]\nkind = \"devices\"\nloop = \"64MiB\"\n")),
        expect![[r#"
            line 4, column 8: `target.read_only`: cannot stand beside `[stack]`, whose last layer is the target; take it out, or write `file = "64MiB"` for a file of that size in its filesystem
        "#]],
    );
}

/// A study that asks a server that is there, with this below its address.
fn asks(target: &str, rest: &str) -> String {
    format!("flyball = 1\nname = \"s\"\nquestion = \"q\"\n[target]\n{target}\n{rest}")
}

const PGBENCH: &str = "[workload.w]\ntool = \"pgbench\"\n[measure]\nmetric = \"transactions\"\n";

#[test]
fn a_server_that_is_there_is_named_by_its_address_and_user() {
    let server =
        |text: &str| match parse(&asks(text, PGBENCH)).unwrap_or_else(|errors| panic!("{errors}")).target {
            Target::Server(server) => server,
            other => panic!("{other:?}"),
        };
    let found = server(
        "server = \"127.0.0.1:5432\"\nuser = \"bench\"\npassword_file = \"/root/pw\"\ndatabase = \"app\"",
    );
    assert_eq!(found.address, Address::Tcp { host: "127.0.0.1".into(), port: 5432 });
    assert_eq!((found.user.as_deref(), found.password_file.as_deref()), (Some("bench"), Some("/root/pw")));
    assert_eq!(found.database.as_deref(), Some("app"));
    let plain = server("server = \"/run/postgresql\"");
    assert_eq!(plain.address, Address::Socket("/run/postgresql".into()));
    // The page cache is everybody's, and is dropped only where that is written.
    let drops = |rest: &str| parse(&asks("server = \"/run/postgresql\"", rest)).unwrap().measure.drop_caches;
    assert!(!drops(PGBENCH) && drops(&format!("{PGBENCH}drop_caches = true\n")));
}

#[test]
fn a_server_that_is_there_is_not_configured_and_is_asked_by_one_kind_of_client() {
    let at = "server = \"/run/postgresql\"";
    check(
        &asks("server = \"localhost:5432\"\nuser = \"-U\"\npassword_file = \"pw\"\nsize = \"1MiB\"", PGBENCH),
        expect![[r#"
            line 8, column 1: `target.size`: is the size of a file in a `folder`; write `file = "256MiB"` for one in the work folder
        "#]],
    );
    check(
        &asks("user = \"bench\"", PGBENCH),
        expect![[r#"
        line 5, column 1: `target.user`: says how a server is reached; write `server = "/run/postgresql"` beside it, or take it out
    "#]],
    );
    check(
        &asks(
            at,
            "[workload.w]\ntool = \"pgbench\"\noptions = { \"server.fsync\" = \"off\" }\n[factor.far]\noption = \"network_delay\"\n\
             levels = [\"1ms\", \"2ms\"]\n[measure]\nmetric = \"transactions\"\n",
        ),
        expect![[r#"
            line 8, column 13: `workload.w.options."server.fsync"`: is for a server of Flyball's own; that of `[target] server` runs already, and is neither configured nor moved; take it out, or take `[target]` out
            line 9, column 9: `factor.far`: is for a server of Flyball's own; that of `[target] server` runs already, and is neither configured nor moved; take it out, or take `[target]` out
        "#]],
    );
    check(
        &asks(
            at,
            "[workload.a]\ntool = \"pgbench\"\n[workload.b]\ntool = \"sysbench\"\noptions = { test = \"oltp_read_only\" }\n\
             [measure]\nmetric = \"transactions\"\n",
        ),
        expect![[r#"
            line 5, column 1: `target.server`: is one server, and the workloads ask MariaDB and PostgreSQL; ask one of them (`server = "postgresql"` in sysbench's `options`)
        "#]],
    );
    check(
        &asks(
            "server = \"/run/m.sock\"\ndatabase = \"x\"",
            "[workload.b]\ntool = \"sysbench\"\noptions = { test = \"oltp_read_only\" }\n[measure]\nmetric = \"transactions\"\n",
        ),
        expect![[r#"
            line 6, column 1: `target.database`: is where PostgreSQL's clients connect first, and no workload asks PostgreSQL; take it out
        "#]],
    );
    check(
        &asks(at, FIO),
        expect![[r#"
        line 5, column 1: `target.server`: is asked by no workload; write one with `tool = "sysbench"` or `tool = "pgbench"`
        line 6, column 11: `workload.w`: fio reads or writes a file or a device, and a `server` has tables; write a study of its own with `file`, `folder` or `read_only` under `[target]`
    "#]],
    );
    check(
        &asks(at, &format!("{PGBENCH}[stack.d]\nkind = \"devices\"\nloop = \"64MiB\"\n")),
        expect![[r#"
        line 5, column 1: `target.server`: cannot stand beside `[stack]`, whose last layer is the target; take it out, or write `file = "64MiB"` for a file of that size in its filesystem
    "#]],
    );
}

#[test]
fn a_running_load_is_beside_others_and_has_no_target() {
    let load = |options: &str, rest: &str| {
        let head = "flyball = 1\nname = \"s\"\nquestion = \"q\"\n";
        format!("{head}[workload.load]\ntool = \"running\"\noptions = {{ {options} }}\n{rest}")
    };
    let measure = "[measure]\nmetric = \"transactions\"\nunder_load = true\n";
    assert!(parse(&load("server = \"mariadb\", for = \"5s\"", measure)).is_ok());
    check(
        &load(
            "pid = 7, interval = \"1s\", for = \"1ms\"",
            "[target]\nfile = \"1MiB\"\n[measure]\nmetric = \"device_throughput\"\n",
        ),
        expect![[r#"
            line 4, column 11: `workload.load`: runs already, on whatever it runs on; take `[target]` and `[stack]` out, or measure another tool
            line 4, column 11: `workload.load`: runs already, beside whatever else runs; write `under_load = true` under `[measure]`
            line 6, column 22: `workload.load.options.interval`: is no option of running that a study can set; see docs/STUDY-FORMAT.md and `man running`
            line 6, column 39: `workload.load.options.for`: is `1ms`; write a time from 500 ms to 60 min, such as "10s"
        "#]],
    );
    check(
        &load("for = \"5s\"", measure),
        expect![[r#"
        line 6, column 1: `workload.load.options`: in the cell `load`, `pid` is not there, and neither is `server` nor `metric_command`; name at least one, or nothing tells how fast the load goes
    "#]],
    );
}

#[test]
fn a_folder_that_is_there_takes_a_file_of_a_size() {
    let with = |target: &str, rest: &str| {
        format!("flyball = 1\nname = \"s\"\nquestion = \"q\"\n[target]\n{target}\n{rest}")
    };
    let text = with("folder = \"/var/lib/data\"\nsize = \"1GiB\"", FIO);
    let size = Bytes::from_mib(1024);
    assert_eq!(parse(&text).unwrap().target, Target::Folder { path: "/var/lib/data".into(), size });
    check(
        &with("folder = \"/var/lib/data\"", FIO),
        expect![[r#"
        line 4, column 2: `target.size`: missing; write `size = "1GiB"`
    "#]],
    );
    check(
        &with("folder = \"data\"\nsize = \"0\"", FIO),
        expect![[r#"
        line 5, column 10: `target.folder`: has to be an absolute path, without `.` and `..`, such as `/var/lib/data`
        line 6, column 8: `target.size`: is 0 B; it has to be from 1 B to 1 TiB
    "#]],
    );
    check(
        &with("file = \"1MiB\"\nsize = \"1MiB\"", FIO),
        expect![[r#"
        line 6, column 1: `target.size`: is the size of a file in a `folder`; write `file = "256MiB"` for one in the work folder
    "#]],
    );
    check(
        &with("size = \"1MiB\"", FIO),
        expect![[r#"
        line 5, column 1: `target.size`: is the size of a file in a `folder`; write `file = "256MiB"` for one in the work folder
    "#]],
    );
    check(
        &with(
            "folder = \"/srv\"\nsize = \"1MiB\"",
            "[workload.w]\ntool = \"bonnie\"\n[measure]\nmetric = \"elapsed\"\n",
        ),
        expect![[r#"
            line 7, column 11: `workload.w`: bonnie makes files of a size of its own, and in a `folder` of yours there is one of the size that the study says; write `file` instead of `folder`, and say where with `--work`
        "#]],
    );
    check(
        &with(
            "folder = \"/srv\"\nsize = \"1MiB\"",
            "[workload.w]\ntool = \"fio\"\noptions = { size = \"2m\" }\n",
        ),
        expect![[r#"
            line 9, column 1: `workload.w.options`: in the cell `w`, fio would go up to 2 MiB, beyond the target's 1 MiB; make `size` or `offset` smaller, or the target larger
        "#]],
    );
    check(
        &with(
            "folder = \"/srv\"\nsize = \"1MiB\"",
            &format!("{FIO}[stack.d]\nkind = \"devices\"\nloop = \"64MiB\"\n"),
        ),
        expect![[r#"
            line 5, column 1: `target.folder`: cannot stand beside `[stack]`, whose last layer is the target; take it out, or write `file = "64MiB"` for a file of that size in its filesystem
        "#]],
    );
}

#[test]
fn fio_and_dd_need_a_target() {
    check(
        &format!("flyball = 1\nname = \"s\"\nquestion = \"q\"\n{FIO}"),
        expect![[r#"
        line 4, column 11: `workload.w`: fio needs something to read or write; add `[target]` with `file = "256MiB"`
    "#]],
    );
}

#[test]
fn there_is_a_workload_and_a_tool() {
    check_after_head(
        "",
        expect![[r#"
        line 1, column 1: `workload`: missing; write `[workload.NAME]`
    "#]],
    );
    check_after_head(
        "[workload]\n",
        expect![[r#"
        line 5, column 2: `workload`: is empty; write `[workload.NAME]`
    "#]],
    );
    check_after_head(
        "[workload.w]\n[workload.v]\ntool = \"iozone\"\n[workload.\"a b\"]\ntool = \"dd\"\n",
        expect![[r#"
            line 5, column 11: `workload.w.tool`: missing; write `tool = "fio"`
            line 7, column 8: `workload.v.tool`: there is no tool `iozone`; write TOOLS
            line 8, column 11: `workload."a b"`: `a b` is not a name; use 1 to 64 letters, digits, `-` and `_`
        "#]],
    );
    check_after_head(
        "workload = 3\n",
        expect![[r#"
        line 5, column 12: `workload`: has to be a table, `[workload]`; this is an integer
    "#]],
    );
}

#[test]
fn options_that_flyball_sets_or_nobody_should_are_refused_with_the_reason() {
    check_after_head(
        "[workload.w]\ntool = \"fio\"\noptions = { filename = \"/dev/sda\", output-format = \"terse\", exec_prerun = \"rm\", unlink = true, ioscheduler = \"none\", ioengine = \"external:x.so\", write_bw_log = \"../x\" }\n[workload.v]\ntool = \"dd\"\noptions = { of = \"/dev/sda\", status = \"none\", direction = \"out\" }\n",
        expect![[r#"
            line 7, column 13: `workload.w.options.filename`: cannot be set here: Flyball runs fio on the study's target and on nothing else
            line 7, column 36: `workload.w.options.output-format`: cannot be set here: Flyball sets it, to read fio's report
            line 7, column 61: `workload.w.options.exec_prerun`: cannot be set here: it runs another program; make that a workload of its own with `tool = "command"`
            line 7, column 81: `workload.w.options.unlink`: cannot be set here: it removes the target, which the next trial needs
            line 7, column 96: `workload.w.options.ioscheduler`: cannot be set here: it changes the machine; use the setting `scheduler`, which is put back
            line 7, column 118: `workload.w.options.ioengine`: is `external:x.so`, which is none of fio's engines that stay on the target: `cpuio`, `io_uring`, `libaio`, `mmap`, `null`, `posixaio`, `psync`, `pvsync`, `pvsync2`, `splice`, `sync`, `vsync`
            line 7, column 146: `workload.w.options.write_bw_log`: names a path; logs are given a plain name, and go to the trial's folder
            line 10, column 13: `workload.v.options.of`: cannot be set here: Flyball runs dd on the study's target and on nothing else; write `direction = "read"` or `"write"`
            line 10, column 30: `workload.v.options.status`: cannot be set here: Flyball sets it, to read dd's report
            line 10, column 47: `workload.v.options.direction`: is `out`; write `read` or `write`
        "#]],
    );
}

#[test]
fn the_beginning_of_an_option_is_not_the_option() {
    check_after_head(
        "[workload.w]\ntool = \"fio\"\noptions = { filen = \"/dev/sda\", iodeph = 4, fast = true }\n[workload.v]\ntool = \"dd\"\noptions = { cuont = 3 }\n",
        expect![[r#"
            line 7, column 13: `workload.w.options.filen`: is no option of fio that a study can set; see docs/STUDY-FORMAT.md and `man fio`
            line 7, column 33: `workload.w.options.iodeph`: is no option of fio that a study can set; did you mean `iodepth`?
            line 7, column 45: `workload.w.options.fast`: is no option of fio that a study can set; see docs/STUDY-FORMAT.md and `man fio`
            line 10, column 13: `workload.v.options.cuont`: is no option of dd that a study can set; did you mean `count`?
        "#]],
    );
}

#[test]
fn keys_of_another_tool_are_told_from_unknown_ones() {
    check_after_head(
        "[workload.w]\ntool = \"fio\"\nargv = [\"fio\"]\n[workload.v]\ntool = \"command\"\nargv = [\"true\"]\noptions = {}\n[measure]\nmetric = \"elapsed\"\n",
        expect![[r#"
            line 7, column 1: `workload.w.argv`: belongs to other tools than fio; take it out
            line 11, column 1: `workload.v.options`: belongs to other tools than command; take it out
        "#]],
    );
}

#[test]
fn a_command_is_checked_in_all_its_parts() {
    check_after_head(
        "[workload.w]\ntool = \"command\"\nargv = []\n[workload.v]\ntool = \"command\"\nargv = [\"\"]\n[workload.u]\ntool = \"command\"\nargv = [\"x\", 3]\n[[workload.u.metric]]\nname = \"a\"\npattern = \"no group\"\nunit = \"s\"\nbetter = \"more\"\n[[workload.u.metric]]\nname = \"b\"\n",
        expect![[r#"
            line 7, column 8: `workload.w.argv`: is empty; its first item is the program
            line 10, column 9: `workload.v.argv[1]`: names no program
            line 13, column 14: `workload.u.argv[2]`: has to be a string, `"…"`; this is an integer
            line 16, column 11: `workload.u.metric[1].pattern`: cannot be used: it has no group to take the number from; put it in parentheses, as in `took (?<value>[0-9.]+) s`
            line 18, column 10: `workload.u.metric[1].better`: `more` is neither `higher` nor `lower`; say which is good
            line 19, column 1: `workload.u.metric[2].pattern`: missing; write `pattern = 'took (?<value>[0-9.]+) s'`
            line 19, column 1: `workload.u.metric[2].unit`: missing; write `unit = "s"`
            line 19, column 1: `workload.u.metric[2].better`: missing; write `better = "lower"`
        "#]],
    );
}

#[test]
fn metrics_of_one_name_mean_one_thing() {
    let metric = |name: &str, unit: &str| {
        format!(
            "[[workload.w.metric]]\nname = \"{name}\"\npattern = '(\\d+)'\nunit = \"{unit}\"\nbetter = \"lower\"\n"
        )
    };
    let command = "[measure]\nmetric = \"elapsed\"\n[workload.w]\ntool = \"command\"\nargv = [\"x\"]\n";
    check_after_head(
        &format!("{command}{}{}", metric("m", "s"), metric("m", "s")),
        expect![[r#"
        line 15, column 1: `workload.w.metric[2]`: the metric `m` is there twice; rename one
    "#]],
    );
    check_after_head(
        &format!("{command}{}", metric("throughput", "MB/s")),
        expect![[r#"
        line 10, column 1: `workload.w.metric`: `throughput` has another unit or direction here than elsewhere, so that the two cannot stand in one table; rename it
    "#]],
    );
}

#[test]
fn a_placeholder_names_a_factor_that_applies() {
    check(
        "flyball = 1\nname = \"s\"\nquestion = \"q\"\n[workload.w]\ntool = \"command\"\nargv = [\"x\", \"-j{job}\", \"{target}\", \"{colour}\"]\n[factor.jobs]\nlevels = [1, 2]\n[measure]\nmetric = \"elapsed\"\n",
        expect![[r#"
            line 6, column 14: `workload.w.argv[2]`: `{job}` names no factor of this workload; did you mean `{jobs}`?
            line 6, column 25: `workload.w.argv[3]`: `{target}` stands for the target, and this study has none; add `[target]`
            line 6, column 37: `workload.w.argv[4]`: `{colour}` names no factor of this workload; add `[factor.colour]`, or put a space after the brace if it is meant as it stands
            line 7, column 9: `factor.jobs`: changes nothing in the workload `w`; put `{jobs}` into its `argv`, or name the workloads that it applies to with `workloads = […]`
        "#]],
    );
}

#[test]
fn a_factor_changes_each_of_its_workloads() {
    check_after_head(
        &format!(
            "{FIO}[workload.c]\ntool = \"command\"\nargv = [\"x\"]\n[factor.block]\noption = \"bs\"\nlevels = [\"4k\", \"8k\"]\n[factor.empty]\nlevels = [1, 2]\nworkloads = [\"w\", \"v\"]\n[measure]\nmetric = \"elapsed\"\n"
        ),
        expect![[r#"
            line 11, column 9: `factor.block`: changes nothing in the workload `c`; put `{block}` into its `argv`, or name the workloads that it applies to with `workloads = […]`
            line 14, column 9: `factor.empty`: changes nothing in the workload `w`; give the factor an `option`, a `setting` or a part of the `stack`, or name the workloads that it applies to with `workloads = […]`
            line 16, column 19: `factor.empty.workloads[2]`: there is no workload `v`; did you mean `w`?
        "#]],
    );
}

#[test]
fn levels_are_two_at_least_and_differ() {
    let with = |levels: &str| format!("{FIO}[factor.f]\noption = \"bs\"\nlevels = {levels}\n");
    check_after_head(
        &with("[]"),
        expect![[r#"
            line 10, column 10: `factor.f.levels`: a factor has from 2 to 100 levels, this one has 0; what does not vary goes to the workload's options or to `[settings]`
        "#]],
    );
    check_after_head(
        &with("[\"4k\"]"),
        expect![[r#"
            line 10, column 10: `factor.f.levels`: a factor has from 2 to 100 levels, this one has 1; what does not vary goes to the workload's options or to `[settings]`
        "#]],
    );
    check_after_head(
        &with("[\"4k\", \"4k\"]"),
        expect![[r#"
        line 10, column 17: `factor.f.levels[2]`: the level `4k` is there twice; take one out
    "#]],
    );
    check_after_head(
        &with("[\"4/k\", \"4 k\"]"),
        expect![[r#"
        line 10, column 18: `factor.f.levels[2]`: the levels `4/k` and `4 k` would share a file name; let them differ in letters, digits or `-`
    "#]],
    );
    check_after_head(
        &with("[\"4k\", [1], 2020-01-01, nan, \"\"]"),
        expect![[r#"
        line 10, column 17: `factor.f.levels[2]`: has to be a string, a number, `true` or `false`; this is an array
        line 10, column 22: `factor.f.levels[3]`: has to be a string, a number, `true` or `false`; this is a datetime
        line 10, column 34: `factor.f.levels[4]`: has to be a string, a number, `true` or `false`; this is a float
        line 10, column 39: `factor.f.levels[5]`: a level's name has from 1 to 64 characters; name it in a `[[factor.NAME.level]]` table
    "#]],
    );
    check_after_head(
        &with("\"4k\""),
        expect![[r#"
        line 10, column 10: `factor.f.levels`: has to be a list, `[…, …]`; this is a string
    "#]],
    );
}

#[test]
fn a_factor_has_one_way_to_change_things() {
    check_after_head(
        &format!(
            "{FIO}[factor.a]\noption = \"bs\"\nsetting = \"governor\"\nlevels = [1, 2]\n[factor.b]\noption = \"bs\"\nlevel = [{{ name = \"x\" }}, {{ options = {{}} }}]\n[factor.target]\noption = \"bs\"\nlevels = [1, 2]\n[factor.c]\noption = \"bs\"\n"
        ),
        expect![[r#"
            line 10, column 1: `factor.a.setting`: cannot stand beside `option`: a factor sets one of `option`, `setting`, `stack`, `beside`, `lab`, `sim`; write `[[factor.NAME.level]]` tables for levels that change several
            line 13, column 1: `factor.b.option`: cannot stand beside `level`, whose entries say themselves what they change
            line 14, column 26: `factor.b.level[2].name`: missing; write `name = "fast"`
            line 15, column 9: `factor.target`: `target` has a meaning already; choose another name
            line 18, column 9: `factor.c.levels`: missing; write `levels = ["4k", "64k"]`
        "#]],
    );
}

#[test]
fn factors_do_not_set_the_same_thing() {
    check_after_head(
        &format!(
            "{FIO}[factor.a]\noption = \"bs\"\nlevels = [1, 2]\n[factor.b]\noption = \"bs\"\nlevels = [1, 2]\n"
        ),
        expect![[r#"
            line 11, column 9: `factor.b`: sets the option `bs` of the workload `w`, as the factor `a` does; only one of them can
        "#]],
    );
}

const BESIDE: &str = "[beside.burner]\ntool = \"fio\"\noptions = { ioengine = \"cpuio\", cpuload = 50 }\n";

#[test]
fn a_load_beside_the_workload_has_no_end_and_levels_leave_it_out() {
    let factor = "[factor.alone]\nbeside = \"burner\"\nlevels = [false, true]\n[factor.bundle]\n\
                  [[factor.bundle.level]]\nname = \"a\"\nbeside = { other = false }\n[[factor.bundle.level]]\nname = \"b\"\n";
    let other =
        "[beside.other]\ntool = \"command\"\nargv = [\"nice\", \"{target}\", \"{alone}\"]\nlead = \"2s\"\n";
    let study = study(&format!("{FIO}{BESIDE}{other}{factor}"));
    let [burner, other] = &study.beside[..] else { panic!("{:?}", study.beside) };
    assert_eq!((burner.lead, other.lead), (Nanos::from_secs(1), Nanos::from_secs(2)));
    assert_eq!(
        (burner.load.options["time_based"].as_str(), burner.load.options["runtime"].as_str()),
        ("1", "2592000")
    );
    let plan = Plan::new(study, Seed(1)).unwrap();
    let cells: Vec<String> = plan
        .cells
        .iter()
        .map(|cell| {
            let beside: Vec<&str> =
                cell.beside.iter().map(|companion| companion.load.name.as_str()).collect();
            format!("{}: {}", cell.id, beside.join(" "))
        })
        .collect();
    assert_eq!(cells, ["w_false_a: ", "w_false_b: other", "w_true_a: burner", "w_true_b: burner other"]);
    let argv = plan.cells[3].beside[1].load.tool.command().unwrap().0;
    assert_eq!(argv, ["nice", "{target}", "true"]);
}

#[test]
fn levels_that_leave_no_load_out_change_nothing() {
    check_after_head(
        &format!(
            "{FIO}{BESIDE}[factor.a]\n[[factor.a.level]]\nname = \"x\"\nbeside = {{ burner = true }}\n\
             [[factor.a.level]]\nname = \"y\"\n"
        ),
        expect![[r#"
            line 11, column 9: `factor.a`: changes nothing in the workload `w`; give the factor an `option`, a `setting` or a part of the `stack`, or name the workloads that it applies to with `workloads = […]`
        "#]],
    );
}

#[test]
fn a_study_without_a_load_beside_has_none() {
    let plan = Plan::new(study(FIO), Seed(1)).unwrap();
    assert!(plan.study.beside.is_empty() && plan.cells.iter().all(|cell| cell.beside.is_empty()));
}

#[test]
fn what_cannot_run_beside_a_workload_is_refused() {
    check_after_head(
        &format!(
            "{FIO}[beside.a]\ntool = \"dd\"\n[beside.b]\ntool = \"fio\"\noptions = {{ rw = \"read\", runtime = \"1s\" }}\n\
             [beside.c]\ntool = \"fio\"\noptions.ioengine = \"cpuio\"\n[beside.d]\ntool = \"command\"\nargv = [\"x\"]\nmetric = []\nled = 1\n"
        ),
        expect![[r#"
            line 9, column 8: `beside.a.tool`: dd ends by itself, and a load beside a workload runs until the workload has ended; write `fio` or `command`
            line 12, column 26: `beside.b.options.runtime`: belongs to workloads: a load beside one has no end of its own; take it out
            line 15, column 9: `beside.c.options.ioengine`: computes for a share of the time, which is missing; add `cpuload = 100`
            line 19, column 1: `beside.d.metric`: belongs to workloads: no metric is taken of a load beside one; take it out
            line 20, column 1: `beside.d.led`: unknown key; did you mean `lead`?
        "#]],
    );
}

#[test]
fn a_level_names_a_load_that_there_is_and_what_a_load_needs_is_there() {
    check_after_head(
        &format!(
            "{FIO}{BESIDE}[factor.a]\nbeside = \"burnr\"\nlevels = [false, true]\n[factor.b]\n\
             [[factor.b.level]]\nname = \"x\"\nbeside = {{ nobody = true }}\n[[factor.b.level]]\nname = \"y\"\nbeside = {{ burner = 1 }}\n"
        ),
        expect![[r#"
            line 12, column 10: `factor.a.beside`: there is no load `burnr` beside the workloads; did you mean `burner`?
            line 20, column 21: `factor.b.level[2].beside.burner`: has to be `true` or `false`; this is an integer
        "#]],
    );
    check(
        "flyball = 1\nname = \"s\"\nquestion = \"q\"\n[workload.w]\ntool = \"command\"\nargv = [\"true\"]\n[measure]\nmetric = \"elapsed\"\n\
         [beside.r]\ntool = \"fio\"\noptions.rw = \"read\"\n[beside.c]\ntool = \"fio\"\noptions = { ioengine = \"cpuio\", cpuload = 1 }\n\
         [beside.p]\ntool = \"command\"\nargv = [\"{jobs}\"]\n",
        expect![[r#"
            line 9, column 9: `beside.r`: fio needs something to read or write; add `[target]` with `file = "256MiB"`
            line 17, column 9: `beside.p.argv[1]`: `{jobs}` names no factor of this workload; add `[factor.jobs]`, or put a space after the brace if it is meant as it stands
        "#]],
    );
    assert!(parse(&reads("/dev/sda", &format!("{FIO}{BESIDE}"))).is_ok(), "it does not touch the disk");
    check(
        &reads("/dev/sda", &format!("{FIO}[beside.r]\ntool = \"fio\"\noptions.rw = \"write\"\n")),
        expect![[r#"
            line 7, column 1: `workload.w.options`: in the cell `w`, in the load `r` beside it, on a `read_only` target: `rw = write` does more than read; write `read` or `randread`
        "#]],
    );
}

#[test]
fn an_option_of_a_factor_exists_in_each_tool() {
    check_after_head(
        &format!(
            "{FIO}[workload.d]\ntool = \"dd\"\n[factor.depth]\noption = \"iodepth\"\nlevels = [1, 2]\n[factor.bundle]\n[[factor.bundle.level]]\nname = \"a\"\noptions = {{ filename = \"x\" }}\n[[factor.bundle.level]]\nname = \"b\"\n"
        ),
        expect![[r#"
            line 11, column 10: `factor.depth.option`: for the workload `d`, `iodepth` is no option of dd that a study can set; see docs/STUDY-FORMAT.md and `man dd`
            line 16, column 24: `factor.bundle.level[1].options.filename`: for the workload `w`, `filename` cannot be set here: Flyball runs fio on the study's target and on nothing else
            line 16, column 24: `factor.bundle.level[1].options.filename`: for the workload `d`, `filename` is no option of dd that a study can set; see docs/STUDY-FORMAT.md and `man dd`
        "#]],
    );
}

#[test]
fn no_cell_reaches_beyond_the_target() {
    check_after_head(
        "[workload.w]\ntool = \"fio\"\noptions = { size = \"512k\", offset = \"768k\" }\n[workload.v]\ntool = \"dd\"\noptions = { direction = \"write\" }\n[workload.u]\ntool = \"dd\"\noptions = { direction = \"write\", count = 3 }\n[factor.block]\noption = \"bs\"\nlevels = [\"64k\", \"512k\"]\nworkloads = [\"u\"]\n",
        expect![[r#"
            line 7, column 1: `workload.w.options`: in the cell `w`, fio would go up to 1.2 MiB, beyond the target's 1 MiB; make `size` or `offset` smaller, or the target larger
            line 13, column 1: `workload.u.options`: in the cell `u_512k`, dd would write up to 1.5 MiB, beyond the target's 1 MiB; make `count`, `seek` or `bs` smaller, or the target larger
        "#]],
    );
}

#[test]
fn a_study_that_explodes_is_refused() {
    let factor = |n: usize| {
        let levels: Vec<String> = (0..100).map(|level| level.to_string()).collect();
        format!("[factor.f{n}]\nsetting = \"vm.s{n}\"\nlevels = [{}]\n", levels.join(", "))
    };
    check_after_head(
        &format!("{FIO}{}{}{}", factor(1), factor(2), factor(3)),
        expect![[r#"
        line 8, column 2: `factor`: the factors multiply to more than 10000 cells; take levels out, or split the study
    "#]],
    );
}

#[test]
fn names_of_settings_are_checked_for_their_form() {
    check_after_head(
        &format!("{FIO}[settings]\n\"a b\" = 1\n\"x@\" = 1\ngovernor = [1]\nvm.a = 1\n\"vm.a\" = 2\n"),
        expect![[r#"
            line 9, column 1: `settings."a b"`: `a b` is not the name of a setting; write `governor`, `vm.dirty_ratio` or `read_ahead_kb@loop3`
            line 10, column 1: `settings."x@"`: `x@` is not the name of a setting; write `governor`, `vm.dirty_ratio` or `read_ahead_kb@loop3`
            line 11, column 12: `settings.governor`: has to be a string, a number, `true` or `false`; this is an array
            line 13, column 1: `settings."vm.a"`: this setting stands here twice; take one out
        "#]],
    );
}

#[test]
fn control_characters_are_found_where_they_hide() {
    check_after_head(
        &format!(
            "{FIO}[settings]\ngovernor = \"a\\nb\"\n[factor.\"x\\u0000\"]\noption = \"bs\"\nlevels = [\"1\\u0000\", \"2\"]\n"
        ),
        expect![[r#"
            line 9, column 12: `settings.governor`: holds a line break or another control character; take it out
            line 10, column 9: `factor."x\0"`: `x\0` is not a name; use 1 to 64 letters, digits, `-` and `_`
            line 12, column 11: `factor."x\0".levels[1]`: holds a line break or another control character; take it out
        "#]],
    );
}

#[test]
fn line_ends_and_a_byte_order_mark_of_other_systems_are_read() {
    let text = format!("\u{feff}{HEAD}{FIO}").replace('\n', "\r\n");
    assert!(parse(&text).is_ok());
    check(
        &text.replace("flyball", "flybal"),
        expect![[r#"
            line 1, column 1: `flybal`: unknown key; did you mean `flyball`?
        "#]],
    );
}

#[test]
fn columns_count_characters() {
    check_after_head(
        "[workload.w]\ntool = \"fio\"\noptions = { \"ü\" = \"éé\", x = 1 }\n",
        expect![[r#"
            line 7, column 13: `workload.w.options."ü"`: is no option of fio that a study can set; see docs/STUDY-FORMAT.md and `man fio`
            line 7, column 25: `workload.w.options.x`: is no option of fio that a study can set; see docs/STUDY-FORMAT.md and `man fio`
        "#]],
    );
}

#[test]
fn a_huge_file_is_refused_unread() {
    check(
        &"x = 1\n".repeat(2_000_000),
        expect![[r#"
        line 1, column 1: this file has 11.4 MiB, a study at most 1 MiB; is it the right file?
    "#]],
    );
}

#[test]
fn more_errors_than_anybody_reads_are_counted() {
    let text =
        format!("{HEAD}{FIO}[measure]\n{}", (0..1000).map(|n| format!("k{n} = 1\n")).collect::<String>());
    let errors = parse(&text).unwrap_err();
    assert_eq!(errors.list().len(), 50);
    assert!(errors.to_string().ends_with("\nand 950 more errors; correct these first"));
}

#[test]
fn errors_are_shown_as_compilers_show_them() {
    let errors = parse(&format!("{HEAD}{FIO}[measur]\n")).unwrap_err();
    expect![[r#"
        studies/s.toml:8:2: `measur`: unknown key; did you mean `measure`?
    "#]]
    .assert_eq(&errors.show("studies/s.toml"));
}

#[test]
fn deep_nesting_is_an_error() {
    for open in ["[", "{a=", "{a.a.a.a="] {
        let text = format!("{HEAD}x = {}", open.repeat(20_000));
        assert!(parse(&text).is_err());
    }
    assert!(parse(&format!("{HEAD}[{}a]", "a.".repeat(100_000))).is_err());
}

#[test]
fn each_study_that_is_shipped_is_read() {
    let studies = [
        ("quick", include_str!("../../../../studies/quick.toml")),
        ("readahead", include_str!("../../../../studies/readahead.toml")),
        ("check", include_str!("../../../../studies/check.toml")),
        ("dmcrypt-ondemand", include_str!("../../../../studies/dmcrypt-ondemand.toml")),
        ("raid-levels", include_str!("../../../../studies/raid-levels.toml")),
        ("raid10-governors", include_str!("../../../../studies/raid10-governors.toml")),
        ("raid5-journal", include_str!("../../../../studies/raid5-journal.toml")),
        ("lab-drivers", include_str!("../../../../studies/lab-drivers.toml")),
    ];
    for (name, text) in studies {
        let study = parse(text).unwrap_or_else(|errors| panic!("{}", errors.show(name)));
        assert_eq!(study.name, name);
        Plan::new(study, Seed(1)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Each cell's stack of a study, once, by the level of its factor.
fn stacks_by(study: &str, factor: &str) -> String {
    let plan = Plan::new(parse(study).unwrap(), Seed(1)).unwrap();
    let mut lines: Vec<String> = Vec::new();
    for cell in &plan.cells {
        let line = format!("{}: {}\n", cell.levels[factor], cell.stack.as_ref().unwrap());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}

#[test]
fn the_studies_of_arrays_build_what_they_say() {
    expect![[r#"
        one-disk: 1 device
        raid0: 4 devices > raid0
        raid1: 2 devices > raid1
        raid5: 4 devices > raid5
        raid6: 4 devices > raid6
        raid10-n2: 4 devices > raid10 n2
        raid10-f2: 4 devices > raid10 f2
        raid10-o2: 4 devices > raid10 o2
    "#]]
    .assert_eq(&stacks_by(include_str!("../../../../studies/raid-levels.toml"), "layout"));
    expect![[r#"
        n2: 4 devices > raid10 n2 32 KiB
        f2: 4 devices > raid10 f2 32 KiB
    "#]]
    .assert_eq(&stacks_by(include_str!("../../../../studies/raid10-governors.toml"), "layout"));
    expect![[r#"
        ext3-ordered: 11 devices > raid5 left-symmetric 32 KiB > ext3 data=ordered
        ext2: 11 devices > raid5 left-symmetric 32 KiB > ext2
        ext4-ordered: 11 devices > raid5 left-symmetric 32 KiB > ext4 data=ordered
        ext3-writeback: 11 devices > raid5 left-symmetric 32 KiB > ext3 data=writeback
        ext3-journal: 11 devices > raid5 left-symmetric 32 KiB > ext3 data=journal
        ext3-ordered-mirror: 11 devices > raid5 left-symmetric 32 KiB > 2 devices > raid1 > ext3 data=ordered journal on mirror
        ext3-journal-mirror: 11 devices > raid5 left-symmetric 32 KiB > 2 devices > raid1 > ext3 data=journal journal on mirror
        ext4-journal: 11 devices > raid5 left-symmetric 32 KiB > ext4 data=journal
        crypt-below: 11 devices > plain aes-xts-plain64 > raid5 left-symmetric 32 KiB > ext3 data=ordered
        crypt-above: 11 devices > raid5 left-symmetric 32 KiB > plain aes-xts-plain64 > ext3 data=ordered
    "#]].assert_eq(&stacks_by(include_str!("../../../../studies/raid5-journal.toml"), "variant"));
}

#[test]
fn the_quick_study_needs_no_root_and_has_eight_trials_at_least() {
    let study = parse(include_str!("../../../../studies/quick.toml")).unwrap();
    let (repeats, factors) = (study.measure.repeats_min as usize, study.factors.len());
    let plan = Plan::new(study, Seed(1)).unwrap();
    assert!(!plan.needs_root());
    assert_eq!(factors, 2);
    assert!(plan.cells.len() * repeats >= 8);
}

#[test]
fn the_check_stays_within_its_file_and_needs_no_root() {
    let study = parse(include_str!("../../../../studies/check.toml")).unwrap();
    assert_eq!(study.target, Target::File(Bytes::from_mib(512)));
    assert!(!Plan::new(study, Seed(1)).unwrap().needs_root());
}

/// The reference of the format: its index and a page a table.
const REFERENCE: &str = concat!(
    include_str!("../../../../docs/STUDY-FORMAT.md"),
    include_str!("../../../../docs/study-format/top-level.md"),
    include_str!("../../../../docs/study-format/target.md"),
    include_str!("../../../../docs/study-format/stack.md"),
    include_str!("../../../../docs/study-format/workload.md"),
    include_str!("../../../../docs/study-format/workload-fio.md"),
    include_str!("../../../../docs/study-format/workload-dd.md"),
    include_str!("../../../../docs/study-format/workload-sysbench.md"),
    include_str!("../../../../docs/study-format/workload-pgbench.md"),
    include_str!("../../../../docs/study-format/workload-bonnie.md"),
    include_str!("../../../../docs/study-format/workload-hdparm.md"),
    include_str!("../../../../docs/study-format/workload-command.md"),
    include_str!("../../../../docs/study-format/workload-running.md"),
    include_str!("../../../../docs/study-format/beside.md"),
    include_str!("../../../../docs/study-format/metrics.md"),
    include_str!("../../../../docs/study-format/factor.md"),
    include_str!("../../../../docs/study-format/settings.md"),
    include_str!("../../../../docs/study-format/measure.md"),
    include_str!("../../../../docs/study-format/lab.md"),
    include_str!("../../../../docs/study-format/sim.md"),
    include_str!("../../../../docs/study-format/published.md"),
    include_str!("../../../../docs/study-format/page.md"),
);

/// The TOML examples of the reference; a part of a study is completed to one.
fn examples() -> Vec<String> {
    let blocks = REFERENCE.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let complete = |block: &str| match (block.starts_with("flyball"), block.contains("[workload.")) {
        (true, _) => block.to_owned(),
        (false, true) => format!("{HEAD}{block}"),
        (false, false) => format!("{HEAD}{FIO}{block}"),
    };
    blocks.map(complete).collect()
}

#[test]
fn each_example_of_the_reference_is_read() {
    let examples = examples();
    assert_eq!(examples.len(), 16);
    for text in examples {
        parse(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    }
}

#[test]
fn the_reference_states_the_defaults_as_they_are() {
    let stated = examples().into_iter().find(|text| text.contains("\nretries = ")).unwrap();
    assert_eq!(parse(&stated).unwrap().measure, Measure::default());
}

#[test]
fn the_reference_names_each_shared_metric_and_refused_option() {
    use workloads::{dd, fio};
    let reference = REFERENCE;
    let metrics = workloads::report::SHARED_METRICS.iter().map(|(name, ..)| *name);
    let metrics = metrics.chain(domain::per_work::METRICS.map(|(name, ..)| name));
    let by_their_like = [
        "eta",
        "minimal",
        "daemonize",
        "parse-only",
        "showcmd",
        "readonly",
        "trigger-remote",
        "trigger-file",
        "trigger-timeout",
        "exec",
        "nr_files",
        "cgroup_weight",
        "cgroup_nodelete",
    ];
    let refused = fio::options::REFUSED.iter().map(|(name, _)| *name).filter(|n| !by_their_like.contains(n));
    for name in metrics.chain(refused).chain(dd::options::NAMES).chain(fio::options::ENGINES) {
        assert!(reference.contains(&format!("`{name}`")), "{name}");
    }
    let of_sysbench = workloads::sysbench::options::OPTIONS
        .into_iter()
        .chain(workloads::sysbench::options::METRICS.map(|(name, ..)| name));
    for name in of_sysbench {
        assert!(reference.contains(&format!("`{name}`")), "{name}");
    }
    let bonnie = workloads::bonnie::options::METRICS
        .iter()
        .map(|(name, ..)| *name)
        .filter(|name| !name.starts_with("cpu_"));
    for name in workloads::bonnie::options::OPTIONS.into_iter().chain(bonnie) {
        assert!(reference.contains(&format!("`{name}`")), "{name}");
    }
    let of_pgbench = workloads::pgbench::options::OPTIONS
        .into_iter()
        .chain(workloads::pgbench::options::METRICS.map(|(name, ..)| name));
    for name in of_pgbench.chain(fio::options::OURS).chain(domain::iometer::NAMES) {
        assert!(reference.contains(&format!("`{name}`")), "{name}");
    }
    let quoted = workloads::sysbench::options::Test::ALL
        .map(workloads::sysbench::options::Test::name)
        .into_iter()
        .chain(workloads::sysbench::options::RAND_TYPES)
        .chain(workloads::bonnie::options::Flavour::ALL.map(workloads::bonnie::options::Flavour::name))
        .chain(workloads::server::Kind::ALL.map(workloads::server::Kind::name))
        .chain(workloads::pgbench::options::BUILTINS)
        .chain(workloads::pgbench::options::PROTOCOLS);
    for name in quoted {
        assert!(reference.contains(&format!("`\"{name}\"`")), "{name}");
    }
}

#[test]
fn what_a_machine_counts_is_a_metric_where_the_work_is_and_no_commands_own() {
    let study = |metric: &str| {
        format!(
            "flyball = 1\nname = \"s\"\nquestion = \"?\"\n[target]\nfile = \"1MiB\"\n\
             [workload.w]\ntool = \"dd\"\noptions = {{ direction = \"read\" }}\n\
             [measure]\nmetric = \"{metric}\"\n"
        )
    };
    for metric in ["energy", "power", "energy_per_gb", "switches_per_io", "wakeups"] {
        parse(&study(metric)).unwrap_or_else(|errors| panic!("{errors}"));
    }
    let refused = parse(&study("energy_per_transaction")).unwrap_err().to_string();
    assert!(refused.contains("`energy_per_transaction` is not reported by the workload `w`"), "{refused}");
    let own = study("elapsed").replace(
        "tool = \"dd\"\noptions = { direction = \"read\" }",
        "tool = \"command\"\nargv = [\"meter\"]\n[[workload.w.metric]]\nname = \"energy\"\n\
         pattern = \"(.*)\"\nunit = \"J\"\nbetter = \"lower\"",
    );
    let refused = parse(&own).unwrap_err().to_string();
    assert!(refused.contains("`energy` is a metric of Flyball's own"), "{refused}");
}

#[test]
fn the_reference_names_each_key_of_a_stack() {
    let page = include_str!("../../../../docs/study-format/stack.md");
    for kind in domain::stack::kinds() {
        let of_kind = page.split(&format!("\n## {kind}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
        for key in domain::stack::keys(kind).unwrap() {
            let place = if ["kind", "use", "on"].contains(key) { page } else { of_kind };
            assert!(place.contains(&format!("`{key}`")), "{kind}: {key}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_damage_to_a_study_makes_it_panic(
        at in 0_usize..10_000,
        length in 0_usize..40,
        insert in "[\\x00-\\x7f\u{feff}é]{0,12}",
    ) {
        let studies = [
            include_str!("../../../../studies/readahead.toml"),
            include_str!("../../../../studies/raid5-journal.toml"),
        ];
        let mut text = studies[at % 2].to_owned();
        let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let (from, to) = (boundary(at % text.len()), boundary(at % text.len() + length));
        text.replace_range(from..to, &insert);
        if let Err(errors) = parse(&text) {
            let lines = text.lines().count() + 1;
            prop_assert!(!errors.list().is_empty());
            prop_assert!(errors.list().iter().all(|e| (1..=lines).contains(&e.line) && e.column >= 1));
        }
    }

    #[test]
    fn no_arrangement_of_known_keys_makes_it_panic(lines in proptest::collection::vec(0_usize..61, 0..32)) {
        const LINES: [&str; 61] = [
            "[target]", "file = \"1M\"", "loop = 3", "[workload.a]", "[workload.b]", "tool = \"fio\"", "tool = \"dd\"",
            "tool = \"command\"", "argv = [\"{f}\", \"{target}\"]", "options = { bs = 1, size = \"9P\" }",
            "[factor.f]", "option = \"bs\"", "setting = \"a.b\"", "levels = [1, 2]", "[[factor.f.level]]", "name = \"x\"",
            "workloads = [\"a\"]", "[settings]", "a.b = 3", "[measure]", "metric = \"iops\"", "repeats = [1, 2]",
            "[[workload.a.metric]]", "pattern = '('",
            "device = \"/dev/sda\"", "[lab]", "dilation = \"auto\"", "work = \"/a\"", "[[lab.disk]]", "[[lab.link]]",
            "link = \"x\"", "model = \"m\"", "count = 3",
            "[stack.a]", "[stack.b]", "[stack]", "kind = \"devices\"", "kind = \"md\"", "kind = \"filesystem\"",
            "on = \"a\"", "on = [\"a\", \"b\"]", "loop = \"64M\"", "lab = \"x\"", "level = 5", "use = false",
            "stack = \"a.count\"", "stack = { \"b.use\" = false, a.level = 1 }", "argv = [\"{folder}\"]",
            "[[published]]", "source = \"a\"", "value = \"1 MB/s\"", "value = 1", "at_least = \"1 /s\"", "within = \"5%\"",
            "levels = { f = 1 }", "over = { workload = \"b\" }", "sim = \"machine\"", "[sim]",
            "[beside.a]", "beside = \"a\"", "beside = { a = false }",
        ];
        let body: Vec<&str> = lines.into_iter().map(|n| LINES[n]).collect();
        let _ = parse(&format!("flyball = 1\nname = \"s\"\nquestion = \"q\"\n{}\n", body.join("\n")));
    }
}
