//! Energy counters: powercap and the perf source `power`; sensors of hwmon and power supplies.

use super::Error;
use super::reader::Reader;
use domain::inventory::{Power, RaplDomain};
use domain::units::Microjoules;
use parse::kernel::power;

const POWERCAP: &str = "/sys/class/powercap";

pub(super) fn take(reader: &Reader) -> Result<Power, Error> {
    let mut rapl = Vec::new();
    for zone in reader.names(POWERCAP).into_iter().filter(|zone| zone.contains("rapl")) {
        rapl.extend(domain(reader, zone)?);
    }
    let events = reader.names("/sys/bus/event_source/devices/power/events");
    Ok(Power {
        rapl,
        perf_events: events.into_iter().filter(|name| !name.contains('.')).collect(),
        hwmon: power::sensors(reader),
        supplies: power::supplies(reader),
    })
}

impl power::Tree for Reader<'_> {
    fn names(&self, folder: &str) -> Vec<String> {
        self.names(&format!("/sys/{folder}"))
    }

    fn text(&self, path: &str) -> Option<String> {
        self.text(&format!("/sys/{path}"))
    }
}

/// A control type (`intel-rapl`) has no name: it is no domain.
fn domain(reader: &Reader, zone: String) -> Result<Option<RaplDomain>, Error> {
    let Some(own) = reader.text(&format!("{POWERCAP}/{zone}/name")) else { return Ok(None) };
    // `intel-rapl:0:1` is a part of `intel-rapl:0`.
    let parent = zone.rsplit_once(':').filter(|(above, _)| above.contains(':'));
    let parent = parent.and_then(|(above, _)| reader.text(&format!("{POWERCAP}/{above}/name")));
    let range = reader.number(&format!("{POWERCAP}/{zone}/max_energy_range_uj"))?;
    Ok(Some(RaplDomain {
        name: parent.map_or_else(|| own.clone(), |parent| format!("{parent}/{own}")),
        max_energy: range.map(Microjoules::new),
        readable: reader.text(&format!("{POWERCAP}/{zone}/energy_uj")).is_some(),
        zone,
    }))
}
