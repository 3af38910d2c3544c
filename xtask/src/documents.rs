//! What documents name is there: the files of CONTRIBUTING.md, and where links lead.
//!
//! Not a goal: addresses of other sites; the pages of `docs/studies`, which are made and checked from runs.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The document that says which files a change touches.
const CONTRIBUTING: &str = "CONTRIBUTING.md";

/// What stands for a name in a path: `workload-NAME.md`.
const PLACEHOLDER: &str = "NAME";

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// All that documents name and that is not there, as lines for people.
pub fn check() -> Result<Vec<String>, Box<dyn Error>> {
    let root = root();
    let mut problems = named_and_missing(&root, &fs::read_to_string(root.join(CONTRIBUTING))?);
    for document in documents(&root)? {
        problems.extend(broken_links(&root, &document)?);
    }
    Ok(problems)
}

/// The documents of this repository, in order.
fn documents(root: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let folders = ["", "docs", "docs/adr", "docs/study-format"];
    let mut found = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Paths in a text that lead to nothing.
fn named_and_missing(root: &Path, text: &str) -> Vec<String> {
    let missing = |line: &str| {
        let paths = paths(root, line).into_iter().filter(|path| !root.join(path).exists());
        paths.map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(index, line)| missing(line).into_iter().map(move |path| (index + 1, path)))
        .map(|(line, path)| format!("{CONTRIBUTING}:{line}: there is no `{path}`"))
        .collect()
}

/// What of a line's code is a path from the root: its first part is there, and no part is a placeholder.
fn paths<'t>(root: &Path, line: &'t str) -> Vec<&'t str> {
    let code = line.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| {
        let first = word.split('/').next().unwrap_or_default();
        let is_plain = !word.contains([' ', '*', '=']) && !word.contains(PLACEHOLDER);
        let is_file = first.ends_with(".md") || word.contains('/');
        is_plain && is_file && !word.starts_with('/') && (first.ends_with(".md") || root.join(first).exists())
    };
    code.filter(is_path).filter(|word| !word.starts_with("target/")).collect()
}

/// Relative links of a document that lead to no file, or to no heading of it.
fn broken_links(root: &Path, document: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let text = fs::read_to_string(document)?;
    let shown = document.strip_prefix(root).unwrap_or(document).display().to_string();
    let mut problems = Vec::new();
    for (line, link) in links(&text) {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { document.to_owned() } else { joined(document, file) };
        if !target.exists() {
            problems.push(format!("{shown}:{line}: the link `{link}` leads to no file"));
        } else if !heading.is_empty() && !headings(&fs::read_to_string(&target)?).contains(heading) {
            problems.push(format!("{shown}:{line}: the link `{link}` leads to no heading"));
        }
    }
    Ok(problems)
}

fn joined(document: &Path, file: &str) -> PathBuf {
    document.parent().unwrap_or(Path::new("")).join(file)
}

/// Lines outside blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((index + 1, line))
    })
}

/// The links of a text to files of this repository, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let of_line = |line: &'_ str| -> Vec<(usize, usize)> {
        let starts = line.match_indices("](").map(|(at, _)| at + 2);
        starts.filter_map(|start| Some((start, start + line[start..].find(')')?))).collect()
    };
    let all = prose(text).flat_map(|(number, line)| {
        of_line(line).into_iter().map(move |(start, end)| (number, &line[start..end]))
    });
    all.filter(|(_, link)| !link.contains("://") && !link.starts_with("mailto:")).collect()
}

/// The anchors of a text's headings, as forges make them: lower case, words joined by `-`, no punctuation.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = prose(text).filter_map(|(_, line)| line.strip_prefix('#'));
    let anchor = |title: &str| {
        let kept = title.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles.map(anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least number of typical changes that CONTRIBUTING.md lists.
    const TYPICAL_CHANGES: usize = 20;

    #[test]
    fn each_file_that_a_document_names_is_there() {
        let problems = check().unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn twenty_typical_changes_name_their_files() {
        let root = root();
        let text = fs::read_to_string(root.join(CONTRIBUTING)).unwrap();
        let (_, table) = text.split_once("\n|---|---|\n").unwrap();
        let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
        assert!(rows.len() >= TYPICAL_CHANGES, "{}", rows.len());
        for row in rows {
            assert!(!paths(&root, row).is_empty(), "names no file: {row}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_told_with_its_line() {
        let text = "`xtask/src/tidy.rs`, `docs/workload-NAME.md`\n`xtask/src/gone.rs` and `cargo xtask tidy` and `GONE.md`\n";
        let found = named_and_missing(&root(), text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("CONTRIBUTING.md:2:") && found[0].ends_with("`xtask/src/gone.rs`"));
    }

    #[test]
    fn links_are_found_outside_code_and_headings_become_anchors() {
        let text =
            "# A `[stack.NAME]`: two words\n```\n[no](no.md)\n# no\n```\n[a](b.md#c), [d](https://e)\n";
        assert_eq!(links(text), [(6, "b.md#c")]);
        assert_eq!(headings(text).into_iter().collect::<Vec<_>>(), ["a-stackname-two-words"]);
    }
}
