//! Energy: `energy_uj` of each RAPL domain (kernel `Documentation/power/powercap/powercap.rst`).

use super::{Format, Group, Take, counter};
use crate::recorder::Roots;
use crate::texts::{Sources, every, names};
use domain::Nanos;
use domain::energy::EnergySource;
use domain::trace::{Series, SeriesUnit};
use parse::proc::{Error, number};
use std::fs;
use std::path::Path;

pub const GROUP: Group = Group { formats: &[&Energy], open };

/// What is behind its name in a spool are where it wraps, and the domain.
struct Energy;

/// It is read no more often than this: RAPL counts in steps of about 1 ms, and a short difference of two
/// readings is mostly the steps' noise.
const PERIOD: Nanos = Nanos::from_millis(20);

fn open(sources: &mut Sources, roots: &Roots, interval: Nanos) -> crate::Result<()> {
    let powercap = roots.sys.join("class/powercap");
    let zones = zones(&powercap);
    if zones.is_empty() {
        sources.absent.push("no RAPL domain: no package counts its energy".to_owned());
    }
    let turn = every(zones.len(), interval, PERIOD);
    for zone in zones {
        let path = powercap.join(&zone.folder).join("energy_uj");
        let argument = format!("{} {}", zone.range_uj, zone.name);
        match sources.add(&Energy, argument, &path, turn) {
            // A domain within a package is none of the whole, and `psys` is of more than packages.
            Ok(()) if zone.name.starts_with("package") && !zone.name.contains('.') => {
                sources.energy = Some(EnergySource::Rapl)
            }
            Ok(()) => {}
            Err(error) => {
                sources.absent.push(format!("no energy of {}: `{}`: {error}", zone.name, path.display()))
            }
        }
    }
    Ok(())
}

impl Format for Energy {
    fn name(&self) -> &'static str {
        "energy"
    }

    fn takes(&self, argument: &str) -> bool {
        range_and_domain(argument).is_some()
    }

    fn series(&self, argument: &str, _: &str) -> Vec<Series> {
        let column =
            |(range, domain)| counter(format!("rapl.{domain}.uj"), SeriesUnit::Microjoules, Some(range));
        range_and_domain(argument).map(column).into_iter().collect()
    }

    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        take("", 0, number("energy_uj", &String::from_utf8_lossy(bytes))?);
        Ok(())
    }
}

fn range_and_domain(argument: &str) -> Option<(u64, &str)> {
    let (range, domain) = argument.split_once(' ')?;
    Some((range.parse().ok()?, domain))
}

#[derive(Debug)]
struct Zone {
    folder: String,
    name: String,
    range_uj: u64,
}

/// The RAPL domains: `intel-rapl:0` is called `package-0`, `intel-rapl:0:0` within it `package-0.core`. The
/// MMIO interface shows the same package again, and is left out.
fn zones(powercap: &Path) -> Vec<Zone> {
    let zone = |folder: String| {
        let text = |file: &str| fs::read_to_string(powercap.join(&folder).join(file)).ok();
        let own = text("name")?.trim().to_owned();
        let range_uj = text("max_energy_range_uj")?.trim().parse().ok()?;
        let parent = folder.rsplit_once(':').map(|(parent, _)| parent.to_owned())?;
        let name = match fs::read_to_string(powercap.join(parent).join("name")) {
            Ok(parent) => format!("{}.{own}", parent.trim()),
            Err(_) => own,
        };
        Some(Zone { folder, name, range_uj })
    };
    names(powercap).into_iter().filter(|name| !name.contains("mmio")).filter_map(zone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_named_with_their_package() {
        let folder = tempfile::tempdir().unwrap();
        for (zone, name) in [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:1", "package-1"),
            ("intel-rapl-mmio:0", "package-0"),
        ] {
            fs::create_dir(folder.path().join(zone)).unwrap();
            fs::write(folder.path().join(zone).join("name"), format!("{name}\n")).unwrap();
            fs::write(folder.path().join(zone).join("max_energy_range_uj"), "262143328850\n").unwrap();
        }
        let names: Vec<_> = zones(folder.path()).into_iter().map(|z| z.name).collect();
        assert_eq!(names, ["package-0", "package-0.core", "package-1"]);
    }
}
