//! `flyball new`: writes a study to begin with, from what is typed or from one that ships.
//!
//! What is written is read back as a study first: a file that `flyball run` refuses is never made.

use crate::args::New;
use crate::commands::run::read_study;
use crate::exit::{End, Usage};
use crate::terminal;
use anyhow::{Context, Result, bail};
use domain::inert;
use domain::plan::Plan;
use domain::rng::Seed;
use domain::setting::SettingName;
use domain::units::Bytes;
use machine::settings::{KNOWN, check_name};
use session::preflight;
use session::shipped::nearest;
use session::studies::{ShippedStudy, StudyOrigin};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use workloads::Needs;

/// Standard output, as a file's name.
const STDOUT: &str = "-";

/// The setting that `--governors` varies.
const GOVERNOR: &str = "governor";

/// The tool whose program and arguments are typed.
const COMMAND: &str = "command";

/// How large a target is where nobody says it: more than one request of any size, and quickly made.
const TARGET: &str = "256MiB";

/// Writes a study, and says what to do with it.
pub fn new(arguments: &New) -> Result<End> {
    let (name, text) = match &arguments.from {
        Some(from) => copied(from, arguments.name.as_deref())?,
        None => made(arguments)?,
    };
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.toml")));
    if out == Path::new(STDOUT) {
        terminal::document(&text)?;
        return Ok(End::Done);
    }
    write(&out, &text)?;
    let out = out.to_string_lossy();
    terminal::say(format_args!("wrote {out}; next: `flyball run {} --dry-run`", report::shell_quoted(&out)));
    Ok(End::Done)
}

/// Writes a file that is not there yet.
fn write(path: &Path, text: &str) -> Result<()> {
    let cannot = || format!("cannot write the study `{}`", path.display());
    // A link of that name is not followed either.
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{}: it is there already; give another NAME, or --out FILE", cannot())
        }
        opened => opened.with_context(cannot)?,
    };
    file.write_all(text.as_bytes()).with_context(cannot)
}

/// A study that is there, under another name where one is given: runs of the two are then not mixed up.
fn copied(from: &Path, name: Option<&str>) -> Result<(String, String)> {
    let read = read_study(from)?;
    let stem = match read.source.origin {
        StudyOrigin::Shipped => read.source.shown.rsplit('/').next().unwrap_or_default().to_owned(),
        StudyOrigin::File(_) => read.study.name.clone(),
    };
    let Some(name) = name else { return Ok((stem, read.source.text.into_owned())) };
    let name = checked_name(name)?;
    let mut lines: Vec<String> = read.source.text.lines().map(str::to_owned).collect();
    let is_name = |line: &&mut String| line.split('=').next().is_some_and(|key| key.trim() == "name");
    let head = lines.iter_mut().take_while(|line| !line.trim_start().starts_with('['));
    let line = head.into_iter().find(is_name).with_context(|| {
        format!("cannot rename the study `{}`: it has no line `name = …` at its top", read.source.shown)
    })?;
    *line = format!("name = {}", quoted(name));
    let text = lines.join("\n") + "\n";
    check(&text, preflight::in_itself)?;
    Ok((name.to_owned(), text))
}

/// A study of one workload, with the factors that were asked for.
fn made(arguments: &New) -> Result<(String, String)> {
    let tool = tool(arguments)?;
    let name = arguments.name.clone().unwrap_or_else(|| format!("my-{tool}"));
    let name = checked_name(&name)?;
    let draft =
        Draft { tool, factors: factors(arguments, tool)?, target: target(arguments, tool)?, arguments };
    let text = draft.text(name);
    check(&text, preflight::for_tools)?;
    Ok((name.to_owned(), text))
}

/// The tool that was asked for, or that follows from what else was typed.
fn tool(arguments: &New) -> Result<&'static str> {
    let wanted = match (&arguments.tool, arguments.command.is_empty()) {
        (Some(tool), true) if tool == COMMAND => {
            return Err(
                Usage("write the command after `--`: flyball new mine -- make -j{jobs}".into()).into()
            );
        }
        (Some(tool), false) if tool != COMMAND => {
            return Err(Usage(format!("leave out `--tool {tool}`, or the command after `--`")).into());
        }
        (_, false) => COMMAND,
        (Some(tool), true) => tool.as_str(),
        (None, true) => "fio",
    };
    let in_a_study =
        workloads::ALL.iter().filter(|tool| tool.name() == COMMAND || !tool.options().is_empty());
    let names: Vec<&str> = in_a_study.map(|tool| tool.name()).collect();
    if let Some(name) = names.iter().find(|name| **name == wanted) {
        return Ok(name);
    }
    let near = nearest(wanted, names.iter().copied())
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    Err(Usage(format!("no tool is named `{wanted}`: {near}there are {}", workloads::in_words())).into())
}

/// What a study varies.
struct DraftFactor {
    name: String,
    /// `option = "bs"` or `setting = "governor"`; none for what fills a command's placeholder.
    what: Option<String>,
    levels: Vec<String>,
}

fn factors(arguments: &New, tool: &str) -> Result<Vec<DraftFactor>> {
    let governors =
        (!arguments.governors.is_empty()).then(|| (GOVERNOR.to_owned(), arguments.governors.clone()));
    let mut factors: Vec<DraftFactor> = Vec::new();
    for (wanted, levels) in governors.into_iter().chain(arguments.levels.iter().cloned()) {
        if levels.len() < 2 {
            return Err(Usage(format!(
                "`{wanted}` needs two levels or more, of which the first is the baseline: {wanted}=A,B"
            ))
            .into());
        }
        let factor =
            DraftFactor { name: factor_name(&wanted), what: what(arguments, tool, &wanted)?, levels };
        if factors.iter().any(|other| other.name == factor.name) {
            return Err(Usage(format!("`{wanted}` is varied twice; give its levels once")).into());
        }
        factors.push(factor);
    }
    Ok(factors)
}

/// What a factor changes: a placeholder of the command, an option of the tool, or a setting.
fn what(arguments: &New, tool: &str, wanted: &str) -> Result<Option<String>> {
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
    Err(Usage(format!(
        "cannot vary `{wanted}`: it is no option of {tool} and no setting; {near}{options}, `flyball settings` lists settings"
    ))
    .into())
}

fn tool_has_a_server(tool: &str) -> bool {
    workloads::named(tool).is_some_and(|tool| tool.needs() == Needs::Server)
}

/// A factor's name has letters, digits, `-` and `_` alone.
fn factor_name(wanted: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    wanted.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// The lines of `[target]`, with what becomes of it.
fn target(arguments: &New, tool: &str) -> Result<Vec<String>> {
    let made = |key: &str, size: &str| {
        vec![
            format!("# Made before the first trial, and removed after the last."),
            format!("{key} = {}", quoted(size)),
        ]
    };
    let Some(wanted) = &arguments.target else {
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
    let absolute =
        |path: &str| Ok::<_, anyhow::Error>(crate::places::absolute(Path::new(path))?.display().to_string());
    if let Some((folder, size)) = wanted.rsplit_once(':').filter(|(_, size)| Bytes::parse(size).is_some()) {
        let path = format!("folder = {}", quoted(&absolute(folder)?));
        let about = "# A file is made in a folder of its own in this one, and removed after the last trial.";
        return Ok(vec![about.to_owned(), path, format!("size = {}", quoted(size))]);
    }
    if Path::new(wanted).is_dir() {
        return Err(Usage(format!(
            "`{wanted}` is a folder; say how large a file is made in it: {wanted}:256MiB"
        ))
        .into());
    }
    if !wanted.contains('/') {
        return Err(Usage(format!(
            "`{wanted}` is no target: write a size (256MiB) for a file, loop:256MiB, FOLDER:256MiB, or the path of a disk that is only read"
        ))
        .into());
    }
    let about = "# It is only read; nothing is ever written to it.".to_owned();
    Ok(vec![about, format!("read_only = {}", quoted(&absolute(wanted)?))])
}

/// What is written into a new study.
struct Draft<'a> {
    tool: &'static str,
    factors: Vec<DraftFactor>,
    target: Vec<String>,
    arguments: &'a New,
}

impl Draft<'_> {
    fn text(&self, name: &str) -> String {
        let sections =
            [self.head(name), self.target_table(), self.workload(), self.factor_tables(), self.measure()];
        let sections: Vec<String> = sections.into_iter().filter(|section| !section.is_empty()).collect();
        sections.join("\n")
    }

    fn head(&self, name: &str) -> String {
        let root =
            self.factors.iter().any(|f| f.what.as_ref().is_some_and(|what| what.starts_with("setting")));
        let sudo = if root { "sudo " } else { "" };
        let out = self.arguments.out.as_deref().filter(|out| *out != Path::new(STDOUT));
        let file =
            out.map_or_else(|| format!("{name}.toml"), |out| report::shell_quoted(&out.to_string_lossy()));
        let file = inert::one_line(&file);
        format!(
            "# Made by `flyball new`; every line is yours to change.\n#\n\
             #     flyball run {file} --dry-run     # shows every command and every write, and does nothing\n\
             #     {sudo}flyball run {file}\n#\n\
             # docs/STUDY-FORMAT.md explains every key. An unknown key is an error.\n\n\
             flyball = 1\nname = {}\nquestion = {}\n",
            quoted(name),
            quoted(&self.question()),
        )
    }

    fn question(&self) -> String {
        let names: Vec<&str> = self.factors.iter().map(|factor| factor.name.as_str()).collect();
        let tool = if self.tool == COMMAND { "this command" } else { self.tool };
        match names.as_slice() {
            [] => format!("How fast is {tool} here?"),
            [one] => format!("Does {one} decide how fast {tool} is here?"),
            [first @ .., last] => {
                format!("How much do {} and {last} decide how fast {tool} is here?", first.join(", "))
            }
        }
    }

    fn target_table(&self) -> String {
        if self.target.is_empty() {
            return String::new();
        }
        let about = "# What the workload works on.\n[target]\n";
        format!("{about}{}\n", self.target.join("\n"))
    }

    fn workload(&self) -> String {
        if self.tool == COMMAND {
            let argv: Vec<String> = self.arguments.command.iter().map(|word| quoted(word)).collect();
            return format!(
                "# The command, without a shell. `{{NAME}}` is the level of the factor NAME.\n[workload.command]\ntool = \"command\"\nargv = [{}]\n\
                 # A number that it prints can be a metric: docs/study-format/workload-command.md.\n",
                argv.join(", ")
            );
        }
        let options: Vec<String> =
            self.options().iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!(
            "# One program with its options, by the program's own names.\n[workload.{0}]\ntool = \"{0}\"\noptions = {{ {1} }}\n",
            self.tool,
            options.join(", ")
        )
    }

    /// A load that takes seconds, without the options that a factor varies.
    fn options(&self) -> Vec<(&'static str, &'static str)> {
        let varies = |option: &str| self.factors.iter().any(|factor| factor.name == option);
        // psync has one request in flight, whatever `iodepth` says.
        let engine = if varies("iodepth") { "\"libaio\"" } else { "\"psync\"" };
        let all: Vec<(&str, &str)> = match self.tool {
            "fio" => vec![
                ("rw", "\"randread\""),
                ("bs", "\"4k\""),
                ("ioengine", engine),
                ("direct", "true"),
                ("time_based", "true"),
                ("runtime", "\"2s\""),
            ],
            "dd" => vec![("bs", "\"64k\"")],
            "sysbench" => vec![
                ("test", "\"oltp_read_write\""),
                ("tables", "4"),
                ("table_size", "100000"),
                ("threads", "4"),
                ("time", "20"),
            ],
            "pgbench" => vec![("scale", "10"), ("client", "4"), ("time", "20")],
            "bonnie" => vec![("size", "\"1GiB\""), ("ram", "0")],
            "hdparm" => vec![("t", "true")],
            _ => Vec::new(),
        };
        all.into_iter().filter(|(option, _)| !varies(option)).collect()
    }

    fn factor_tables(&self) -> String {
        let of = |factor: &DraftFactor| {
            let what = factor.what.as_ref().map_or_else(String::new, |what| format!("{what}\n"));
            let levels: Vec<String> = factor.levels.iter().map(|level| value(level)).collect();
            format!("[factor.{}]\n{what}levels = [{}]\n", factor.name, levels.join(", "))
        };
        if self.factors.is_empty() {
            return "# A factor is what varies; the first level is the one that the others are compared with.\n\
                    # [factor.governor]\n# setting = \"governor\"\n# levels = [\"powersave\", \"performance\"]\n"
                .to_owned();
        }
        let about = "# What varies. The first level is the one that the others are compared with.\n";
        format!("{about}{}", self.factors.iter().map(of).collect::<Vec<_>>().join("\n"))
    }

    fn measure(&self) -> String {
        let metric = match self.tool {
            "sysbench" | "pgbench" => "transactions",
            "bonnie" => "block_write",
            "hdparm" => "read_throughput",
            COMMAND => "elapsed",
            _ => "throughput",
        };
        format!(
            "# Every cell is measured six times at least, in random order, and up to twelve times until the interval of\n\
             # its median is within 5%.\n[measure]\nmetric = \"{metric}\"\nrepeats = [6, 12]\nprecision = \"5%\"\n"
        )
    }
}

/// Reads a text as a study, with all that can be known to be wrong with it before it is run.
fn check(text: &str, plan_is_possible: fn(&Plan) -> session::Result<()>) -> Result<()> {
    let study = parse::study::parse(text)
        .map_err(|errors| Usage(format!("cannot make this study; nothing was written:\n{errors}")))?;
    Ok(plan_is_possible(&Plan::new(study, Seed(0))?)?)
}

fn checked_name(name: &str) -> Result<&str> {
    let name = name.strip_suffix(".toml").unwrap_or(name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
        return Err(Usage(format!(
            "`{name}` is no name of a study: it has 1 to 64 letters, digits, - and _; --out FILE says where it is written"
        ))
        .into());
    }
    if ShippedStudy::find(name).is_some() {
        terminal::note(format_args!(
            "a study that ships with flyball is named `{name}` too; `{name}.toml` is this one"
        ));
    }
    Ok(name)
}

/// A level as TOML has it: a number, `true` and `false`, or a string.
fn value(level: &str) -> String {
    let is_number = level.parse::<i64>().is_ok_and(|number| number.to_string() == level);
    if is_number || level == "true" || level == "false" { level.to_owned() } else { quoted(level) }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
