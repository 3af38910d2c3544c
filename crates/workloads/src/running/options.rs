//! A running load as a study names it: whose it is, what tells how fast it goes, and for how long it is
//! watched.

use crate::options::{OptionError, Options};
use domain::database::{Address, ExistingServer, Kind, name_of};
use domain::time::Nanos;

/// The options that a study may set.
pub const NAMES: [&str; 10] = [
    "for",
    "wash_out",
    "pid",
    "metric_command",
    "metric_is",
    "server",
    "server_address",
    "server_user",
    "server_password_file",
    "server_database",
];

/// How long a load is watched where the study does not say: ten answers of a database's counters, of which
/// PostgreSQL's sessions report one a second.
pub const USUAL_SPAN: Nanos = Nanos::from_secs(10);

/// How long after a change of settings the load is left alone where the study does not say: longer than the
/// averages by which governors and queues decide, and than what was in flight.
pub const USUAL_WASH_OUT: Nanos = Nanos::from_secs(2);

/// Bounds of the span: a rate over less is that of a few ticks; a trial of more is no block of a comparison.
const SPAN: (Nanos, Nanos) = (Nanos::from_millis(500), Nanos::from_secs(3600));

/// The longest pause after a change.
const MAX_WASH_OUT: Nanos = Nanos::from_secs(3600);

/// A command is a line that somebody typed.
const MAX_COMMAND: usize = 4096;

/// A process, a server's counters, a command that prints a number: at least one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningLoad {
    /// The process that is followed with all that it starts.
    pub pid: Option<u32>,
    /// The server whose counters are read.
    pub server: Option<(Kind, ExistingServer)>,
    /// What prints how far or how fast the load goes.
    pub metric_command: Option<MetricCommand>,
    /// How long it is watched.
    pub span: Nanos,
    /// How long it is left alone before that, for settings were just changed.
    pub wash_out: Nanos,
}

/// A command for the shell that prints one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricCommand {
    /// As `sh -c` takes it.
    pub line: String,
    /// What the number is.
    pub number: Number,
}

impl MetricCommand {
    /// What is run.
    pub fn argv(&self) -> [String; 3] {
        ["sh".to_owned(), "-c".to_owned(), self.line.clone()]
    }
}

/// What a command's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// A count from some time on, whose growth is the load's rate.
    Counter,
    /// A level or rate of that moment; more is better.
    Level,
    /// A latency of that moment, in seconds.
    Latency,
}

impl Number {
    /// All of them, by the names that a study has for them.
    pub const ALL: [(&'static str, Self); 3] =
        [("counter", Self::Counter), ("level", Self::Level), ("latency", Self::Latency)];

    /// The metric that it gives.
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Counter => "load_rate",
            Self::Level => "load_level",
            Self::Latency => "load_latency",
        }
    }
}

/// Says what is wrong with one option alone.
///
/// # Errors
/// [`OptionError`], whose problem reads on from the option's name.
pub fn check(option: &str, value: &str) -> Result<(), OptionError> {
    let checked = match option {
        "for" => span(value, SPAN).map(drop),
        "wash_out" => span(value, (Nanos::ZERO, MAX_WASH_OUT)).map(drop),
        "pid" => pid(value).map(drop),
        "metric_command" => command(value),
        "metric_is" => number(value).map(drop),
        "server" => kind(value).map(drop),
        "server_address" => Address::parse(value).map(drop),
        "server_user" | "server_database" => name_of(value).map(drop),
        "server_password_file" => password_file(value),
        _ => return Err(OptionError::unknown(option, "running")),
    };
    checked.map_err(|problem| OptionError::wrong(option, problem))
}

impl RunningLoad {
    /// Reads a workload's options.
    ///
    /// # Errors
    /// As [`check`]; and where nothing is named, or an option is of another that is not there.
    pub fn parse(options: &Options) -> Result<Self, OptionError> {
        for (option, value) in options {
            check(option, value)?;
        }
        let text = |name: &str| options.get(name).map(String::as_str);
        let load = Self {
            pid: text("pid").and_then(|value| pid(value).ok()),
            server: server(options)?,
            metric_command: metric_command(options)?,
            span: text("for").and_then(|value| span(value, SPAN).ok()).unwrap_or(USUAL_SPAN),
            wash_out: text("wash_out").and_then(Nanos::parse).unwrap_or(USUAL_WASH_OUT),
        };
        if load.pid.is_none() && load.server.is_none() && load.metric_command.is_none() {
            return Err(OptionError::wrong(
                "pid",
                "is not there, and neither is `server` nor `metric_command`; name at least one, or nothing tells how fast the load goes",
            ));
        }
        Ok(load)
    }

    /// The options that say the same.
    pub fn options(&self) -> Options {
        let mut all = Options::from([
            ("for".to_owned(), self.span.to_string()),
            ("wash_out".to_owned(), self.wash_out.to_string()),
        ]);
        let mut put = |name: &str, value: Option<String>| {
            all.extend(value.map(|value| (name.to_owned(), value)));
        };
        put("pid", self.pid.map(|pid| pid.to_string()));
        if let Some((kind, server)) = &self.server {
            put("server", Some(kind.name().to_owned()));
            put("server_address", Some(server.address.to_string()));
            put("server_user", server.user.clone());
            put("server_password_file", server.password_file.clone());
            put("server_database", server.database.clone());
        }
        if let Some(command) = &self.metric_command {
            let name =
                Number::ALL.iter().find(|(_, number)| *number == command.number).map(|(name, _)| *name);
            put("metric_command", Some(command.line.clone()));
            put("metric_is", name.map(str::to_owned));
        }
        all
    }
}

fn server(options: &Options) -> Result<Option<(Kind, ExistingServer)>, OptionError> {
    let text = |name: &str| options.get(name).cloned();
    let Some(kind) = text("server").and_then(|name| Kind::of_name(&name)) else {
        let stray = options.keys().find(|name| name.starts_with("server_"));
        return match stray {
            Some(stray) => Err(OptionError::wrong(stray, "is that of a server, and `server` names none")),
            None => Ok(None),
        };
    };
    let address = text("server_address").and_then(|text| Address::parse(&text).ok());
    Ok(Some((
        kind,
        ExistingServer {
            address: address.unwrap_or_else(|| kind.usual_address()),
            user: text("server_user"),
            password_file: text("server_password_file"),
            database: text("server_database"),
        },
    )))
}

fn metric_command(options: &Options) -> Result<Option<MetricCommand>, OptionError> {
    let is = options.get("metric_is").map(|name| number(name));
    match (options.get("metric_command"), is) {
        (Some(line), is) => {
            let number = is.and_then(Result::ok).unwrap_or(Number::Counter);
            Ok(Some(MetricCommand { line: line.clone(), number }))
        }
        (None, Some(_)) => Err(OptionError::wrong(
            "metric_is",
            "is that of a command's number, and `metric_command` names none",
        )),
        (None, None) => Ok(None),
    }
}

fn span(text: &str, (least, most): (Nanos, Nanos)) -> Result<Nanos, String> {
    let span = Nanos::parse(text).filter(|span| (least..=most).contains(span));
    span.ok_or_else(|| format!("is `{text}`; write a time from {least} to {most}, such as \"10s\""))
}

fn pid(text: &str) -> Result<u32, String> {
    let pid = text.parse::<u32>().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| format!("is `{text}`; write the number of a process, which `pgrep -l NAME` finds"))
}

fn command(text: &str) -> Result<(), String> {
    match text {
        _ if text.trim().is_empty() => Err("is empty; write a command that prints one number".into()),
        _ if text.len() > MAX_COMMAND => {
            Err(format!("has {} bytes, and {MAX_COMMAND} at most; write a script and name it", text.len()))
        }
        _ if text.contains('\0') => Err("has a NUL, which no command has; take it out".into()),
        _ => Ok(()),
    }
}

fn number(text: &str) -> Result<Number, String> {
    let known = Number::ALL.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    known.ok_or_else(|| format!("is `{text}`; write `counter`, `level` or `latency`"))
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::of_name(text).ok_or_else(|| format!("is `{text}`; write `mariadb` or `postgresql`"))
}

fn password_file(text: &str) -> Result<(), String> {
    let is_plain = text.starts_with('/') && !text.contains(char::is_control);
    is_plain.then_some(()).ok_or_else(|| format!("is `{text}`; write a file by its absolute path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[(&str, &str)]) -> Result<RunningLoad, String> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        RunningLoad::parse(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn what_options_say_comes_back_as_options() {
        for options in [
            &[("pid", "77"), ("for", "5s"), ("wash_out", "0s")][..],
            &[("metric_command", "cat count")],
            &[("metric_command", "cat ms"), ("metric_is", "latency"), ("server", "mariadb")],
            &[("server", "postgresql"), ("server_address", "127.0.0.1:5433"), ("server_user", "me")],
        ] {
            let load = parsed(options).unwrap();
            assert_eq!(RunningLoad::parse(&load.options()), Ok(load.clone()), "{load:?}");
            for (name, value) in load.options() {
                assert!(NAMES.contains(&name.as_str()) && check(&name, &value).is_ok(), "{name} = {value}");
            }
        }
    }

    #[test]
    fn without_a_word_a_load_is_watched_for_ten_seconds_two_after_a_change() {
        let load = parsed(&[("server", "mariadb")]).unwrap();
        assert_eq!((load.span, load.wash_out), (Nanos::from_secs(10), Nanos::from_secs(2)));
        assert_eq!(load.server.unwrap().1.address, Kind::MariaDb.usual_address());
    }

    #[test]
    fn what_names_no_load_is_told() {
        assert!(parsed(&[]).unwrap_err().starts_with("`pid` is not there"));
        assert!(parsed(&[("pid", "7"), ("server_user", "me")]).unwrap_err().contains("`server` names none"));
        assert!(parsed(&[("pid", "7"), ("metric_is", "level")]).unwrap_err().contains("`metric_command`"));
        for (option, value) in [
            ("pid", "0"),
            ("pid", "-1"),
            ("pid", "1 2"),
            ("for", "10ms"),
            ("for", "2h"),
            ("for", "10"),
            ("wash_out", "-1s"),
            ("metric_command", " "),
            ("metric_command", "a\0b"),
            ("metric_is", "gauge"),
            ("server", "mysql"),
            ("server_address", "localhost:3306"),
            ("server_password_file", "secret"),
        ] {
            assert!(!check(option, value).unwrap_err().unknown, "{option} = {value}");
        }
        assert!(check("interval", "1s").unwrap_err().unknown);
    }
}
