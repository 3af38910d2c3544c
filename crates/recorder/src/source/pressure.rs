//! `/proc/pressure/{cpu,io,memory}` (kernel `Documentation/accounting/psi.rst`).

use super::{Format, Group, Take, counter, each};
use crate::recorder::Roots;
use crate::texts::Sources;
use domain::Nanos;
use domain::trace::{Series, SeriesUnit};
use parse::proc::{Error, pressure};

pub const GROUP: Group = Group { formats: &[&Pressure], open };

struct Pressure;

fn open(sources: &mut Sources, roots: &Roots, _: Nanos) -> crate::Result<()> {
    for resource in ["cpu", "io", "memory"] {
        sources.add_or_note(&Pressure, resource, &roots.proc.join("pressure").join(resource), "pressure");
    }
    Ok(())
}

impl Format for Pressure {
    fn name(&self) -> &'static str {
        "pressure"
    }

    fn takes(&self, resource: &str) -> bool {
        !resource.is_empty()
    }

    fn series(&self, resource: &str, _: &str) -> Vec<Series> {
        // The whole system never waits for the CPU, so the kernel's line for it is always zero.
        let kinds: &[&str] = if resource == "cpu" { &["some"] } else { &["some", "full"] };
        let column = |kind| counter(format!("psi.{resource}.{kind}_us"), SeriesUnit::Micros, None);
        kinds.iter().map(column).collect()
    }

    fn values(&self, resource: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        let pressure = pressure::pressure(&String::from_utf8_lossy(bytes))?;
        let full = pressure.full_us.filter(|_| resource != "cpu");
        each("", [pressure.some_us, full], take);
        Ok(())
    }
}
