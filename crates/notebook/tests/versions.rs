//! Each file of a notebook as a newer version might write it: it is refused with that version's name, and
//! stays as it is. What version 1 wrote is read as ever; see `stored_notebooks.rs` for all that is in it.
#![allow(clippy::unwrap_used)]

use domain::ids::RunId;
use notebook::Notebook;
use notebook::kept::Kept;
use std::fs;
use std::path::{Path, PathBuf};

const RUN: &str = "stored-20261120-145516-7f3a";
const TRIAL: &str = "b00.randread_4k.a0";

/// A notebook that version 1 wrote.
fn stored() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    testing::copy_folder(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/notebooks/v1"),
        root.path(),
    );
    let skipped = r#"{"schema": 1, "written_by": "0.1.0", "cells": {}}"#;
    fs::write(root.path().join("runs").join(RUN).join("skipped.json"), skipped).unwrap();
    root
}

/// Reads a file of the notebook in a folder; what is wrong with it, in words.
type Reader = fn(&Path) -> Result<(), String>;

/// The files of a notebook that name a version, and what reads each.
const FILES: [(&str, Reader); 5] = [
    ("notebook.json", |root| open(root).map(drop)),
    ("runs/RUN/run.json", |root| told(open(root)?.run(&RunId(RUN.into())))),
    ("runs/RUN/skipped.json", |root| told(open(root)?.skipped(&RunId(RUN.into())))),
    ("runs/RUN/trials/TRIAL/trial.json", |root| {
        let (_, problems) = open(root)?.trials(&RunId(RUN.into())).map_err(|e| e.to_string())?;
        problems.first().map_or(Ok(()), |problem| Err(problem.reason.clone()))
    }),
    ("recordings/idle/recording.json", |root| {
        let (_, problems) = open(root)?.recordings().map_err(|e| e.to_string())?;
        problems.first().map_or(Ok(()), |problem| Err(problem.reason.clone()))
    }),
];

fn open(root: &Path) -> Result<Notebook, String> {
    Notebook::open(root).map_err(|error| error.to_string())
}

fn told<T>(read: notebook::Result<T>) -> Result<(), String> {
    read.map(drop).map_err(|error| error.to_string())
}

fn file(root: &Path, name: &str) -> PathBuf {
    root.join(name.replace("RUN", RUN).replace("TRIAL", TRIAL))
}

/// A file of version 1 as a later version might have written it.
fn with(text: &str, change: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) -> String {
    let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
    let fields = value.as_object_mut().unwrap();
    fields.insert("written_by".into(), "9.9.9".into());
    change(fields);
    value.to_string()
}

#[test]
fn every_file_of_version_1_is_read() {
    let root = stored();
    for (name, read) in FILES {
        assert_eq!(read(root.path()), Ok(()), "{name}");
    }
}

#[test]
fn a_file_of_a_newer_schema_is_refused_by_the_version_that_wrote_it_and_stays() {
    for (name, read) in FILES {
        let root = stored();
        let path = file(root.path(), name);
        let newer = with(&fs::read_to_string(&path).unwrap(), |fields| {
            let schema = if name == "notebook.json" { "flyball_notebook" } else { "schema" };
            fields.insert(schema.into(), 2.into()).unwrap();
        });
        fs::write(&path, &newer).unwrap();
        let said = read(root.path()).unwrap_err();
        assert!(said.contains("schema 2") && said.contains("use flyball 9.9.9"), "{name}: {said}");
        // Whatever else is done with the notebook.
        let _ = Notebook::open(root.path()).map(|notebook| drop(notebook.runs()));
        let run = || Notebook::create(root.path())?.open_run(&RunId(RUN.into()));
        let cells = std::collections::BTreeMap::new();
        let _ = run().map(|run| (run.note_skipped(&cells), run.forget_skipped(), run.trials().map(drop)));
        assert_eq!(fs::read_to_string(&path).unwrap(), newer, "{name}");
    }
}

#[test]
fn a_field_that_is_not_known_is_refused_by_the_version_that_wrote_it() {
    // The mark of a notebook is known by its number alone.
    for (name, read) in FILES.into_iter().filter(|(name, _)| *name != "notebook.json") {
        let root = stored();
        let path = file(root.path(), name);
        let newer = with(&fs::read_to_string(&path).unwrap(), |fields| {
            fields.insert("surprise".into(), true.into());
        });
        fs::write(&path, &newer).unwrap();
        let said = read(root.path()).unwrap_err();
        assert!(said.contains("`surprise`") && said.contains("flyball 9.9.9 wrote it"), "{name}: {said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), newer, "{name}");
    }
}

#[test]
fn a_kept_run_of_a_newer_version_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.lab.json");
    for (head, told) in [
        (r#"{"schema":2,"written_by":"9.9.9"}"#, "use flyball 9.9.9"),
        (r#"{"schema":1,"written_by":"9.9.9"}"#, "flyball 9.9.9 wrote it"),
    ] {
        fs::write(&path, format!(r#"{{"kept":{head},"trials":[]}}"#)).unwrap();
        let said = Kept::read(&path).unwrap_err().to_string();
        assert!(said.contains(told), "{said}");
    }
}
