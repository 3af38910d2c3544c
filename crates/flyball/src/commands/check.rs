//! `flyball check`: what this machine is, what it gives, what holds it back.

use crate::args::{Check, Global};
use crate::commands::run::end;
use crate::commands::run::on_this_machine;
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::results::Results;
use crate::{places, terminal, typed};
use anyhow::Result;
use domain::inventory::Inventory;
use machine::LocalMachine;
use report::inventory::{Style, text as inventory_text};
use session::{Begin, Request};
use std::time::Duration;

/// A check takes at most 90 s, whatever has to be repeated: what is left is for making the file and for the
/// last trial.
const LIMIT: Duration = Duration::from_secs(80);

/// The study behind it.
const STUDY: &str = include_str!("../../../../studies/check.toml");

/// What is added where the frequency policy can be written: the same depth-1 reads as the machine stands, and
/// under `performance`.
const POLICY_FACTOR: &str = "
[factor.policy]
workloads = [\"randread\"]
[[factor.policy.level]]
name = \"as-it-is\"
[[factor.policy.level]]
name = \"performance\"
settings = { governor = \"performance\" }
";

/// Measures on a file in the given folder, and writes the page there.
pub fn check(global: &Global, arguments: &Check) -> Result<End> {
    let folder = places::absolute(&arguments.dir)?;
    let inventory = machine::inventory::take(&LocalMachine)?;
    if !global.json {
        terminal::document(&inventory_text(&inventory, Style::Brief))?;
    }
    let text = if can_vary_policy(&inventory) { format!("{STUDY}{POLICY_FACTOR}") } else { STUDY.to_owned() };
    let study = parse::study::parse(&text)
        .map_err(|e| Usage(format!("the study of `flyball check` is wrong:\n{e}")))?;
    files::output::make_folder(&folder)?;
    let notebook = places::absolute(&places::notebook(global)?)?;
    let interrupt = Interrupt::catch()?;
    let request = Request {
        study: &study,
        text: &text,
        home: None,
        notebook: &notebook,
        seed: arguments.seed,
        begin: Begin::Anew,
        limit: Some(LIMIT),
        command: typed(),
        interrupt: interrupt.flag(),
    };
    let measured = on_this_machine(&request, folder.join("work"))?;
    let results = Results::load(&measured.notebook, &measured.run, None)?.with_traces(&measured.notebook);
    results.print(global)?;
    let page = folder.join("report.html");
    files::output::write(&page, report::html(&results.report()).as_bytes())?;
    terminal::say("");
    terminal::say(format_args!("The same again: {} show {}", places::this_program(global), measured.run));
    terminal::say(format_args!("The report: {}", page.display()));
    Ok(end(&measured, &results))
}

/// Whether there is a policy that could be set to `performance` and is not.
fn can_vary_policy(inventory: &Inventory) -> bool {
    let policies = inventory.cpufreq.iter().flat_map(|cpufreq| &cpufreq.policies);
    places::is_root()
        && policies.into_iter().any(|policy| {
            let offered = policy.available_governors.iter().any(|governor| governor == "performance");
            offered && policy.governor.as_deref() != Some("performance")
        })
}
