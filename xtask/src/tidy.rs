//! The shape of the house, asserted: which crate may know which, what the pure ones must not touch, and that
//! the code map in ARCHITECTURE.md names every crate. What documents name is looked up by `documents`.
//!
//! Not a goal: style that rustfmt and clippy already see to.

use crate::{binary_size, documents};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The arrows that the design allows: a crate, and all crates of this workspace that it may depend on.
const ARROWS: [(&str, &[&str]); 34] = [
    ("domain", &[]),
    ("event-queue", &[]),
    ("files", &[]),
    ("strict-toml", &["domain"]),
    ("workloads", &["domain"]),
    ("trace-file", &["domain"]),
    ("parse", &["domain", "strict-toml", "trace-file", "workloads"]),
    ("events", &["domain", "parse"]),
    ("timeline", &["domain", "events"]),
    ("analysis", &["domain", "workloads"]),
    ("watch", &["domain", "analysis"]),
    ("governors", &["domain"]),
    ("disks", &["domain", "event-queue", "strict-toml"]),
    ("sim", &["domain", "disks", "event-queue", "governors", "strict-toml", "workloads"]),
    ("replay", &["event-queue", "domain", "analysis", "disks", "governors", "sim"]),
    ("report", &["domain", "analysis", "disks", "governors", "sim", "replay"]),
    ("machine", &["domain", "files", "parse"]),
    ("recorder", &["domain", "parse", "events"]),
    ("confine", &[]),
    (
        "runner",
        &["domain", "confine", "workloads", "files", "parse", "events", "analysis", "machine", "recorder"],
    ),
    ("notebook", &["domain", "files", "trace-file"]),
    ("exporters", &["domain", "workloads", "events", "timeline", "analysis", "report", "notebook"]),
    (
        "results",
        &[
            "domain",
            "files",
            "parse",
            "events",
            "analysis",
            "replay",
            "report",
            "notebook",
            "workloads",
            "exporters",
            "watch",
        ],
    ),
    ("lab", &["domain", "disks", "files", "machine", "strict-toml", "workloads"]),
    (
        "session",
        &[
            "domain",
            "disks",
            "workloads",
            "files",
            "strict-toml",
            "parse",
            "events",
            "analysis",
            "machine",
            "recorder",
            "runner",
            "notebook",
            "governors",
            "sim",
            "lab",
        ],
    ),
    ("guest", &["domain", "workloads", "files", "parse", "machine", "runner", "notebook", "lab"]),
    ("importer", &["domain", "analysis", "confine", "parse", "events", "machine", "notebook", "session"]),
    ("command-line", &["domain", "events", "exporters"]),
    (
        "terminal",
        &[
            "domain",
            "files",
            "analysis",
            "watch",
            "report",
            "machine",
            "notebook",
            "exporters",
            "results",
            "session",
        ],
    ),
    ("pstate-plugin", &[]),
    // For tests alone, and for what runs them.
    ("testing", &[]),
    ("illnesses", &["domain", "parse", "analysis", "disks", "governors", "sim"]),
    (
        "flyball",
        &[
            "domain",
            "disks",
            "workloads",
            "files",
            "strict-toml",
            "parse",
            "events",
            "analysis",
            "report",
            "machine",
            "recorder",
            "runner",
            "notebook",
            "governors",
            "sim",
            "lab",
            "replay",
            "guest",
            "importer",
            "results",
            "confine",
            "session",
            "exporters",
            "command-line",
            "terminal",
        ],
    ),
    ("xtask", &["domain", "parse", "events", "machine", "testing"]),
];

/// Crates that take values and return values, and touch nothing.
const PURE: [&str; 16] = [
    "domain",
    "event-queue",
    "strict-toml",
    "workloads",
    "disks",
    "trace-file",
    "parse",
    "events",
    "timeline",
    "analysis",
    "watch",
    "report",
    "governors",
    "sim",
    "replay",
    "command-line",
];

/// What a pure crate must not name outside its tests.
const IMPURE: [&str; 10] = [
    "std::fs",
    "std::process",
    "std::env",
    "std::net",
    "std::thread",
    "Instant::now",
    "SystemTime",
    "println!",
    "eprintln!",
    "thread_rng",
];

/// The crate that knows tools.
const WORKLOADS: &str = "workloads";

/// Where else a tool may be named, and why.
const NAMES_TOOLS: [(&str, &str); 4] = [
    ("crates/domain/src/study.rs", "a study's types name each tool"),
    ("crates/domain/src/plan.rs", "a plan expands the patterns of fio's and the placeholders of a command"),
    ("crates/parse/src/study/workload.rs", "a command is read from more than its name"),
    ("crates/sim/src/load/of_cell.rs", "which tools are simulated, and by which load"),
];

/// Where a layer of storage may be named, and why. The list of those that build names none: a macro does.
const NAMES_LAYERS: [(&str, &str); 2] = [
    ("crates/domain/src/stack/", "what each layer is, and the list of them"),
    ("crates/sim/src/assemble/storage.rs", "which layers are simulated, and by which parts"),
];

/// The program, which prints through the crate `terminal` alone, for there everything becomes inert.
const BINARY: &str = "flyball";

/// Ways to print past it.
const PRINTING: [&str; 9] = [
    "print!",
    "println!",
    "dbg!",
    "io::stdout",
    "io::stderr",
    "stdio::stdout",
    "stdio::stderr",
    "Stdio::inherit",
    "indicatif::",
];

/// Columns of a line, as in `rustfmt.toml`.
const WIDTH: usize = 110;

/// All that is out of shape, as lines for people.
pub fn check() -> Result<Vec<String>, Box<dyn Error>> {
    let metadata = MetadataCommand::new().no_deps().other_options(vec!["--offline".into()]).exec()?;
    let root = metadata.workspace_root.as_std_path();
    let mut problems = arrows(&metadata);
    for package in metadata.workspace_packages() {
        if PURE.contains(&package.name.as_str()) {
            problems.extend(named_in(package, root, &IMPURE, "a pure crate names")?);
        }
        if package.name.as_str() == BINARY {
            problems.extend(named_in(package, root, &PRINTING, "prints past the crate `terminal`, by")?);
            let source = package.manifest_path.parent().ok_or("a manifest without a folder")?.join("src");
            let source = source.as_std_path();
            problems.extend(binary_size::check(source, &rust_files(source)?)?);
        }
    }
    problems.extend(tools_named(&metadata, root)?);
    problems.extend(layers_named(&metadata, root)?);
    problems.extend(long_comments(&metadata, root)?);
    problems.extend(unmapped(&metadata, &fs::read_to_string(root.join("ARCHITECTURE.md"))?));
    problems.extend(documents::check()?);
    Ok(problems)
}

fn arrows(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.workspace_packages();
    let ours: Vec<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    let mut problems = Vec::new();
    for package in &packages {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name.as_str()) else {
            problems.push(format!(
                "{}: a crate without a place in the arrows of xtask/src/tidy.rs",
                package.name
            ));
            continue;
        };
        let dependencies = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
        let forbidden =
            dependencies.filter(|d| ours.contains(&d.name.as_str()) && !allowed.contains(&d.name.as_str()));
        problems.extend(forbidden.map(|d| format!("{}: must not depend on {}", package.name, d.name)));
    }
    problems
}

/// Where a tool is named outside the crate that knows tools, as lines for people. Whoever needs to know
/// something of a tool asks `workloads::of`, so that a new one touches no other crate.
fn tools_named(metadata: &Metadata, root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let knows = format!("crates/{WORKLOADS}/");
    let allowed: Vec<&str> = NAMES_TOOLS.iter().map(|(file, _)| *file).chain([knows.as_str()]).collect();
    named_outside(metadata, root, &allowed, names_a_tool, "names a tool; ask `workloads::of`")
}

/// Where a layer of storage is named outside the files that know layers, as lines for people: a new one
/// touches no other file.
fn layers_named(metadata: &Metadata, root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let allowed = NAMES_LAYERS.map(|(file, _)| file);
    let ask = "tells layers of storage apart; ask `domain::stack::Layer`";
    named_outside(metadata, root, &allowed, names_a_layer, ask)
}

/// The lines of code outside these files and folders, and outside tests, that are `odd`.
fn named_outside(
    metadata: &Metadata,
    root: &Path,
    allowed: &[&str],
    odd: fn(&str) -> bool,
    why: &str,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut problems = Vec::new();
    for package in metadata.workspace_packages() {
        let folder = package.manifest_path.parent().ok_or("a manifest without a folder")?.join("src");
        for file in rust_files(folder.as_std_path())? {
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let is_for_tests = shown.ends_with("/tests.rs") || shown.ends_with("/testing.rs");
            if is_for_tests || allowed.iter().any(|known| shown.starts_with(known)) {
                continue;
            }
            let text = fs::read_to_string(&file)?;
            let lines = code_lines(&text).filter(|(_, line)| odd(line));
            problems.extend(lines.map(|(line, _)| format!("{shown}:{line}: {why}")));
        }
    }
    Ok(problems)
}

/// Whether a line has a variant of `Tool`: `Tool::Fio`, not `Tool::new` or `SomeTool::Fio`.
fn names_a_tool(line: &str) -> bool {
    variants_of(line, "Tool::").any(|name| name.starts_with(char::is_uppercase))
}

/// Whether a line has a variant of `domain::stack::Part`, which bear the names of kinds, or gives that type
/// another name, under which its variants would not be found.
fn names_a_layer(line: &str) -> bool {
    let is_kind = |name: &str| domain::stack::kinds().any(|kind| name.eq_ignore_ascii_case(kind));
    variants_of(line, "Part::").any(is_kind) || variants_of(line, "Part ").any(|word| word == "as")
}

/// The names that follow a type's, where that is a word of its own.
fn variants_of<'l>(line: &'l str, owner: &'l str) -> impl Iterator<Item = &'l str> {
    let is_of_a_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(owner).filter_map(move |(at, _)| {
        let after = &line[at + owner.len()..];
        let end = after.find(|c| !is_of_a_word(c)).unwrap_or(after.len());
        (!line[..at].ends_with(is_of_a_word)).then_some(&after[..end])
    })
}

/// Where a crate's code names one of these, as lines for people.
fn named_in(
    package: &Package,
    root: &Path,
    what: &'static [&'static str],
    why: &str,
) -> Result<Vec<String>, Box<dyn Error>> {
    let folder = package.manifest_path.parent().ok_or("a manifest without a folder")?.join("src");
    let mut problems = Vec::new();
    for file in rust_files(folder.as_std_path())? {
        let text = fs::read_to_string(&file)?;
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let named = named_lines(&text, what);
        problems.extend(named.map(|(line, what)| format!("{shown}:{line}: {why} `{what}`")));
    }
    Ok(problems)
}

/// Lines outside comments and before the file's tests that name one of these.
fn named_lines<'t>(
    text: &'t str,
    all: &'static [&'static str],
) -> impl Iterator<Item = (usize, &'static str)> + 't {
    code_lines(text).filter_map(|(number, line)| {
        let named = all.iter().find(|what| line.contains(*what) || through_a_group(line, what))?;
        Some((number, *named))
    })
}

/// Lines outside comments and before the file's tests, with their numbers.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // A `#[cfg(test)]` over `mod testing;` or a single item hides nothing but that.
    let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let code = text[..tests].lines().enumerate();
    code.filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(index, line)| (index + 1, line))
}

/// Whether `use std::{fs, …}` brings in what `std::fs` names.
fn through_a_group(line: &str, what: &str) -> bool {
    let used = line.trim().strip_prefix("use ").and_then(|rest| rest.split_once("::{"));
    let (Some((path, list)), Some((module, wanted))) = (used, what.rsplit_once("::")) else { return false };
    path.rsplit("::").next() == Some(module)
        && list.split([',', '}', ';']).any(|item| item.trim().split("::").next() == Some(wanted))
}

/// All sources below a folder, in order.
pub fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Comments that rustfmt would leave as they are: it breaks lines of code alone.
fn long_comments(metadata: &Metadata, root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut problems = Vec::new();
    for package in metadata.workspace_packages() {
        let folder = package.manifest_path.parent().ok_or("a manifest without a folder")?;
        for file in rust_files(folder.as_std_path())? {
            let text = fs::read_to_string(&file)?;
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let long = text.lines().enumerate().filter(|(_, line)| is_long_comment(line));
            problems.extend(
                long.map(|(index, _)| format!("{shown}:{}: a comment beyond {WIDTH} columns", index + 1)),
            );
        }
    }
    Ok(problems)
}

/// A row of a table cannot be broken.
fn is_long_comment(line: &str) -> bool {
    let text = line.trim_start();
    let words = text.trim_start_matches(['/', '!', ' ']);
    text.starts_with("//") && !words.starts_with('|') && line.chars().count() > WIDTH
}

fn unmapped(metadata: &Metadata, map: &str) -> Vec<String> {
    let missing = |p: &&&Package| !map.contains(&format!("`{}`", p.name));
    let packages = metadata.workspace_packages();
    packages
        .iter()
        .filter(missing)
        .map(|p| format!("ARCHITECTURE.md: says nothing of the crate `{}`", p.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_in_shape() {
        let problems = check().unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn a_comment_beyond_the_width_is_found_and_a_table_is_not() {
        let long = "x".repeat(WIDTH);
        assert!(is_long_comment(&format!("    // {long}")) && is_long_comment(&format!("//! {long}")));
        assert!(
            !is_long_comment(&format!("//! | {long} |")) && !is_long_comment(&format!("let a = {long};"))
        );
        assert!(!is_long_comment(&format!("// {}", "ü".repeat(WIDTH - 3))));
    }

    #[test]
    fn impure_names_are_found_outside_comments_and_tests() {
        let text = "//! std::fs is not used\nuse std::fs;\nuse std::{collections::BTreeMap, env};\n\
                    #[cfg(test)]\nmod testing;\nuse std::net;\n#[cfg(test)]\nmod tests {\nuse std::process;\n}\n";
        let found: Vec<_> = named_lines(text, &IMPURE).collect();
        assert_eq!(found, [(2, "std::fs"), (3, "std::env"), (6, "std::net")]);
    }

    #[test]
    fn every_way_to_print_is_found() {
        let text = "eprintln!();\nlet out = std::io::stdout();\nuse rustix::stdio::{stdin, stdout};\nterminal::say();\n";
        let found: Vec<_> = named_lines(text, &PRINTING).collect();
        assert_eq!(found, [(1, "println!"), (2, "io::stdout"), (3, "stdio::stdout")]);
    }

    #[test]
    fn a_tool_is_found_by_its_name() {
        for line in
            ["match tool { Tool::Fio => 1 }", "    domain::study::Tool::Dd,", "tool == Tool::Command { .. }"]
        {
            assert!(names_a_tool(line), "{line}");
        }
        for line in ["Error::Tool(text)", "Tool::told", "MyTool::Fio", "FrequencySource::Tool => 1"] {
            assert!(!names_a_tool(line), "{line}");
        }
    }

    #[test]
    fn a_layer_is_found_by_its_name() {
        for line in
            ["let Part::Md(md) = part else {", "    stack::Part::Filesystem(_) => 1,", "Part as Kind,"]
        {
            assert!(names_a_layer(line), "{line}");
        }
        for line in [
            "Part::Head => 1",
            "BlockKind::Md(md)",
            "Part::new(name)",
            "pair::Part::Storage",
            "SomePart as X",
        ] {
            assert!(!names_a_layer(line), "{line}");
        }
    }

    #[test]
    fn no_allowed_arrow_runs_in_a_circle() {
        // Each crate may only depend on crates that stand above it in the table.
        for (index, (name, allowed)) in ARROWS.iter().enumerate() {
            for target in *allowed {
                let place = ARROWS.iter().position(|(n, _)| n == target);
                assert!(place.is_some_and(|p| p < index), "{name} -> {target}");
            }
        }
    }
}
