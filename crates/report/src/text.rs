//! Plain text for a terminal: on the first screen the verdict, the figures and what was found, one line each;
//! below that the details, in the order of the other forms. No colours, no control characters; tables are as
//! wide as their content, or as the terminal, and no word is broken.

use crate::command::{TIED, command_lines, tied};
use crate::cpu_share::{cores_by_role, notable, shown};
use crate::document::in_text;
use crate::wording::{
    CONTEXT_TITLE, MAX_LEFT_OUT, aa_floor, asked_and_context, capitalised, cell_interval, cell_median,
    command_line, comparison_row, comparison_table, counted, direction, expected, factor_levels, factors,
    headline, how_to_see_more, left_out, left_out_kinds, load_note, machine, names, one_line, percent,
    question, relative, run_again, standing, trial_count, trial_name, why_not_counted, workloads,
};
use crate::{ComparisonReport, Report, published, sections, simulation};
use analysis::summary::{CellSummary, FactorEffect};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width as ComfyWidth, presets};
use domain::Nanos;
use domain::inert;
use domain::lab::{LabAccount, StateRecord};
use domain::setting::SettingRecord;
use domain::trace::Role;
use domain::trial::{Measurement, Origin, Trial};
use domain::units::Unit;
use std::fmt::{Display, Write};

/// The width where no terminal has another: a hundred columns, which the documentation assumes too.
const WIDTH: usize = 100;

const INDENT: &str = "   ";

/// Text of so many columns.
#[derive(Clone, Copy, Debug)]
pub struct Wide(pub usize);

impl Default for Wide {
    fn default() -> Self {
        Self(WIDTH)
    }
}

impl Wide {
    /// A run.
    pub fn text(self, report: &Report) -> String {
        match report.data.study.is_recording() {
            true => recording(report, Text::of_width(self.0)),
            false => run(report, Text::of_width(self.0)),
        }
    }

    /// The findings of a run, and what could not be measured, alone.
    pub fn findings_text(self, report: &Report) -> String {
        found(report, Text::of_width(self.0))
    }

    /// One trial.
    pub fn trial_text(self, of: &Trial) -> String {
        trial(of, Text::of_width(self.0))
    }

    /// A comparison.
    pub fn comparison_text(self, report: &ComparisonReport) -> String {
        comparison(report, Text::of_width(self.0))
    }
}

/// A run as text of the usual width.
pub fn text(report: &Report) -> String {
    Wide::default().text(report)
}

/// The findings of a run, and what could not be measured, alone, as text of the usual width.
pub fn findings_text(report: &Report) -> String {
    Wide::default().findings_text(report)
}

/// One trial as text of the usual width.
pub fn trial_text(trial: &Trial) -> String {
    Wide::default().trial_text(trial)
}

/// A comparison as text of the usual width.
pub fn comparison_text(report: &ComparisonReport) -> String {
    Wide::default().comparison_text(report)
}

fn run(report: &Report, mut out: Text) -> String {
    let run = &report.data.run;
    out.line(question(report));
    out.line(headline(report));
    model(report, &mut out);
    out.blank();
    out.line(machine(report));
    out.line(format!("{} on {}: {}, seed {}", run.id, run.provenance.name(), trial_count(report), run.seed));
    results(report, &mut out);
    beside_published(report, &mut out);
    finding_titles(report, &mut out);
    in_text(&sections::costs(report), &mut out);
    effects(report, &mut out);
    processors(report, &mut out);
    in_text(&sections::virtual_machine(report), &mut out);
    findings(report, "Findings in full", &mut out);
    in_text(&sections::not_measured(report), &mut out);
    not_counted(report, &mut out);
    out.heading("Again");
    out.command("", &run_again(report));
    out.text
}

/// A recording as text: one trial, of which there is nothing to compare and nothing to average.
fn recording(report: &Report, mut out: Text) -> String {
    let run = &report.data.run;
    out.line(question(report));
    out.line(headline(report));
    out.blank();
    out.line(machine(report));
    out.line(format!("{} on {}", run.id, run.provenance.name()));
    in_text(&sections::recorded(report), &mut out);
    findings(report, "Findings", &mut out);
    in_text(&sections::not_measured(report), &mut out);
    out.heading("Again");
    out.command("", &run_again(report));
    out.text
}

fn found(report: &Report, mut out: Text) -> String {
    out.line(question(report));
    out.line(headline(report));
    model(report, &mut out);
    if report.findings.is_empty() {
        out.blank();
        out.line("No rule found anything that the evidence allows to say.");
    }
    findings(report, "Findings", &mut out);
    in_text(&sections::not_measured(report), &mut out);
    out.text
}

fn trial(trial: &Trial, mut out: Text) -> String {
    out.line(format!("{} of {}: {}", trial.key.folder(), trial.run, standing(&trial.validity)));
    if !trial.validity.is_valid() {
        out.item(why_not_counted(&trial.validity));
    }
    if trial.is_under_load() {
        let beside = trial.measurement.iter().flat_map(|measured| &measured.disturbances);
        beside.for_each(|load| out.item(format!("under load: {}", load.detail)));
    }
    match simulation::of(trial.provenance) {
        Some(note) => out.line(format!("computed {}. {note}", trial.started.iso())),
        None => out.line(format!("measured {} on {}", trial.started.iso(), trial.provenance.name())),
    }
    if let Some(Origin { tool, version, file, sha256 }) = &trial.origin {
        let version = version.as_ref().map_or(String::new(), |version| format!(" {version}"));
        out.line(format!("imported from {file}, written by {tool}{version}; SHA-256 {sha256}"));
    }
    if !trial.levels.is_empty() {
        let levels: Vec<String> = trial.levels.iter().map(|(f, l)| format!("{f} {l}")).collect();
        out.line(levels.join(", "));
    }
    if let Some(measurement) = &trial.measurement {
        measured(measurement, &mut out);
        let commands = match &trial.lab {
            Some(account) if account.dilation != 1.0 => "Commands, in the guest's time",
            _ => "Commands",
        };
        if !measurement.commands.is_empty() {
            out.heading(commands);
        }
        measurement.commands.iter().for_each(|argv| out.command("", &command_line(argv)));
    }
    if let Some(account) = &trial.lab {
        from_outside(account, &mut out);
    }
    if !trial.settings.is_empty() {
        out.heading("Settings");
        let after = |s: &SettingRecord| s.after.clone().unwrap_or_else(|| "–".into());
        let row = |s: &SettingRecord| {
            vec![s.setting.to_string(), s.before.clone(), s.asked.clone(), s.got.clone(), after(s)]
        };
        out.table(
            &["setting", "before", "asked", "got", "after"],
            &[],
            trial.settings.iter().map(row).collect(),
        );
    }
    out.heading("Environment");
    for (name, value) in &trial.environment {
        out.item(format!("{name}: {value}"));
    }
    out.text
}

/// What the lab knows of a trial, in the guest's time.
fn from_outside(account: &LabAccount, out: &mut Text) {
    out.heading(format!("From outside the guest, in its time; time dilation {}", account.dilation));
    for cpu in account.pacing.iter().flat_map(|pacing| &pacing.vcpus) {
        let row = |s: &StateRecord| vec![s.frequency.to_string(), s.time.to_string(), s.busy.to_string()];
        let (changes, late) = (counted(cpu.transitions_total as usize, "change"), cpu.late);
        out.item(format!("virtual CPU {}: {changes} of frequency, {late} late", cpu.cpu));
        out.table(&["P-state", "time", "not idle"], &[0, 1, 2], cpu.states.iter().map(row).collect());
    }
    if let Some(energy) = account.pacing.as_ref().and_then(|pacing| pacing.energy) {
        out.item(format!("energy, modelled: {}", Unit::Joules.show(energy.joules())));
    }
    for disk in &account.disks {
        let requests = counted(disk.requests as usize, "request");
        let (modelled, late, latest) = (disk.modelled, disk.late, disk.latest);
        out.item(format!(
            "disk {}: {requests} of {modelled} together, {late} late together, {latest} at the most",
            disk.disk
        ));
    }
}

fn measured(measurement: &Measurement, out: &mut Text) {
    out.heading("Outcome");
    let metrics = measurement.outcome.metrics.iter();
    out.table(
        &["metric", "value"],
        &[1],
        metrics.map(|(name, m)| vec![name.clone(), m.unit.show(m.value)]).collect(),
    );
    for warning in &measurement.outcome.warnings {
        out.item(format!("the tool warns: {warning}"));
    }
    if !measurement.roles.is_empty() {
        out.heading("CPU time by role");
        let cores = |cpu: Nanos| cpu.secs() / measurement.duration.secs();
        let roles: Vec<(Role, f64)> =
            measurement.roles.iter().map(|(role, cpu)| (*role, cores(*cpu))).collect();
        let row = |(role, cores): &(Role, f64)| {
            vec![role.to_string(), measurement.roles[role].to_string(), shown(*cores)]
        };
        out.table(&["role", "CPU time", "cores"], &[1, 2], notable(&roles).map(row).collect());
    }
    if let Some(recorder) = &measurement.recorder {
        out.blank();
        let frequency = recorder.frequency.name();
        out.line(format!(
            "recorded {} samples ({} missed) for {} of CPU time; frequency from: {frequency}",
            recorder.samples, recorder.missed, recorder.cpu
        ));
        recorder.absent.iter().for_each(|reason| out.item(format!("not recorded: {reason}")));
    }
}

fn comparison(report: &ComparisonReport, mut out: Text) -> String {
    out.line(&report.title);
    let sides =
        report.comparisons.iter().flat_map(|(context, c)| [context.as_str(), c.a.as_str(), c.b.as_str()]);
    out.line(capitalised(&report.sentence, &sides.flat_map(|side| side.split([' ', ','])).collect()));
    if !report.comparisons.is_empty() {
        out.blank();
        let rows: Vec<_> = report.comparisons.iter().map(|(context, c)| comparison_row(context, c)).collect();
        comparisons(rows, &[], &mut out);
        out.heading("In words");
    }
    for (context, c) in &report.comparisons {
        out.item(format!("{context}: {}", c.sentence));
    }
    if !report.notes.is_empty() {
        out.heading("To know besides");
    }
    for note in &report.notes {
        out.item(note);
    }
    out.text
}

fn results(report: &Report, out: &mut Text) {
    let summary = report.summary;
    for workload in workloads(&summary.cells) {
        let cells: Vec<&CellSummary> = summary.cells.iter().filter(|c| c.workload == workload).collect();
        let names = factors(report, &cells);
        out.heading(format!("{workload}: {}, {}", summary.metric, direction(summary.better)));
        let labels: Vec<&str> = if names.is_empty() { vec!["cell"] } else { names.clone() };
        let head: Vec<&str> =
            labels.iter().copied().chain(["n", "median", "interval", "of best", "spread"]).collect();
        let numbers: Vec<usize> = (labels.len()..head.len()).collect();
        out.table(&head, &numbers, cells.iter().map(|c| cell_row(report, c, &names)).collect());
    }
    if !summary.cells.is_empty() {
        out.blank();
        out.line(aa_floor(report));
    }
    load_note(report).into_iter().for_each(|note| out.line(note));
}

fn cell_row(report: &Report, cell: &CellSummary, factors: &[&str]) -> Vec<String> {
    let pairs = factor_levels(report, cell);
    let level =
        |f: &&str| pairs.iter().find(|(name, _)| name == f).map_or("–", |(_, level)| level).to_owned();
    let mut row: Vec<String> = factors.iter().map(level).collect();
    if row.is_empty() {
        row.push(cell.cell.to_string());
    }
    let count = match cell.excluded.len() {
        0 => cell.points.len().to_string(),
        out => format!("{} (+{out} not counted)", cell.points.len()),
    };
    row.extend([
        count,
        cell_median(report, cell),
        cell_interval(report, cell),
        relative(cell.relative),
        percent(cell.spread),
    ]);
    row
}

const COMPARISON_HEAD: [&str; 6] = ["", "against", "ratio", "interval", "p", "verdict"];

fn effects(report: &Report, out: &mut Text) {
    let (asked, context) = asked_and_context(report);
    if !asked.is_empty() {
        out.heading("What each factor changes");
        effect_table(&asked, &[], out);
    }
    if !context.is_empty() {
        out.heading(CONTEXT_TITLE);
        effect_table(&context, &["p", "verdict"], out);
    }
    if !report.summary.attribution.is_empty() {
        out.heading("What decides: share of the variance explained");
        let shares = report.summary.attribution.iter();
        let rows =
            shares.map(|a| vec![a.workload.clone(), a.source.clone(), percent(Some(a.share))]).collect();
        out.table(&["workload", "by", "share"], &[2], rows);
    }
}

fn effect_table(effects: &[&FactorEffect], left_out: &[&str], out: &mut Text) {
    let rows_of = |e: &&FactorEffect| -> Vec<Vec<String>> {
        let context =
            if e.context.is_empty() { e.factor.clone() } else { format!("{} in {}", e.factor, e.context) };
        e.comparisons.iter().map(|c| comparison_row(&context, c)).collect()
    };
    let rows = effects.iter().flat_map(rows_of).collect();
    comparisons(rows, left_out, out);
}

fn comparisons(rows: Vec<Vec<String>>, left_out: &[&str], out: &mut Text) {
    let (head, rows) = comparison_table(COMPARISON_HEAD, rows, left_out);
    let is_number = |column: &usize| ["ratio", "interval", "p"].contains(&head[*column]);
    let numbers: Vec<usize> = (0..head.len()).filter(is_number).collect();
    out.table(&head, &numbers, rows);
}

fn processors(report: &Report, out: &mut Text) {
    let row = |cell: &CellSummary| {
        let roles = cores_by_role(report, cell)?;
        let parts: Vec<String> =
            notable(&roles).map(|(role, cores)| format!("{role} {}", shown(*cores))).collect();
        let parts = if parts.is_empty() { "less than 0.01 each".to_owned() } else { parts.join(", ") };
        Some(vec![cell.cell.to_string(), parts])
    };
    let rows: Vec<_> = report.summary.cells.iter().filter_map(row).collect();
    if !rows.is_empty() {
        out.heading("Whose CPU time it was, in cores");
        out.table(&["cell", "roles"], &[], rows);
    }
}

/// That a model's figures are a model's.
fn model(report: &Report, out: &mut Text) {
    if let Some(note) = simulation::note(report) {
        out.blank();
        out.line(note);
    }
}

/// The run beside what was published; nothing where the study has none of that.
fn beside_published(report: &Report, out: &mut Text) {
    let rows = &report.summary.published;
    if rows.is_empty() {
        return;
    }
    out.heading(published::TITLE);
    out.item(published::sentence(report));
    out.item(published::provenance(report));
    let head = published::narrow_head(report);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows = rows.iter().map(|row| published::narrow_row(report, row)).collect();
    out.table(&head, &published::NARROW_NUMBERS, rows);
    out.item(published::LEGEND);
    for sentence in published::disagreements(report) {
        out.item(format!("does not agree: {sentence}"));
    }
    published::notes(report).iter().for_each(|note| out.item(note));
    for (number, source) in (1..).zip(published::sources(report)) {
        out.item(format!("[{number}] {source}"));
    }
}

fn finding_titles(report: &Report, out: &mut Text) {
    if !report.findings.is_empty() {
        out.heading("Findings");
    }
    for title in numbered_titles(report) {
        out.line(title);
    }
}

/// `1. The read-ahead of loop0 is too small (shown)`.
fn numbered_titles(report: &Report) -> impl Iterator<Item = String> {
    let names = names(report);
    let numbered = (1..).zip(report.findings);
    numbered.map(move |(n, f)| format!("{n}. {} ({})", capitalised(&f.title, &names), f.confidence.name()))
}

fn findings(report: &Report, heading: &str, out: &mut Text) {
    if report.findings.is_empty() {
        return;
    }
    out.heading(heading);
    for (i, (title, f)) in numbered_titles(report).zip(report.findings).enumerate() {
        if i > 0 {
            out.blank();
        }
        out.line(title);
        for e in &f.evidence {
            out.item(format!("{}: {} ({})", e.what, e.figure, e.source));
        }
        out.item(&f.reason);
        if let Some(gain) = &f.gain {
            out.item(format!("expected: {}", expected(gain)));
        }
        if let Some(remedy) = &f.remedy {
            out.item(format!("remedy: {}", remedy.what));
            for s in &remedy.settings {
                out.item(format!("  {s}"));
            }
            out.item(format!("undo: {}", remedy.undo));
        }
        if !f.next.is_empty() {
            out.command("next:", &f.next);
        }
    }
}

fn not_counted(report: &Report, out: &mut Text) {
    let left_out = left_out(report);
    if left_out.is_empty() {
        return;
    }
    let count = counted(left_out.len(), "trial");
    out.heading(format!("{count} not counted: {}", left_out_kinds(&left_out)));
    for t in left_out.iter().take(MAX_LEFT_OUT) {
        let (name, standing) = (trial_name(&t.key), standing(&t.validity));
        out.item(format!("{}, {name}: {standing}, {}", t.key.cell, why_not_counted(&t.validity)));
    }
    if let Some((more, command)) = how_to_see_more(report, &left_out) {
        out.item(more);
        out.command("", &command);
    }
}

/// Text that grows; every piece becomes inert on its way in.
pub(crate) struct Text {
    text: String,
    width: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self::of_width(WIDTH)
    }
}

impl Text {
    /// Empty, to be so many columns wide.
    pub(crate) fn of_width(width: usize) -> Self {
        Self { text: String::new(), width }
    }

    /// All of it.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    pub(crate) fn line(&mut self, text: impl Display) {
        self.wrapped("", &one_line(&text.to_string()));
    }

    pub(crate) fn item(&mut self, text: impl Display) {
        self.wrapped(INDENT, &one_line(&text.to_string()));
    }

    /// What is to be copied, on lines of its own below what it is for.
    pub(crate) fn command(&mut self, label: &str, command: &str) {
        if !label.is_empty() {
            self.item(label);
        }
        for line in command_lines(command, self.width) {
            writeln!(self.text, "{line}").expect(NEVER);
        }
    }

    /// Breaks between words; a word that is too long stands on a line of its own.
    fn wrapped(&mut self, indent: &str, text: &str) {
        let mut line = String::new();
        for word in tied(text).split(' ').map(|word| word.replace(TIED, " ")) {
            let length = indent.len() + line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && length > self.width {
                writeln!(self.text, "{indent}{line}").expect(NEVER);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        writeln!(self.text, "{indent}{line}").expect(NEVER);
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    pub(crate) fn heading(&mut self, text: impl Display) {
        self.blank();
        self.line(text);
    }

    /// Columns in `numbers` are set flush right. No word is broken: a table for which that leaves no room has
    /// a row's first column on a line, and the others below it with their names.
    pub(crate) fn table(&mut self, head: &[&str], numbers: &[usize], rows: Vec<Vec<String>>) {
        let head: Vec<String> = head.iter().map(|name| inert::one_line(name).into_owned()).collect();
        let inert_row =
            |row: &Vec<String>| row.iter().map(|field| inert::one_line(field).into_owned()).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(inert_row).collect();
        let least = longest_words(&head, &rows);
        let room: usize = least.iter().map(|word| word + PADDING).sum();
        if room > self.width && head.len() > 1 {
            if !head[0].is_empty() {
                self.wrapped("  ", &head[0]);
            }
            return rows.iter().for_each(|row| self.stacked(&head, row));
        }
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        table.set_header(head);
        table.add_rows(rows);
        for (at, word) in least.into_iter().enumerate() {
            let Some(column) = table.column_mut(at) else { continue };
            let word = u16::try_from(word + PADDING).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(ComfyWidth::Fixed(word)));
            if numbers.contains(&at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            writeln!(self.text, " {}", line.trim_end()).expect(NEVER);
        }
    }

    /// One row as its first column and, below that, what the others have.
    fn stacked(&mut self, head: &[String], row: &[String]) {
        let Some((first, others)) = row.split_first() else { return };
        self.wrapped("  ", first);
        let pairs = head[1..].iter().zip(others).filter(|(_, field)| !field.is_empty());
        let pairs: Vec<String> =
            pairs.map(|(name, field)| format!("{name} {field}").replace(' ', &TIED.to_string())).collect();
        self.wrapped("      ", &pairs.join(", "));
    }
}

/// What a column takes beside its text; the last one's is cut off, for the blank that begins a line.
const PADDING: usize = 2;

/// The longest word of each column.
fn longest_words(head: &[String], rows: &[Vec<String>]) -> Vec<usize> {
    let longest = |at: usize| {
        let fields = rows.iter().filter_map(|row| row.get(at)).chain([&head[at]]);
        fields.flat_map(|field| field.split(' ')).map(|word| word.chars().count()).max().unwrap_or_default()
    };
    (0..head.len()).map(longest).collect()
}

const NEVER: &str = "a String takes all that is written to it";
