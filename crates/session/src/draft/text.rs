//! The text of a drafted study, with comments for whoever goes on with it.

use super::{COMMAND, DraftFactor, Wanted, server};
use domain::database::Kind;
use domain::inert;

/// What is written into a new study.
pub(super) struct Draft<'a> {
    pub tool: &'static str,
    pub factors: Vec<DraftFactor>,
    pub target: Vec<String>,
    pub arguments: &'a Wanted<'a>,
}

/// sysbench's load: some megabytes of rows, and time for the server to reach its pace.
const SYSBENCH: &[(&str, &str)] = &[
    ("test", "\"oltp_read_write\""),
    ("tables", "4"),
    ("table_size", "100000"),
    ("threads", "4"),
    ("time", "20"),
];

impl Draft<'_> {
    pub fn text(&self, name: &str) -> String {
        let sections =
            [self.head(name), self.target_table(), self.workload(), self.factor_tables(), self.measure()];
        let sections: Vec<String> = sections.into_iter().filter(|section| !section.is_empty()).collect();
        sections.join("\n")
    }

    fn head(&self, name: &str) -> String {
        let root =
            self.factors.iter().any(|f| f.what.as_ref().is_some_and(|what| what.starts_with("setting")));
        let sudo = if root { "sudo " } else { "" };
        let file = self.arguments.file.map_or_else(|| format!("{name}.toml"), str::to_owned);
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
        if let Some(address) = self.server() {
            return match names.as_slice() {
                [] => format!("How many transactions does the server at {address} commit?"),
                names => {
                    let by = names.join(" and ");
                    format!("How many transactions does the server at {address} commit, by {by}?")
                }
            };
        }
        match names.as_slice() {
            [] => format!("How fast is {tool} here?"),
            [one] => format!("Does {one} decide how fast {tool} is here?"),
            [first @ .., last] => {
                format!("How much do {} and {last} decide how fast {tool} is here?", first.join(", "))
            }
        }
    }

    /// The address of a server that is somebody's.
    fn server(&self) -> Option<&str> {
        server::named(self.arguments.target)
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
        let is_postgresql = self.server().is_some_and(|address| server::kind(address) == Kind::PostgreSql);
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
            "sysbench" if is_postgresql => [&[("server", "\"postgresql\"")], SYSBENCH].concat(),
            "sysbench" => SYSBENCH.to_vec(),
            "pgbench" => vec![("scale", "10"), ("client", "4"), ("time", "20")],
            "bonnie" => vec![("size", "\"1GiB\""), ("ram", "0")],
            "hdparm" => vec![("t", "true")],
            _ => Vec::new(),
        };
        all.into_iter().filter(|(option, _)| !varies(option)).collect()
    }

    fn factor_tables(&self) -> String {
        if self.factors.is_empty() {
            return "# A factor is what varies; the first level is the one that the others are compared with.\n\
                    # [factor.governor]\n# setting = \"governor\"\n# levels = [\"powersave\", \"performance\"]\n"
                .to_owned();
        }
        let about = "# What varies. The first level is the one that the others are compared with.\n";
        format!("{about}{}", self.factors.iter().map(factor_table).collect::<Vec<_>>().join("\n"))
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

/// The table of a factor.
pub(super) fn factor_table(factor: &DraftFactor) -> String {
    let what = factor.what.as_ref().map_or_else(String::new, |what| format!("{what}\n"));
    let levels: Vec<String> = factor.levels.iter().map(|level| value(level)).collect();
    format!("[factor.{}]\n{what}levels = [{}]\n", factor.name, levels.join(", "))
}

/// A level as TOML has it: a number, `true` and `false`, or a string.
fn value(level: &str) -> String {
    let is_number = level.parse::<i64>().is_ok_and(|number| number.to_string() == level);
    if is_number || level == "true" || level == "false" { level.to_owned() } else { quoted(level) }
}

/// A basic string of TOML.
pub(crate) fn quoted(text: &str) -> String {
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
