//! One file a command. Each gathers what it needs, calls the crate that knows, and prints.

mod calibrate;
mod check;
mod claim;
mod compare;
mod complete;
mod completions;
mod diagnose;
mod explain;
mod export;
mod gate;
mod gc;
mod import;
mod inspect;
mod lab;
mod list;
mod man;
mod mark;
mod new;
mod published;
mod record;
mod replay;
mod report;
mod restore;
mod rm;
mod run;
mod settings;
mod show;
mod sim;
mod simulate;
mod status;
mod studies;
mod supervise;
mod tune;
mod tune_measured;
mod watch;

use crate::exit::End;
use anyhow::Result;
use command_line::{Cli, Command};

/// Carries out what was typed.
pub fn dispatch(cli: Cli) -> Result<End> {
    let global = &cli.global;
    match &cli.command {
        Command::Check(arguments) => check::check(global, arguments),
        Command::Inspect(arguments) => inspect::inspect(global, arguments),
        Command::Settings(arguments) => settings::settings(global, arguments),
        Command::Run(arguments) => run::run(global, arguments),
        Command::New(arguments) => new::new(arguments),
        Command::Record(arguments) => record::record(global, arguments),
        Command::Mark(arguments) => mark::mark(global, arguments),
        Command::Watch(arguments) => watch::watch(global, arguments),
        Command::Diagnose(arguments) => diagnose::diagnose(global, arguments),
        Command::Lab(command) => lab::dispatch(global, command),
        Command::Import(arguments) => import::import(global, arguments),
        Command::Sim(command) => sim::dispatch(global, command),
        Command::LabGuest => {
            guest::main(|line| terminal::say(line))?;
            Ok(End::Done)
        }
        Command::List(arguments) if arguments.studies => studies::list(global),
        Command::List(arguments) => list::list(global, arguments),
        Command::Rm(arguments) => rm::rm(global, arguments),
        Command::Gc(arguments) => gc::gc(global, arguments),
        Command::Show(arguments) => show::show(global, arguments),
        Command::Compare(arguments) => compare::compare(global, arguments),
        Command::Explain(arguments) => explain::explain(global, arguments),
        Command::Replay(arguments) => replay::replay(global, arguments),
        Command::Report(arguments) => report::report(global, arguments),
        Command::Export(arguments) => export::export(global, arguments),
        Command::Claim(arguments) => claim::claim(global, arguments),
        Command::Status => status::status(global),
        Command::Restore(arguments) => restore::restore(global, arguments),
        Command::Tune(arguments) => tune::tune(global, arguments),
        Command::Complete { words } => Ok(complete::complete(global, words)),
        Command::Completions { shell } => completions::completions(*shell),
        Command::Man { folder } => man::man(folder),
        Command::ReadForeign => {
            importer::foreign::serve(terminal::verbatim_unbuffered())?;
            Ok(End::Done)
        }
        Command::UnpackForeign { program, arguments } => {
            match importer::foreign::unpack(program, arguments)? {}
        }
        Command::WatchRecording { out } => record::watch(global, out.as_deref()),
        Command::Supervise { state } => supervise::supervise(state),
    }
}
