//! Studies to begin with: drafted from a few words, or one that is there under another name.
//!
//! What is drafted is read back as a study first: a file that `flyball run` refuses is never made.

mod server;
mod text;

use crate::error::{Error, Result};
use crate::preflight;
use crate::shipped::nearest;
use crate::studies::{ShippedStudy, StudyOrigin, StudySource};
use domain::plan::Plan;
use domain::rng::Seed;
use domain::setting::SettingName;
use domain::study::{Factor, Study};
use domain::units::Bytes;
use machine::settings::{KNOWN, check_name};
use std::io::{ErrorKind, Write};
use std::path::Path;
use text::Draft;
pub(crate) use text::quoted;
use workloads::Needs;

/// The setting that `--governors` varies.
const GOVERNOR: &str = "governor";

/// The tool whose program and arguments are typed.
const COMMAND: &str = "command";

/// How large a target is where nobody says it: more than one request of any size, and quickly made.
const TARGET: &str = "256MiB";

/// What is wanted of a study; what is empty follows from the tool.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The study's name.
    pub name: Option<&'a str>,
    /// The workload's tool.
    pub tool: Option<&'a str>,
    /// Governors that are varied.
    pub governors: &'a [String],
    /// What else is varied: an option, a setting or a placeholder, and its levels.
    pub levels: &'a [(String, Vec<String>)],
    /// What the workload works on, as `flyball new --help` has it.
    pub target: Option<&'a str>,
    /// Whom the target's server knows Flyball as.
    pub user: Option<&'a str>,
    /// The file with that user's password.
    pub password_file: Option<&'a Path>,
    /// A command that is the workload.
    pub command: &'a [String],
    /// The file that it is written to, as one types it in a shell; `None` for `NAME.toml`.
    pub file: Option<&'a str>,
}

/// A study that was drafted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drafted {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// What whoever runs it should know.
    pub note: Option<String>,
}

fn usage<T>(why: String) -> Result<T> {
    Err(Error::Usage(why))
}

/// Writes a study to a file that is not there yet.
///
/// # Errors
/// [`Error::Refused`] where something is there; [`Error::While`].
pub fn write(path: &Path, text: &str) -> Result<()> {
    let cannot = || format!("cannot write the study `{}`", path.display());
    // A link of that name is not followed either.
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Error::Refused(format!(
                "{}: it is there already; give another NAME, or --out FILE",
                cannot()
            )));
        }
        opened => opened.map_err(Error::during(cannot()))?,
    };
    file.write_all(text.as_bytes()).map_err(Error::during(cannot()))
}

/// A study that is there, under another name where one is given: runs of the two are then not mixed up. It
/// varies these settings besides, each with its levels.
///
/// # Errors
/// [`Error::Usage`] for a name that no study can have, and for settings that cannot be varied in it; where
/// the text has no place for the name.
pub fn copied(
    source: &StudySource,
    study: &Study,
    name: Option<&str>,
    settings: &[(String, Vec<String>)],
) -> Result<Drafted> {
    let mut drafted = renamed(source, study, name)?;
    for (setting, levels) in settings {
        drafted.text += &varied(study, setting, levels)?;
    }
    if !settings.is_empty() {
        check(&drafted.text, preflight::in_itself)?;
    }
    Ok(drafted)
}

/// A factor over a setting, for the end of a study that does not vary it.
fn varied(study: &Study, setting: &str, levels: &[String]) -> Result<String> {
    if let Err(why) = check_name(&SettingName::parse(setting)) {
        return usage(format!("cannot vary `{setting}` in a study that is there: {why}"));
    }
    let name = factor_name(setting);
    let sets = |factor: &Factor| {
        let mut settings = factor.levels.iter().flat_map(|level| &level.settings);
        factor.name == name || settings.any(|one| one.setting.to_string() == setting)
    };
    if let Some(factor) = study.factors.iter().find(|factor| sets(factor)) {
        return usage(format!("cannot vary `{setting}`: the factor `{}` of the study does so", factor.name));
    }
    let factor = DraftFactor {
        name,
        what: Some(format!("setting = {}", quoted(setting))),
        levels: several(setting, levels)?.to_vec(),
    };
    Ok(format!("\n# Added by `flyball new`.\n{}", text::factor_table(&factor)))
}

fn renamed(source: &StudySource, study: &Study, name: Option<&str>) -> Result<Drafted> {
    let stem = match source.origin {
        StudyOrigin::Shipped => source.shown.rsplit('/').next().unwrap_or_default().to_owned(),
        StudyOrigin::File(_) => study.name.clone(),
    };
    let Some(name) = name else {
        return Ok(Drafted { name: stem, text: source.text.clone().into_owned(), note: None });
    };
    let name = checked_name(name)?;
    let mut lines: Vec<String> = source.text.lines().map(str::to_owned).collect();
    let is_name = |line: &&mut String| line.split('=').next().is_some_and(|key| key.trim() == "name");
    let head = lines.iter_mut().take_while(|line| !line.trim_start().starts_with('['));
    let line = head.into_iter().find(is_name).ok_or_else(|| {
        Error::Refused(format!(
            "cannot rename the study `{}`: it has no line `name = …` at its top",
            source.shown
        ))
    })?;
    *line = format!("name = {}", quoted(name));
    let text = lines.join("\n") + "\n";
    check(&text, preflight::in_itself)?;
    Ok(Drafted { name: name.to_owned(), text, note: note_of(name) })
}

/// A study of one workload, with the factors that were asked for.
///
/// # Errors
/// [`Error::Usage`]: what of it is no study, and what to write instead.
pub fn made(arguments: &Wanted<'_>) -> Result<Drafted> {
    let tool = tool(arguments)?;
    let name = arguments.name.map_or_else(|| format!("my-{tool}"), str::to_owned);
    let name = checked_name(&name)?;
    let draft =
        Draft { tool, factors: factors(arguments, tool)?, target: target(arguments, tool)?, arguments };
    let text = draft.text(name);
    check(&text, preflight::for_tools)?;
    Ok(Drafted { name: name.to_owned(), text, note: note_of(name) })
}

/// The tool that was asked for, or that follows from what else was typed.
fn tool(arguments: &Wanted<'_>) -> Result<&'static str> {
    let wanted = match (arguments.tool, arguments.command.is_empty()) {
        (Some(tool), true) if tool == COMMAND => {
            return usage("write the command after `--`: flyball new mine -- make -j{jobs}".into());
        }
        (Some(tool), false) if tool != COMMAND => {
            return usage(format!("leave out `--tool {tool}`, or the command after `--`"));
        }
        (_, false) => COMMAND,
        (Some(tool), true) => tool,
        (None, true) => server::named(arguments.target).map_or("fio", |address| server::tool(address)),
    };
    let in_a_study =
        workloads::ALL.iter().filter(|tool| tool.name() == COMMAND || !tool.options().is_empty());
    let names: Vec<&str> = in_a_study.map(|tool| tool.name()).collect();
    if let Some(name) = names.iter().find(|name| **name == wanted) {
        return Ok(name);
    }
    let near = nearest(wanted, names.iter().copied())
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    usage(format!("no tool is named `{wanted}`: {near}there are {}", workloads::in_words()))
}

/// What a study varies.
pub(super) struct DraftFactor {
    pub name: String,
    /// `option = "bs"` or `setting = "governor"`; none for what fills a command's placeholder.
    pub what: Option<String>,
    pub levels: Vec<String>,
}

/// What `--governors` and `--levels` vary together.
pub fn all_levels(governors: &[String], levels: &[(String, Vec<String>)]) -> Vec<(String, Vec<String>)> {
    let governors = (!governors.is_empty()).then(|| (GOVERNOR.to_owned(), governors.to_vec()));
    governors.into_iter().chain(levels.iter().cloned()).collect()
}

fn factors(arguments: &Wanted<'_>, tool: &str) -> Result<Vec<DraftFactor>> {
    let mut factors: Vec<DraftFactor> = Vec::new();
    for (wanted, levels) in all_levels(arguments.governors, arguments.levels) {
        several(&wanted, &levels)?;
        let factor =
            DraftFactor { name: factor_name(&wanted), what: what(arguments, tool, &wanted)?, levels };
        if factors.iter().any(|other| other.name == factor.name) {
            return usage(format!("`{wanted}` is varied twice; give its levels once"));
        }
        factors.push(factor);
    }
    Ok(factors)
}

fn several<'l>(wanted: &str, levels: &'l [String]) -> Result<&'l [String]> {
    if levels.len() < 2 {
        return usage(format!(
            "`{wanted}` needs two levels or more, of which the first is the baseline: {wanted}=A,B"
        ));
    }
    Ok(levels)
}

/// What a factor changes: a placeholder of the command, an option of the tool, or a setting.
fn what(arguments: &Wanted<'_>, tool: &str, wanted: &str) -> Result<Option<String>> {
    let placeholder = format!("{{{wanted}}}");
    if arguments.command.iter().any(|word| word.contains(&placeholder)) {
        return Ok(None);
    }
    let options = workloads::named(tool).map(|tool| tool.options()).unwrap_or_default();
    let of_server = tool_has_a_server(tool) && wanted.starts_with("server.");
    if options.contains(&wanted) || of_server {
        return Ok(Some(format!("option = {}", quoted(wanted))));
    }
    if check_name(&SettingName::parse(wanted)).is_ok() {
        return Ok(Some(format!("setting = {}", quoted(wanted))));
    }
    let known = options.into_iter().chain(KNOWN.iter().map(|known| known.name));
    let near = nearest(wanted, known).map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    let options = if tool == COMMAND {
        "a placeholder of the command is written `{NAME}` in it".to_owned()
    } else {
        format!("docs/study-format/workload-{tool}.md has the options of {tool}")
    };
    usage(format!(
        "cannot vary `{wanted}`: it is no option of {tool} and no setting; {near}{options}, `flyball settings` lists settings"
    ))
}

fn tool_has_a_server(tool: &str) -> bool {
    workloads::named(tool).is_some_and(|tool| tool.needs() == Needs::Server)
}

/// The name of a factor over a setting or an option: it has letters, digits, `-` and `_` alone.
pub fn factor_name(wanted: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    wanted.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// The lines of `[target]`, with what becomes of it.
fn target(arguments: &Wanted<'_>, tool: &str) -> Result<Vec<String>> {
    let made = |key: &str, size: &str| {
        vec![
            format!("# Made before the first trial, and removed after the last."),
            format!("{key} = {}", quoted(size)),
        ]
    };
    if let Some(address) = server::named(arguments.target) {
        return server::target(arguments, address, tool);
    }
    if arguments.user.is_some() || arguments.password_file.is_some() {
        return usage(format!(
            "`--user` and `--password-file` are those of a server; name it: --target {}ADDRESS",
            server::PREFIX
        ));
    }
    let Some(wanted) = arguments.target else {
        return Ok(match tool {
            "fio" | "dd" => made("file", TARGET),
            "hdparm" => made("loop", TARGET),
            // Its files are made beside this one.
            "bonnie" => made("file", "1MiB"),
            _ => Vec::new(),
        });
    };
    if Bytes::parse(wanted).is_some() {
        return Ok(made("file", wanted));
    }
    if let Some(size) = wanted.strip_prefix("loop:") {
        return Ok(made("loop", size));
    }
    let absolute = |path: &str| Ok::<_, Error>(std::path::absolute(path)?.display().to_string());
    if let Some((folder, size)) = wanted.rsplit_once(':').filter(|(_, size)| Bytes::parse(size).is_some()) {
        let path = format!("folder = {}", quoted(&absolute(folder)?));
        let about = "# A file is made in a folder of its own in this one, and removed after the last trial.";
        return Ok(vec![about.to_owned(), path, format!("size = {}", quoted(size))]);
    }
    if Path::new(wanted).is_dir() {
        return usage(format!("`{wanted}` is a folder; say how large a file is made in it: {wanted}:256MiB"));
    }
    if !wanted.contains('/') {
        return usage(format!(
            "`{wanted}` is no target: write a size (256MiB) for a file, loop:256MiB, FOLDER:256MiB, server:ADDRESS, or the path of a disk that is only read"
        ));
    }
    let about = "# It is only read; nothing is ever written to it.".to_owned();
    Ok(vec![about, format!("read_only = {}", quoted(&absolute(wanted)?))])
}

/// Reads a text as a study, with all that can be known to be wrong with it before it is run.
fn check(text: &str, plan_is_possible: fn(&Plan) -> Result<()>) -> Result<()> {
    let study = parse::study::parse(text)
        .map_err(|errors| Error::Usage(format!("cannot make this study; nothing was written:\n{errors}")))?;
    plan_is_possible(&Plan::new(study, Seed(0))?)
}

fn checked_name(name: &str) -> Result<&str> {
    let name = name.strip_suffix(".toml").unwrap_or(name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
        return usage(format!(
            "`{name}` is no name of a study: it has 1 to 64 letters, digits, - and _; --out FILE says where it is written"
        ));
    }
    Ok(name)
}

/// That a study which ships has this name too.
fn note_of(name: &str) -> Option<String> {
    ShippedStudy::find(name)
        .map(|_| format!("a study that ships with flyball is named `{name}` too; `{name}.toml` is this one"))
}
