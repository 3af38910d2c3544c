//! `flyball export`: trials and traces for other programs.

use crate::args::{Export, ExportFormat, Global};
use crate::commands::read::key;
use crate::exit::{End, Usage};
use crate::{places, results};
use anyhow::{Context, Result, anyhow};
use notebook::Notebook;
use notebook::export::{trace_as_csv, trials_as_csv, trials_as_json, trials_as_parquet};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

/// Writes the table of trials, or one trace.
pub fn export(global: &Global, arguments: &Export) -> Result<End> {
    let notebook = Notebook::open(&places::notebook(global)?)?;
    let id = notebook.find(&arguments.run)?;
    let format = if global.json { ExportFormat::Json } else { arguments.format };
    let mut out = Out::open(arguments.out.as_deref(), format)?;
    let written = match &arguments.trace {
        None => {
            let (trials, problems) = notebook.trials(&id)?;
            results::tell(&problems);
            match format {
                ExportFormat::Csv => trials_as_csv(&trials, &mut out),
                ExportFormat::Json => trials_as_json(&trials, &mut out),
                ExportFormat::Parquet => trials_as_parquet(&trials, &mut out),
            }
        }
        Some(name) => {
            let key = key(name)?;
            let nothing = || {
                anyhow!(
                    "trial `{name}` of `{id}` has no trace: nothing was recorded, or there is no such trial"
                )
            };
            match format {
                ExportFormat::Csv => {
                    trace_as_csv(&mut notebook.trace(&id, &key)?.with_context(nothing)?, &mut out)
                }
                ExportFormat::Parquet => {
                    let file = notebook.trial_folder(&id, &key).join("trace.parquet");
                    let mut file =
                        File::open(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
                    io::copy(&mut file, &mut out).context("cannot write the trace")?;
                    Ok(())
                }
                ExportFormat::Json => {
                    return Err(Usage("a trace is written as csv or parquet, not as json".into()).into());
                }
            }
        }
    };
    let flushed = out.flush();
    if out.reader_left {
        return Ok(End::Done);
    }
    written?;
    flushed.context("cannot write the export")?;
    Ok(End::Done)
}

/// A file, or standard output, whose reader may leave before the end.
struct Out {
    to: Box<dyn Write + Send>,
    reader_left: bool,
}

impl Out {
    fn open(path: Option<&Path>, format: ExportFormat) -> Result<Self> {
        let to: Box<dyn Write + Send> = match path.filter(|p| *p != Path::new("-")) {
            Some(path) => {
                let file = File::create(path)
                    .with_context(|| format!("cannot write the export `{}`", path.display()))?;
                Box::new(BufWriter::new(file))
            }
            None if format == ExportFormat::Parquet && io::stdout().is_terminal() => {
                return Err(Usage("Parquet is not for a terminal; name a file with --out".into()).into());
            }
            None => Box::new(BufWriter::new(io::stdout())),
        };
        Ok(Self { to, reader_left: false })
    }

    fn noting<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.reader_left |= matches!(&result, Err(e) if e.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.to.write(bytes);
        self.noting(result)
    }
    fn flush(&mut self) -> io::Result<()> {
        let result = self.to.flush();
        self.noting(result)
    }
}
