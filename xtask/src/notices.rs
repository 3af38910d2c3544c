//! The licences of all that is in a released program, with their texts, as those licences demand.

use crate::shipped::{self, Shipped};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

/// How the names of files begin that have a licence's text, in small letters.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// The packages of others in a release for a platform, each with its licence; then each text once, with the
/// packages that it is from.
///
/// # Errors
/// Where cargo cannot say what is shipped, or a file cannot be read.
pub fn of_release(target: &str) -> Result<String, Box<dyn Error>> {
    let metadata = shipped::metadata(target)?;
    let all = shipped::packages(&metadata)?;
    let foreign: Vec<&Shipped> = all.iter().filter(|shipped| shipped.package.source.is_some()).collect();
    let mut list = String::from("The program `flyball` has code of these packages in it.\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for shipped in foreign {
        let package = shipped.package;
        let name = format!("{} {}", package.name, package.version);
        list += &format!("{name}: {}\n", shipped::licence(package)?);
        let folder = package.manifest_path.parent().ok_or("a manifest lies in no folder")?;
        for text in licence_texts(folder.as_std_path())? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut by_user: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, from)| (from, text)).collect();
    by_user.sort();
    for (from, text) in by_user {
        list += &format!("\n{}\nFrom {}:\n\n{}\n", "-".repeat(80), from.join(", "), text.trim_end());
    }
    Ok(list)
}

/// The texts in a package's own folder, by the names of their files.
fn licence_texts(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if NAMES.iter().any(|begin| name.starts_with(begin)) && entry.file_type()?.is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let read = |path: &Path| {
        let bytes = fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
    };
    paths.iter().map(|path| read(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_licence_is_there_once_however_many_packages_have_it() {
        let notices = of_release("x86_64-unknown-linux-gnu").unwrap();
        assert!(notices.contains("\nrusqlite ") && !notices.contains("\ndomain "), "{}", &notices[..400]);
        let lines: Vec<&str> = notices.lines().filter(|line| line.starts_with("From ")).collect();
        assert!(lines.iter().any(|line| line.matches(',').count() > 3), "{lines:?}");
    }

    #[test]
    fn only_files_of_licences_are_texts() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("LICENSE-MIT", "may\r\n"), ("README.md", "read"), ("Copying", "copy")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::create_dir(folder.path().join("licenses")).unwrap();
        assert_eq!(licence_texts(folder.path()).unwrap(), ["copy", "may\n"]);
    }
}
