//! A ledger that another version wrote, that is damaged, or that is huge: what is undone, what is refused,
//! what is kept.

#![allow(clippy::unwrap_used)]

mod tree;

use machine::failing::{Counted, Death, FailingMachine, Manner, Moment};
use machine::ledger::{Ledger, RestoreReport, UndoOutcome, status};
use machine::settings::Error;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use tree::{Tree, Tunables};

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const DIRTY_RATIO: &str = "/proc/sys/vm/dirty_ratio";

/// A whole line, as any version writes it.
fn line(json: &str) -> String {
    format!("{} {:08x} {json}\n", json.len(), crc32fast::hash(json.as_bytes()))
}

/// A change of a sysctl as version 1 wrote it.
fn change(id: u64, path: &str, old: &str, new: &str) -> String {
    line(&format!(
        r#"{{"record":"change","id":{id},"boot":"boot-1","setting":"x","path":"{path}","identity":{{}},"old":"{old}","new":"{new}"}}"#
    ))
}

fn done(id: u64) -> String {
    line(&format!(r#"{{"record":"done","id":{id}}}"#))
}

/// What a version that is not there yet might write.
fn newer() -> String {
    line(
        r#"{"v":4,"by":"9.9.9","record":"change","id":2,"setting":"vm.swappiness","path":"/proc/sys/vm/swappiness"}"#,
    )
}

struct Host {
    state: tempfile::TempDir,
    tree: Tree,
}

impl Host {
    /// A machine on which a killed process has left two sysctls changed, with these lines in its ledger.
    fn with(lines: &[String]) -> Self {
        let (state, tree) = (tempfile::tempdir().unwrap(), Tree::new(Tunables::Global, "ondemand"));
        tree.set(SWAPPINESS, "10");
        tree.set(DIRTY_RATIO, "5");
        fs::write(state.path().join("ledger"), lines.concat()).unwrap();
        Self { state, tree }
    }

    fn ledger(&self) -> PathBuf {
        self.state.path().join("ledger")
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.ledger()).unwrap()
    }

    fn open(&self) -> Result<RestoreReport, Error> {
        Ledger::open(self.state.path(), &&self.tree).map(|(_, report)| report)
    }

    fn recover(&self) -> RestoreReport {
        Ledger::recover(self.state.path(), &&self.tree).unwrap().1
    }

    fn values(&self) -> [String; 2] {
        [SWAPPINESS, DIRTY_RATIO].map(|path| self.tree.get(path).unwrap())
    }

    /// The copies of damaged ledgers.
    fn copies(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state.path()).unwrap().map(|entry| entry.unwrap().path());
        let is_copy = |path: &PathBuf| path.to_str().unwrap().contains("ledger.damaged-");
        entries.filter(is_copy).collect()
    }
}

const BEFORE: [&str; 2] = ["60", "20"];
const CHANGED: [&str; 2] = ["10", "5"];

fn swappiness() -> String {
    change(1, SWAPPINESS, "60", "10")
}

fn dirty_ratio() -> String {
    change(3, DIRTY_RATIO, "20", "5")
}

fn damaged(line: &str) -> String {
    line.replacen("swappiness", "swappinesz", 1)
}

#[test]
fn what_version_1_left_is_undone() {
    let got = line(r#"{"record":"got","id":1,"value":"10"}"#);
    let host = Host::with(&[swappiness(), got, done(2), dirty_ratio()]);
    let report = host.open().unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(host.values(), BEFORE);
    assert_eq!(host.bytes(), b"");
}

#[test]
fn a_line_of_a_newer_version_stops_everything_and_nothing_is_touched() {
    let unknown_kind = line(r#"{"v":2,"by":"9.9.9","record":"spell","id":2}"#);
    let unknown_field = line(r#"{"v":2,"by":"9.9.9","record":"done","id":1,"only_if":"x"}"#);
    let hostile = change(2, "/etc/passwd", "root::0:0::/:/bin/sh", "x").replace("9.9.9", "");
    for foreign in [newer(), unknown_kind, unknown_field, hostile] {
        for lines in [
            vec![foreign.clone()],
            vec![swappiness(), foreign.clone()],
            vec![swappiness(), foreign.clone(), dirty_ratio()],
            vec![damaged(&swappiness()), foreign.clone(), dirty_ratio()[..20].to_owned()],
        ] {
            let host = Host::with(&lines);
            let before = host.bytes();
            for error in [
                host.open().unwrap_err(),
                Ledger::recover(host.state.path(), &&host.tree).map(drop).unwrap_err(),
            ] {
                let text = error.to_string();
                assert!(matches!(error, Error::NotUnderstood { .. }), "{text}");
                assert!(text.contains("nothing was touched") && text.contains("flyball restore"), "{text}");
                let says_version = foreign.contains("9.9.9");
                assert_eq!(text.contains("of version 9.9.9"), says_version, "{text}");
            }
            assert_eq!(host.bytes(), before);
            assert_eq!(host.values(), CHANGED);
            assert!(host.tree.writes.borrow().is_empty() && host.copies().is_empty());
        }
    }
}

#[test]
fn status_shows_what_it_understands_and_says_that_there_is_more() {
    let host = Host::with(&[swappiness(), newer(), newer()]);
    let seen = status(host.state.path(), &&host.tree).unwrap();
    assert_eq!(seen.changes.len(), 1);
    assert_eq!(seen.changes[0].outcome, UndoOutcome::Restored { from: "10".into(), to: "60".into() });
    let [problem] = &seen.problems[..] else { panic!("{:?}", seen.problems) };
    assert!(problem.contains("lines 2, 3: the first of these was written by Flyball 9.9.9"), "{problem}");
}

#[test]
fn what_a_newer_version_has_undone_itself_is_read_again() {
    let host = Host::with(&[newer()]);
    assert!(host.open().is_err());
    // Its own `restore` leaves an empty file.
    fs::write(host.ledger(), "").unwrap();
    assert!(host.open().unwrap().is_clean());
}

#[test]
fn nothing_is_changed_on_a_damaged_ledger_until_somebody_was_told() {
    for lines in [
        vec![damaged(&swappiness()), dirty_ratio()],
        vec![dirty_ratio(), damaged(&swappiness())],
        vec!["\0\0\0\n".to_owned(), dirty_ratio()],
    ] {
        let host = Host::with(&lines);
        for _ in 0..2 {
            let text = host.open().unwrap_err().to_string();
            assert!(text.contains("cannot be read") && text.contains("run `flyball restore`"), "{text}");
            assert_eq!(host.values(), ["10", "20"], "what is known is undone at once");
        }
        assert!(host.copies().is_empty());
        let seen = status(host.state.path(), &&host.tree).unwrap();
        assert!(seen.problems.len() == 1 && seen.changes.is_empty(), "{seen:?}");
        let report = host.recover();
        assert!(report.damage.len() == 2 && !report.is_clean(), "{report:?}");
        let copies = host.copies();
        assert!(fs::read(&copies[0]).unwrap().starts_with(lines.concat().as_bytes()));
        assert!(report.damage[1].contains(copies[0].to_str().unwrap()), "{report:?}");
        assert!(host.recover().is_clean() && host.open().unwrap().is_clean());
        assert_eq!(host.copies(), copies);
    }
}

#[test]
fn a_damaged_ledger_of_which_no_copy_can_be_kept_is_not_emptied() {
    let host = Host::with(&[damaged(&swappiness()), dirty_ratio()]);
    // The name of the copy is taken: this machine's clock stands still.
    let taken = host.state.path().join("ledger.damaged-0");
    fs::create_dir(&taken).unwrap();
    for _ in 0..2 {
        let report = host.recover();
        assert!(report.damage[1].contains("no copy"), "{report:?}");
        assert_eq!(host.values(), ["10", "20"]);
        assert!(host.bytes().starts_with(damaged(&swappiness()).as_bytes()));
    }
    fs::remove_dir(&taken).unwrap();
    assert!(host.recover().damage[1].contains("is kept as"));
    assert_eq!(host.bytes(), b"");
}

#[test]
fn a_recovery_that_dies_after_a_torn_line_damages_nothing() {
    for after in 0..20 {
        let host = Host::with(&[swappiness(), dirty_ratio(), dirty_ratio()[..30].to_owned()]);
        let death = Death { after, counted: Counted::All, moment: Moment::After, manner: Manner::Unwind };
        let machine = FailingMachine::new(&host.tree, death);
        let died = catch_unwind(AssertUnwindSafe(|| Ledger::open(host.state.path(), &machine).map(drop)));
        assert!(died.is_err() || after > 5, "{after}: nothing died");
        let report = host.open().unwrap();
        assert!(report.damage.is_empty() && report.failed().next().is_none(), "{after}: {report:?}");
        assert_eq!(host.values(), BEFORE, "{after}");
    }
}

#[test]
fn a_ledger_of_more_than_64_mib_is_read_to_its_end() {
    let mut lines = vec![swappiness()];
    let mut size = 0;
    for id in 10.. {
        let pair = change(id, DIRTY_RATIO, "20", "30") + &done(id);
        size += pair.len();
        lines.push(pair);
        if size > 66 << 20 {
            break;
        }
    }
    lines.push(change(5, DIRTY_RATIO, "20", "5"));
    let host = Host::with(&lines);
    assert!(fs::metadata(host.ledger()).unwrap().len() > 64 << 20);
    let seen = status(host.state.path(), &&host.tree).unwrap();
    assert_eq!((seen.changes.len(), seen.problems.len()), (2, 0));
    assert!(host.open().unwrap().is_clean());
    assert_eq!(host.values(), BEFORE);
    assert_eq!(host.bytes(), b"");
}

#[test]
fn very_many_changes_that_are_not_undone_are_undone() {
    const MANY: u64 = 100_000;
    let all: Vec<String> = (0..MANY).map(|id| change(id, SWAPPINESS, "60", "10")).collect();
    let host = Host::with(&all);
    assert_eq!(status(host.state.path(), &&host.tree).unwrap().changes.len(), MANY as usize);
    assert_eq!(host.open().unwrap().undone.len(), MANY as usize);
    assert_eq!(host.values()[0], "60");
}

/// Lasting changes as version 1 wrote them.
const LASTING: &str = r#"{
  "version": 1,
  "phase": "done",
  "entries": [
    {"setting": "vm.swappiness", "asked": "vm.swappiness", "path": "/proc/sys/vm/swappiness", "identity": {},
     "inverse": {"old": "60"}, "new": "10", "vehicle": "sysctl", "when_ns": 1, "boot": "boot-1"}
  ],
  "files": []
}"#;

fn write_lasting(state: &Path, text: &str) -> PathBuf {
    let path = state.join("lasting.json");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn lasting_changes_of_version_1_are_read_as_ever() {
    let host = Host::with(&[]);
    let path = write_lasting(host.state.path(), LASTING);
    assert!(host.open().unwrap().is_clean());
    assert_eq!(fs::read_to_string(&path).unwrap(), LASTING);
}

#[test]
fn lasting_changes_that_a_newer_version_wrote_stop_everything() {
    let field = |new: &str| LASTING.replace("\"phase\"", &format!("\"by\": \"9.9.9\", {new}\"phase\""));
    for text in [
        field("").replace("\"version\": 1", "\"version\": 2"),
        field("\"if\": 1, "),
        field("").replace("\"new\":", "\"newer\": \"x\", \"new\":"),
        field("").replace("\"sysctl\"", "\"telepathy\""),
        field("").replace("/proc/sys/vm/swappiness", "/etc/passwd"),
        field("").replace("[]", r#"[{"vehicle": "sysctl", "path": "/etc/cron.d/x", "content": "x"}]"#),
    ] {
        let host = Host::with(&[dirty_ratio()]);
        let (path, before) = (write_lasting(host.state.path(), &text), host.bytes());
        for error in
            [host.open().unwrap_err(), Ledger::recover(host.state.path(), &&host.tree).map(drop).unwrap_err()]
        {
            let said = error.to_string();
            assert!(matches!(error, Error::NotUnderstood { .. }), "{said}");
            assert!(said.contains("`flyball tune --undo` of version 9.9.9"), "{said}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!((host.bytes(), host.values()), (before, CHANGED.map(str::to_owned)));
    }
}

#[test]
fn torn_lasting_changes_are_left_and_all_else_is_undone() {
    let host = Host::with(&[dirty_ratio()]);
    let torn = &LASTING[..100];
    let path = write_lasting(host.state.path(), torn);
    let said = host.open().unwrap_err().to_string();
    assert!(said.contains("lasting.json") && said.contains("nothing is changed before"), "{said}");
    assert_eq!(host.values(), ["10", "20"]);
    let report = host.recover();
    assert!(report.damage.len() == 1 && report.damage[0].contains("it was left as it is"), "{report:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), torn);
}

#[test]
fn a_lasting_change_that_was_cut_short_is_completed_beside_a_damaged_ledger() {
    let host = Host::with(&[damaged(&dirty_ratio().replace("dirty_ratio", "swappiness")), swappiness()]);
    let path =
        write_lasting(host.state.path(), &LASTING.replace("\"done\"", r#"{"making": {"ledger": [1]}}"#));
    assert!(host.open().is_err());
    assert_eq!(host.values()[0], "10", "what is decided to last is not undone");
    assert!(fs::read_to_string(&path).unwrap().contains("\"phase\": \"done\""));
    assert!(!host.bytes().is_empty(), "the damaged line was lost");
    assert!(!host.recover().damage.is_empty() && host.open().unwrap().is_clean());
    assert_eq!(host.values()[0], "10");
}
