//! A machine's load in the simulator.

use crate::exam::{Bench, Said};
use crate::recipe::Recipe;
use analysis::explain::{Case, explain};
use analysis::facts::usage::Usage;
use analysis::summarise::summarise;
use analysis::summary::RunData;
use disks::{DiskSpec, LinkSpec};
use domain::bench::{Sink, SinkError};
use domain::finding::Finding;
use domain::ids::{RunId, TrialKey};
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::setting::SettingRequest;
use domain::study::Study;
use domain::time::{Nanos, Timestamp};
use domain::trace::{Trace, TraceHead};
use domain::trial::{Provenance, Run, Trial, Validity};
use sim::assemble::{Models, SimRequest};
use sim::bench::{Simulated, simulate};
use sim::machine::MachineSpec;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The simulator.
pub struct Simulator;

impl Bench for Simulator {
    fn throughput(&self, recipe: &Recipe, also: &[SettingRequest]) -> Result<f64, String> {
        Ok(run(recipe, also)?.throughput())
    }

    fn watched(&self, recipe: &Recipe) -> Result<(f64, Vec<Said>), String> {
        let ran = run(recipe, &[])?;
        let said = |finding: Finding| Said {
            rule: finding.rule.to_owned(),
            confidence: finding.confidence,
            settings: finding.remedy.map_or_else(Vec::new, |remedy| remedy.settings),
        };
        Ok((ran.throughput(), ran.findings().into_iter().map(said).collect()))
    }
}

struct Shipped;

impl Models for Shipped {
    fn disk(&self, name: &str) -> Result<DiskSpec, String> {
        DiskSpec::shipped(name).ok_or_else(|| format!("no disk is named `{name}`"))
    }

    fn link(&self, name: &str) -> Result<LinkSpec, String> {
        LinkSpec::shipped(name).ok_or_else(|| format!("no link is named `{name}`"))
    }

    fn trace(&self, file: &str) -> Result<sim::load::Trace, String> {
        Err(format!("no trace is named `{file}`"))
    }
}

/// A simulated trial with its trace.
struct Ran {
    study: Study,
    text: String,
    plan: Plan,
    cell: Cell,
    simulated: Simulated,
    trace: Trace,
}

struct Rows(Option<Trace>);

impl Sink for Rows {
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
        self.0 = Some(Trace::new(head.clone()));
        Ok(())
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
        let trace = self.0.as_mut().expect("a trace begins with its head");
        trace.times.push(time);
        trace.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(*value));
        Ok(())
    }
}

fn run(recipe: &Recipe, also: &[SettingRequest]) -> Result<Ran, String> {
    let machine = MachineSpec::parse(&recipe.machine())
        .map_err(|error| format!("{}: {error}\n{}", recipe.name, recipe.machine()))?;
    let text = recipe.study();
    let study = parse::study::parse(&text).map_err(|errors| format!("{}: {errors}\n{text}", recipe.name))?;
    let plan = Plan::new(study.clone(), Seed(1)).map_err(|error| format!("{}: {error}", recipe.name))?;
    let mut cell = plan.cells.first().ok_or("a study without a cell")?.clone();
    for request in also {
        cell.settings.retain(|known| known.setting.name != request.setting.name);
        cell.settings.push(request.clone());
    }
    let mut rows = Rows(None);
    let order = SimRequest { machine: &machine, models: &Shipped, study: &study, cell: &cell, seed: Seed(7) };
    let simulated =
        simulate(&order, &mut rows).map_err(|error| format!("{}: {error}\n{text}", recipe.name))?;
    let trace = rows.0.ok_or("a trial without a trace")?;
    Ok(Ran { study, text, plan, cell, simulated, trace })
}

impl Ran {
    fn throughput(&self) -> f64 {
        self.simulated.measurement.outcome.metrics.get("throughput").map_or(0.0, |metric| metric.value)
    }

    /// As if the machine had been watched while it worked.
    fn findings(&self) -> Vec<Finding> {
        let key = TrialKey { cell: self.cell.id.clone(), block: 1, attempt: 1 };
        let start = Timestamp::from_unix_nanos(0);
        let id = RunId(self.study.name.clone());
        let trial = Trial {
            run: id.clone(),
            key: key.clone(),
            study: self.study.name.clone(),
            workload: self.cell.workload.name.clone(),
            levels: self.cell.levels.clone(),
            provenance: Provenance::Simulation,
            machine: self.study.name.clone(),
            started: start,
            settings: self.simulated.settings.clone(),
            environment: self.simulated.environment.clone(),
            validity: Validity::Valid,
            measurement: Some(self.simulated.measurement.clone()),
            lab: None,
            origin: None,
        };
        let run = Run {
            id,
            study: self.study.name.clone(),
            study_text: self.text.clone(),
            seed: self.plan.seed,
            started: start,
            finished: Some(start),
            provenance: Provenance::Simulation,
            machine: self.study.name.clone(),
            flyball: String::new(),
            revision: None,
            command: Vec::new(),
        };
        let data = RunData { run, study: self.study.clone(), trials: vec![trial], skipped: BTreeMap::new() };
        let summary = summarise(&data, None);
        let usages = vec![(key, Usage::of(&self.trace))];
        let target = self.simulated.environment.get("device").map(String::as_str);
        let case = Case {
            inventory: Some(&self.simulated.inventory),
            target_device: target,
            usages: &usages,
            ..Case::new(&data, &summary)
        };
        explain(&case)
    }
}

/// What a trial of a machine as it is showed, for people.
///
/// # Errors
/// Where it cannot be simulated.
pub fn shown(recipe: &Recipe) -> Result<String, String> {
    let ran = run(recipe, &[])?;
    let measured = &ran.simulated.measurement;
    let mut text = String::new();
    for (name, metric) in &measured.outcome.metrics {
        let _ = writeln!(text, "    {name} = {:.4}", metric.value);
    }
    let seconds = measured.duration.secs();
    for (role, used) in &measured.roles {
        let _ = writeln!(text, "    {role}: {:.3} cores", used.secs() / seconds);
    }
    for thread in measured.threads.iter().take(4) {
        let _ = writeln!(
            text,
            "    thread {} ({}): {:.3}",
            thread.name,
            thread.role,
            thread.cpu.secs() / seconds
        );
    }
    let usage = Usage::of(&ran.trace);
    for disk in &usage.disks {
        let _ = writeln!(
            text,
            "    {}: busy {:.2}, depth {:.1}, {:.0} reads/s of {:.0}, {:.0} writes/s of {:.0}",
            disk.device,
            disk.busy,
            disk.depth.unwrap_or(0.0),
            disk.read.rate,
            disk.read.bytes / disk.read.rate.max(1.0),
            disk.write.rate,
            disk.write.bytes / disk.write.rate.max(1.0)
        );
    }
    for (state, idling) in &usage.idle {
        let _ = writeln!(text, "    state{state}: {:.0} entries/s, {:.2} CPUs", idling.entries, idling.cpus);
    }
    for states in &usage.pstates {
        let _ = writeln!(text, "    {}: {:?}", states.policy, states.shares);
    }
    for finding in ran.findings() {
        let _ = writeln!(text, "    {:?} {}: {}", finding.confidence, finding.rule, finding.title);
    }
    Ok(text)
}
