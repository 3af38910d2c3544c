//! Which of the programs that tune a machine would fight a value. Pure.

use super::error::Error;
use super::record::Entry;
use domain::inventory::Rival;

/// A program, its unit, and the ends of the paths that it writes, from its documentation.
struct Fights {
    name: &'static str,
    unit: &'static str,
    paths: &'static [&'static str],
}

const GOVERNOR: &str = "/scaling_governor";
const EPP: &str = "/energy_performance_preference";
const EPB: &str = "/energy_perf_bias";
const TURBO: [&str; 2] = ["/no_turbo", "/boost"];

const FIGHTS: [Fights; 7] = [
    Fights {
        name: "power-profiles-daemon",
        unit: "power-profiles-daemon.service",
        paths: &[GOVERNOR, EPP, EPB, TURBO[0], TURBO[1]],
    },
    Fights {
        name: "TLP",
        unit: "tlp.service",
        paths: &[
            GOVERNOR,
            EPP,
            EPB,
            TURBO[0],
            TURBO[1],
            "/scaling_min_freq",
            "/scaling_max_freq",
            "/min_perf_pct",
            "/max_perf_pct",
            "/hwp_dynamic_boost",
            "/queue/scheduler",
            "/vm/laptop_mode",
            "/vm/dirty_writeback_centisecs",
            "/vm/dirty_expire_centisecs",
            "/kernel/nmi_watchdog",
        ],
    },
    Fights {
        name: "auto-cpufreq",
        unit: "auto-cpufreq.service",
        paths: &[GOVERNOR, EPP, EPB, TURBO[0], TURBO[1], "/scaling_min_freq", "/scaling_max_freq"],
    },
    Fights {
        name: "thermald",
        unit: "thermald.service",
        paths: &[TURBO[0], TURBO[1], "/scaling_max_freq", "/max_perf_pct", "/min_perf_pct"],
    },
    Fights { name: "cpufrequtils", unit: "cpufrequtils.service", paths: &[GOVERNOR] },
    Fights {
        name: "cpupower",
        unit: "cpupower.service",
        paths: &[GOVERNOR, "/scaling_min_freq", "/scaling_max_freq", EPB],
    },
    Fights { name: "ondemand", unit: "ondemand.service", paths: &[GOVERNOR] },
];

/// Whether it runs, or will at the next boot.
pub(super) fn is_active(rival: &Rival) -> bool {
    rival.running || rival.enabled == Some(true)
}

/// The first entry that an active program would fight.
pub(super) fn conflict(entries: &[Entry], rivals: &[Rival]) -> Option<Error> {
    entries.iter().find_map(|entry| {
        let rival = rivals.iter().filter(|r| is_active(r)).find(|r| fights(r, &entry.path))?;
        let unit = FIGHTS.iter().find(|f| f.name == rival.name).map(|f| f.unit.to_owned());
        Some(Error::Rival {
            setting: entry.asked.clone(),
            rival: rival.name.clone(),
            changes: rival.changes.clone(),
            unit: unit.unwrap_or_default(),
        })
    })
}

fn fights(rival: &Rival, path: &str) -> bool {
    let writes = |f: &&Fights| f.name == rival.name && f.paths.iter().any(|end| path.ends_with(end));
    FIGHTS.iter().any(|f| writes(&f))
}

#[cfg(test)]
mod tests {
    use super::super::lines::tests::entry;
    use super::super::record::PersistMethod::Tmpfiles;
    use super::*;

    fn rival(name: &str, running: bool, enabled: Option<bool>) -> Rival {
        Rival { name: name.into(), running, enabled, profile: None, changes: "things".into() }
    }

    #[test]
    fn only_an_active_program_that_writes_the_same_file_is_in_the_way() {
        let governor = [entry(Tmpfiles, "governor", "/sys/x/policy0/scaling_governor", "a", "b")];
        let told = |rivals: &[Rival]| conflict(&governor, rivals).map(|e| e.to_string());
        assert!(told(&[rival("TLP", false, Some(true))]).is_some_and(|t| t.contains("tlp.service")));
        assert_eq!(told(&[rival("TLP", false, Some(false))]), None);
        assert_eq!(told(&[rival("thermald", true, None), rival("irqbalance", true, None)]), None);
        assert!(told(&[rival("power-profiles-daemon", true, None)]).is_some());
    }
}
