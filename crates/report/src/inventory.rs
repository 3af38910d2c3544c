//! A machine as text for people: sections with their name at the left, as wide as the terminal or 100
//! columns, no colours.
//!
//! What is the same on many CPUs is said once, with their list. What the machine lacks stands at the end,
//! with what that means.

mod cpu;
pub(crate) mod frequency;
mod idle;
pub(crate) mod page;
pub(crate) mod storage;
mod system;

use domain::inventory::Inventory;
use page::{Page, Spacing};

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// What decides speed, as it is set now.
    Brief,
    /// Also what could be chosen instead, memory nodes, each mitigation, the command line and mount options.
    Full,
}

/// A machine in one line: `2 × Intel Xeon, Linux 6.1.0-18-amd64, a virtual machine (kvm), 23.5 GiB`.
pub fn one_line(inventory: &Inventory) -> String {
    let cpus = inventory.cpus.online.len();
    let model = inventory.cpus.model.name.as_deref().unwrap_or("CPU of unknown model");
    let release = inventory.kernel.release.as_ref();
    let guest = inventory.virtualisation.hypervisor.as_ref();
    let parts = [
        Some(format!("{cpus} × {model}")),
        release.map(|release| format!("Linux {release}")),
        guest.map(|name| format!("a virtual machine ({name})")),
        inventory.memory.total.map(|total| total.to_string()),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

/// A machine as text of the usual width, with a newline at its end.
pub fn text(inventory: &Inventory, style: Style) -> String {
    text_within(inventory, style, None)
}

/// The same of at most so many columns, but for words and tables that are wider; of the usual width where
/// there are none, as into a pipe.
pub fn text_within(inventory: &Inventory, style: Style, width: Option<usize>) -> String {
    let mut page = width.map_or_else(Page::default, |width| Page::new(width, Spacing::Blank));
    system::machine(inventory, &mut page);
    cpu::show(&inventory.cpus, style, &mut page);
    frequency::show(inventory, style, &mut page);
    idle::show(inventory, style, &mut page);
    system::kernel(&inventory.kernel, style, &mut page);
    system::memory(&inventory.memory, &mut page);
    storage::show(inventory, style, &mut page);
    system::power(&inventory.power, &mut page);
    system::rivals(&inventory.rivals, &mut page);
    system::absent(&inventory.absent, &mut page);
    page.finish()
}
