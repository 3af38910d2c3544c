//! Studies as a command names them: those that ship with the program, by name, and a user's own, by path.
//!
//! A shipped study is named by its file in `studies/` without the ending: `quick`, `published/dmcrypt`. Its
//! own `name`, by which its runs are called, is understood too where it differs: `dmcrypt-published`.
//!
//! A file that is there wins: `quick.toml` and `./quick` always mean a file, `quick` means the shipped study
//! unless a regular file of that very name is there.

use crate::error::{Error, Result};
use crate::shipped::{hint, is_path};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The command that lists the shipped studies.
pub const LIST: &str = "flyball list --studies";

/// A bound on a study file: more than a study may have, which then says how much that is.
const MAX_STUDY: u64 = 2 << 20;

/// A study that ships with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShippedStudy {
    /// What it is called on a command line.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),*) => {
        &[$(ShippedStudy {
            name: $name,
            text: include_str!(concat!("../../../studies/", $name, ".toml")),
        }),*]
    };
}

/// The shipped studies: every file of `studies/` and `studies/published/`.
pub const SHIPPED: &[ShippedStudy] = shipped![
    "check",
    "dmcrypt-beside",
    "dmcrypt-duty",
    "dmcrypt-ondemand",
    "governor-grid",
    "iometer",
    "lab-drivers",
    "mariadb-threads",
    "md-grid",
    "oltp-governors",
    "oltp-hz",
    "oltp-idle-states",
    "oltp-transition",
    "quick",
    "raid-levels",
    "raid-levels-depths",
    "raid10-governors",
    "raid10-jobs",
    "raid10-kernels",
    "raid10-upgrade",
    "raid5-cables",
    "raid5-journal",
    "raid5-journal-sim",
    "readahead",
    "sequential-grid",
    "published/dmcrypt",
    "published/dmcrypt-assumptions",
    "published/dmcrypt-utilisation",
    "published/raid-levels",
    "published/raid10",
    "published/raid5-ext3"
];

impl ShippedStudy {
    /// The shipped study that a word means: the name of its file without the ending, or its own `name`.
    pub fn find(word: &str) -> Option<Self> {
        let by_file = SHIPPED.iter().find(|study| study.name == word);
        by_file.or_else(|| SHIPPED.iter().find(|study| study.own_name() == Some(word))).copied()
    }

    /// The study's own `name`, which its runs are called by.
    pub fn own_name(&self) -> Option<&'static str> {
        let line = self.text.lines().find_map(|line| line.strip_prefix("name = \""))?;
        line.split('"').next()
    }
}

/// The text of a study, and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudySource {
    /// What messages and commands call it: the path as it was given, or the shipped name.
    pub shown: String,
    /// Its text.
    pub text: Cow<'static, str>,
    /// Where it is from.
    pub origin: StudyOrigin,
}

/// Where a study is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StudyOrigin {
    /// A file in this folder, which is absolute.
    File(PathBuf),
    /// The program itself.
    Shipped,
}

impl StudySource {
    /// The study that a command names.
    ///
    /// # Errors
    /// [`Error::Usage`], with the nearest name.
    pub fn find(named: &Path) -> Result<Self> {
        match named.to_str().and_then(ShippedStudy::find).filter(|_| !named.is_file()) {
            Some(shipped) => Ok(Self::shipped(shipped)),
            None => Self::file(named),
        }
    }

    /// A study that ships with the program.
    pub fn shipped(study: ShippedStudy) -> Self {
        let text = Cow::Borrowed(study.text);
        Self { shown: study.name.to_owned(), text, origin: StudyOrigin::Shipped }
    }

    /// A study that this one names by a path: seen from its own folder, else from `studies/` as it ships.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn named_here(&self, path: &str) -> Result<Self> {
        let shipped = ShippedStudy::find(path.strip_suffix(".toml").unwrap_or(path));
        match (&self.origin, shipped) {
            (StudyOrigin::Shipped, Some(shipped)) => Ok(Self::shipped(shipped)),
            (StudyOrigin::File(_), Some(shipped)) if !self.beside(path).is_file() => {
                Ok(Self::shipped(shipped))
            }
            _ => Self::file(&self.beside(path)),
        }
    }

    /// The path of a file beside this study, as a message shows it.
    fn beside(&self, path: &str) -> PathBuf {
        match self.origin {
            StudyOrigin::File(_) => Path::new(&self.shown).parent().unwrap_or(Path::new("")).join(path),
            StudyOrigin::Shipped => PathBuf::from(path),
        }
    }

    fn file(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let text = files::regular::text(path, MAX_STUDY).map_err(|error| {
            Error::Usage(format!("cannot read the study `{shown}`: {}", why(path, &error)))
        })?;
        let absolute =
            std::path::absolute(path).map_err(Error::during(format!("cannot make `{shown}` absolute")))?;
        let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Self { shown, text: Cow::Owned(text), origin: StudyOrigin::File(folder) })
    }

    /// Whether it is the file of a user's, though a shipped study has that name.
    pub fn hides_a_shipped_one(&self) -> bool {
        matches!(self.origin, StudyOrigin::File(_)) && ShippedStudy::find(&self.shown).is_some()
    }

    /// The study file's folder, whose git revision is noted; `None` for one that ships with the program.
    pub fn home(&self) -> Option<&Path> {
        match &self.origin {
            StudyOrigin::File(folder) => Some(folder),
            StudyOrigin::Shipped => None,
        }
    }

    /// The folder from which machines, disks and tables are named by a path: the study's, or for one that
    /// ships with the program, and names none by a path, the one in which the command was given.
    ///
    /// # Errors
    /// Where there is no such folder any more.
    pub fn folder(&self) -> Result<PathBuf> {
        match &self.origin {
            StudyOrigin::File(folder) => Ok(folder.clone()),
            StudyOrigin::Shipped => std::env::current_dir()
                .map_err(Error::during("cannot find the folder that this was typed in")),
        }
    }
}

/// Why a study cannot be read, and what to do: a path is told as the system does, with how to come to a
/// study; a bare name by what is near.
fn why(path: &Path, error: &std::io::Error) -> String {
    let word = path.to_string_lossy();
    let names = SHIPPED.iter().map(|study| study.name);
    match error.kind() {
        std::io::ErrorKind::NotFound => {}
        std::io::ErrorKind::InvalidData => {
            return format!("{error}; a study is text, in TOML: `flyball new` writes one");
        }
        std::io::ErrorKind::PermissionDenied => {
            return format!("{error}; run it as a user who may read the file, or copy it to where you may");
        }
        _ => return error.to_string(),
    }
    if !is_path(&word) {
        return format!("no file and no shipped study is named so; {}", hint(&word, names, LIST));
    }
    let stem = word.strip_suffix(".toml").unwrap_or(&word);
    let tail = stem.rsplit_once("studies/").map_or(stem, |(_, tail)| tail);
    match ShippedStudy::find(tail) {
        Some(study) => format!("{error}; the study `{}` ships with flyball, by that name", study.name),
        None if stem.starts_with("published/") => format!("{error}; {}", hint(stem, names, LIST)),
        None => format!("{error}; `flyball new` writes a study, `{LIST}` lists what ships with flyball"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk_files;
    use crate::simulation;
    use domain::plan::Plan;
    use domain::rng::Seed;
    use std::collections::BTreeSet;

    fn error(word: &str) -> String {
        StudySource::find(Path::new(word)).unwrap_err().to_string()
    }

    #[test]
    fn each_file_of_the_folders_is_shipped() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");
        let mut files = BTreeSet::new();
        for (folder, prefix) in [(root.to_owned(), ""), (format!("{root}/published"), "published/")] {
            for entry in std::fs::read_dir(folder).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if let Some(stem) = name.strip_suffix(".toml") {
                    files.insert(format!("{prefix}{stem}"));
                }
            }
        }
        let listed: BTreeSet<String> = SHIPPED.iter().map(|study| study.name.to_owned()).collect();
        assert_eq!(files, listed);
    }

    #[test]
    fn a_shipped_study_names_nothing_that_does_not_ship() {
        let nowhere = Path::new("/nonexistent");
        for shipped in SHIPPED {
            let source = StudySource::shipped(*shipped);
            let study = parse::study::parse_for_lab(shipped.text).unwrap();
            assert_eq!(shipped.own_name(), Some(study.name.as_str()), "{}", shipped.name);
            for disk in &study.lab.disks {
                disk_files::disk(&disk.model, nowhere).unwrap();
            }
            for link in &study.lab.links {
                disk_files::link(&link.model, nowhere).unwrap();
            }
            for cell in Plan::new(study.clone(), Seed(0)).unwrap().cells {
                if let Some(table) = &cell.pstates {
                    lab::pstates::load(table, nowhere).unwrap();
                }
                if let Some(machine) = &cell.machine {
                    simulation::load(machine, nowhere).unwrap();
                }
            }
            for part in study.page.iter().flat_map(|page| &page.parts).filter_map(|part| part.study.as_ref())
            {
                assert_eq!(source.named_here(part).unwrap().origin, StudyOrigin::Shipped, "{part}");
            }
        }
    }

    #[test]
    fn a_study_is_found_by_its_file_s_name_and_by_its_own() {
        let find = |word: &str| StudySource::find(Path::new(word)).unwrap();
        assert_eq!(find("quick").origin, StudyOrigin::Shipped);
        assert_eq!(find("published/dmcrypt"), find("dmcrypt-published"));
        assert_eq!(find("dmcrypt-published").shown, "published/dmcrypt");
        assert_eq!(find("quick").home(), None);
    }

    #[test]
    fn a_path_means_a_file_and_what_it_names_lies_beside_it_or_ships() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("quick");
        std::fs::write(&file, "mine").unwrap();
        let mine = StudySource::find(&file).unwrap();
        assert_eq!(mine.text, "mine");
        assert_eq!(mine.home(), Some(folder.path()));
        assert_eq!(mine.named_here("published/dmcrypt.toml").unwrap().origin, StudyOrigin::Shipped);
        std::fs::create_dir(folder.path().join("published")).unwrap();
        std::fs::write(folder.path().join("published/dmcrypt.toml"), "other").unwrap();
        assert_eq!(mine.named_here("published/dmcrypt.toml").unwrap().text, "other");
        let said = mine.named_here("part.toml").unwrap_err().to_string();
        assert!(said.contains("part.toml`: No such file"), "{said}");
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest_and_how_to_list_them() {
        let said = error("raid-level");
        assert!(said.contains("`raid-level`: no file and no shipped study"), "{said}");
        assert!(said.contains("did you mean `raid-levels`? `flyball list --studies`"), "{said}");
        let said = error("published/dmcrpt");
        assert!(
            said.contains("No such file") && said.contains("did you mean `published/dmcrypt`?"),
            "{said}"
        );
        let said = error("/nonexistent/studies/quick.toml");
        assert!(said.contains("No such file") && said.contains("`quick` ships with flyball"), "{said}");
        let said = error("/nonexistent/mine.toml");
        assert!(
            said.contains("No such file or directory (os error 2); `flyball new` writes a study"),
            "{said}"
        );
        assert!(error("/").contains("it is a"), "{}", error("/"));
    }
}
