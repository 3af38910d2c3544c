//! The arguments of `flyball export`.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use domain::gate::Condition;
use exporters::Exporter;
use std::path::PathBuf;
use std::sync::LazyLock;

#[derive(Args, Debug)]
pub struct Export {
    /// A study, STUDY~1, STUDY@REVISION, or a run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// As `exporters::ALL` lists them
    #[arg(long, value_parser = export_formats(), default_value = "csv", help = EXPORT_FORMATS.as_str())]
    pub format: &'static dyn Exporter,
    /// The trace of this trial instead of the table of trials
    #[arg(long, value_name = "TRIAL")]
    pub trace: Option<String>,
    /// The file to write; for fio-plot, the folder [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// This metric, for otava [default: the study's]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// The condition that a cell must not meet, for junit; see `flyball run --help`
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
}

/// The help of `--format`: which format is of what.
static EXPORT_FORMATS: LazyLock<String> = LazyLock::new(|| {
    let mut things: Vec<(&str, Vec<&str>)> = Vec::new();
    for exporter in exporters::ALL {
        for of in exporter.writers().iter().map(|writer| writer.of()) {
            match things.iter_mut().find(|(thing, _)| *thing == of) {
                Some((_, names)) => names.push(exporter.name()),
                None => things.push((of, vec![exporter.name()])),
            }
        }
    }
    let things: Vec<String> = things.iter().map(|(of, names)| format!("{of} {}", names.join(", "))).collect();
    format!("The form: {}", things.join("; "))
});

/// Understands the names of all formats, and offers them with a line of help each.
fn export_formats() -> impl TypedValueParser<Value = &'static dyn Exporter> {
    let values = exporters::ALL.iter().map(|one| PossibleValue::new(one.name()).help(one.about()));
    PossibleValuesParser::new(values)
        .try_map(|name| exporters::named(&name).ok_or_else(|| format!("no format is called `{name}`")))
}
