//! `flyball new`: what it writes is a study that runs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support;
use crate::support::Place;

/// The plan of a study that lies in this place; it need not be possible on this machine.
fn plan(place: &Place, file: &str) -> String {
    place.measure(&["run", file, "--dry-run"])
}

#[test]
fn every_tool_with_every_kind_of_factor_is_a_study_that_runs() {
    let place = Place::new();
    let none: &[&str] = &[];
    let tools: &[(&str, &[&str])] = &[
        ("fio", &["--levels", "bs=4k,64k", "--levels", "iodepth=1,8,32"]),
        ("dd", &["--levels", "bs=4k,1M"]),
        ("sysbench", &["--levels", "threads=1,4", "--levels", "server.innodb_flush_log_at_trx_commit=1,2"]),
        ("pgbench", &["--levels", "client=1,8", "--levels", "protocol=simple,prepared"]),
        ("bonnie", &["--levels", "chunk=4k,8k"]),
        ("hdparm", &["--levels", "direct=false,true"]),
    ];
    let settings: [&[&str]; 4] = [
        none,
        &["--governors", "powersave,performance"],
        &["--levels", "vm.dirty_ratio=20,5"],
        &["--governors", "schedutil,performance,ondemand", "--levels", "read_ahead_kb@sda=128,4096"],
    ];
    let mut count = 0;
    for (tool, options) in tools {
        for options in [none, options] {
            for settings in settings {
                count += 1;
                let name = format!("s{count}");
                place.ok(&[&["new", &name, "--tool", tool], options, settings].concat());
                let file = format!("{name}.toml");
                let said = place.output(&["run", &file, "--dry-run"]);
                let code = said.status.code();
                assert!(
                    matches!(code, Some(0 | 3)),
                    "{tool} {options:?} {settings:?}: {}",
                    support::stderr(&said)
                );
            }
        }
    }
}

#[test]
fn every_kind_of_target_is_one() {
    let place = Place::new();
    std::fs::write(place.path("data"), [1; 8192]).unwrap();
    for (target, line) in [
        ("1MiB", "file = \"1MiB\"".to_owned()),
        ("loop:1MiB", "loop = \"1MiB\"".to_owned()),
        (".:1MiB", format!("folder = \"{}\"", place.folder.path().join("").display()).replace("/\"", "")),
        ("./data", format!("read_only = \"{}/data\"", place.folder.path().display())),
    ] {
        let text = place.ok(&["new", "--tool", "dd", "--target", target, "--out", "-"]);
        assert!(text.contains(&line), "{target}: {text}");
        std::fs::write(place.path("t.toml"), text).unwrap();
        match support::without_space(place.folder.path()).filter(|_| line.starts_with("folder")) {
            Some(reason) => testing::skip_in_part(reason),
            None => drop(plan(&place, "t.toml")),
        }
    }
    for (target, why) in [(".", ".:256MiB"), ("big", "write a size"), ("loop:big", "nothing was written")] {
        let said = place.fails(2, &["new", "t", "--target", target]);
        assert!(said.contains(why), "{target}: {said}");
    }
}

#[test]
fn a_server_is_a_target_with_its_comments() {
    let place = Place::new();
    let new = |arguments: &[&str]| place.ok(&[&["new", "shop", "--out", "-"], arguments].concat());
    let mariadb =
        new(&["--target", "server:/run/mysqld/mysqld.sock", "--user", "bench", "--password-file", "p"]);
    let file = format!("\npassword_file = \"{}\"\n", place.path("p").display());
    for line in
        ["\nserver = \"/run/mysqld/mysqld.sock\"\n", "\nuser = \"bench\"\n", &file, "[workload.sysbench]"]
    {
        assert!(mariadb.contains(line), "{line}: {mariadb}");
    }
    let postgresql = new(&["--target", "server:127.0.0.1:5432", "--levels", "client=1,8"]);
    for line in [
        "[workload.pgbench]",
        "\n# user = ",
        "\n# password_file = ",
        "server at 127.0.0.1:5432 commit, by client?",
    ] {
        assert!(postgresql.contains(line), "{line}: {postgresql}");
    }
    assert!(
        new(&["--target", "server:/run/postgresql", "--tool", "sysbench"])
            .contains("server = \"postgresql\", test")
    );
    for (arguments, why) in [
        (&["--target", "server:"][..], "write a socket such as"),
        (&["--target", "server:localhost:3306"], "127.0.0.1:3306"),
        (&["--target", "server:/run/mysqld/mysqld.sock", "--tool", "fio"], "--tool sysbench"),
        (&["--user", "bench"], "name it: --target server:ADDRESS"),
        (&["--target", "server:/run/postgresql", "--levels", "server.fsync=on,off"], "nothing was written"),
    ] {
        let said = place.fails(2, &[&["new", "x"], arguments].concat());
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert!(!place.path("x.toml").exists(), "{arguments:?}");
    }
}

#[test]
fn a_command_is_a_study_with_its_placeholders() {
    let place = Place::new();
    place.ok(&["new", "job", "--levels", "n=1,2", "--", "sh", "-c", "echo \"{n}\" \\ done"]);
    assert!(plan(&place, "job.toml").contains("2 cells"));
    assert!(place.fails(2, &["new", "x", "--tool", "command"]).contains("after `--`"));
    let said = place.fails(2, &["new", "x", "--levels", "m=1,2", "--", "true"]);
    assert!(said.contains("cannot vary `m`") && said.contains("`{NAME}`"), "{said}");
}

#[test]
fn nothing_is_overwritten_and_the_next_command_is_said() {
    let place = Place::new();
    let said = place.output(&["new", "mine"]);
    assert!(support::stderr(&said).contains("next: `flyball run mine.toml --dry-run`"), "{said:?}");
    let before = std::fs::read(place.path("mine.toml")).unwrap();
    let said = place.fails(1, &["new", "mine", "--tool", "dd"]);
    assert!(said.contains("`mine.toml`: it is there already"), "{said}");
    assert_eq!(std::fs::read(place.path("mine.toml")).unwrap(), before);
    std::os::unix::fs::symlink(place.path("elsewhere"), place.path("link.toml")).unwrap();
    place.fails(1, &["new", "link"]);
    assert!(!place.path("elsewhere").exists(), "a link was followed");
}

#[test]
fn what_would_be_no_study_is_refused_with_the_nearest() {
    let place = Place::new();
    for (arguments, why) in [
        (&["--tool", "foi"][..], "did you mean `fio`?"),
        (&["--levels", "iodepht=1,2"], "did you mean `iodepth`?"),
        (&["--levels", "bs=4k"], "two levels or more"),
        (&["--levels", "bs=4k,8k", "--levels", "bs=1,2"], "varied twice"),
        (&["--governors", "a,b", "--levels", "governor=a,b"], "varied twice"),
        (&["--tool", "sysbench", "--levels", "threads=1,many"], "nothing was written"),
        (&["--levels", "filename=/dev/sda,/dev/sdb"], "cannot vary `filename`"),
        (&["--levels", "bs"], "FACTOR=LEVEL,LEVEL"),
        (&["--tool", "dd", "--", "true"], "leave out"),
        (&["--from", "raid-level"], "did you mean `raid-levels`?"),
        (&["--from", "quick", "--tool", "dd"], "cannot be used with"),
        (
            &["--from", "readahead", "--levels", "read_ahead_kb=16,128"],
            "the factor `readahead` of the study does so",
        ),
        (&["--from", "quick", "--levels", "bs=4k,64k"], "cannot vary `bs` in a study that is there"),
        (&["--from", "quick", "--governors", "powersave"], "two levels or more"),
    ] {
        let said = place.fails(2, &[&["new", "x"], arguments].concat());
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert!(!place.path("x.toml").exists(), "{arguments:?}");
    }
    assert!(place.fails(2, &["new", "a/b"]).contains("no name of a study"));
}

#[test]
fn a_copy_varies_settings_besides() {
    let place = Place::new();
    let levels = ["--governors", "powersave,performance", "--levels", "vm.dirty_ratio=5,20"];
    place.ok(&[&["new", "more", "--from", "quick"], &levels[..]].concat());
    let text = std::fs::read_to_string(place.path("more.toml")).unwrap();
    assert!(
        text.ends_with("\n[factor.vm_dirty_ratio]\nsetting = \"vm.dirty_ratio\"\nlevels = [5, 20]\n"),
        "{text}"
    );
}

#[test]
fn each_shipped_study_can_be_copied_under_another_name() {
    let place = Place::new();
    let json: serde_json::Value = serde_json::from_str(&place.ok(&["list", "--studies", "--json"])).unwrap();
    for (at, study) in json["studies"].as_array().unwrap().iter().enumerate() {
        let from = study["name"].as_str().unwrap();
        place.ok(&["new", &format!("copy{at}"), "--from", from]);
        let text = std::fs::read_to_string(place.path(&format!("copy{at}.toml"))).unwrap();
        assert!(text.contains(&format!("name = \"copy{at}\"")), "{from}");
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");
        let shipped = std::fs::read_to_string(format!("{root}/{from}.toml")).unwrap();
        assert_eq!(place.ok(&["new", "--from", from, "--out", "-"]), shipped, "{from}");
    }
    // What a copy names lies where it ships.
    place.ok(&["run", "published/dmcrypt", "--on", "sim", "--seed", "1"]);
    place.ok(&["new", "mine", "--from", "dmcrypt-ondemand"]);
    let page = place.ok(&["report", "--published", "mine.toml", "--format", "text"]);
    assert!(page.contains("--on sim --seed 1"), "{page}");
}
