//! The policies worth asking for: every governor that the machine has, and the tunables that decide most.

use crate::fit::Replay;
use crate::machine::value;
use domain::setting::{SettingName, SettingRequest};
use sim::machine::Driver;

/// Settings to be predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhatIf {
    /// What is set; the rest stays in force.
    pub settings: Vec<SettingRequest>,
}

impl WhatIf {
    /// Settings by name and value.
    pub fn of(settings: &[(&str, &str)]) -> Self {
        let request = |(name, value): &(&str, &str)| SettingRequest {
            setting: SettingName::parse(name),
            value: (*value).to_owned(),
        };
        Self { settings: settings.iter().map(request).collect() }
    }
}

/// Tunables by governor with the values that are tried: thresholds, windows, and what counts as busy.
const TUNABLES: [(&str, &str, &[&str]); 5] = [
    ("ondemand", "ondemand.up_threshold", &["80", "60", "40", "20"]),
    ("ondemand", "ondemand.io_is_busy", &["1", "0"]),
    ("ondemand", "ondemand.sampling_down_factor", &["10"]),
    ("conservative", "conservative.up_threshold", &["60", "40"]),
    ("schedutil", "schedutil.rate_limit_us", &["500", "10000"]),
];

/// The governors of the kernel, where the inventory does not list those that a machine has.
const GOVERNORS: [&str; 5] = ["performance", "ondemand", "conservative", "schedutil", "powersave"];

/// What was asked for: settings that hold together, under each governor and with each value of a sweep.
/// Nothing where nothing was.
pub fn asked(
    governors: &[String],
    together: &[SettingRequest],
    sweeps: &[(String, Vec<String>)],
) -> Vec<WhatIf> {
    let request = |name: &str, value: &str| SettingRequest {
        setting: SettingName::parse(name),
        value: value.to_owned(),
    };
    let mut all = vec![together.to_vec()];
    if !governors.is_empty() {
        let under = |name: &String| [&[request("governor", name)], together].concat();
        all = governors.iter().map(under).collect();
    }
    for (name, values) in sweeps {
        let each = |settings: &Vec<SettingRequest>| -> Vec<Vec<SettingRequest>> {
            values.iter().map(|value| [&settings[..], &[request(name, value)]].concat()).collect()
        };
        all = all.iter().flat_map(each).collect();
    }
    all.retain(|settings| !settings.is_empty());
    all.into_iter().map(|settings| WhatIf { settings }).collect()
}

/// Lifts the limit of the highest frequency, where one is in force.
fn lifted(replay: &Replay) -> Option<SettingRequest> {
    let most = replay.machine().spec.cpu.states.last()?.frequency.khz();
    let limit: u64 = value(replay.in_force(), "max_freq")?.parse().ok()?;
    let request = || SettingRequest { setting: SettingName::parse("max_freq"), value: most.to_string() };
    (limit < most).then(request)
}

/// The lift alone, and each of the others with it.
fn with_and_without(lift: SettingRequest, others: &[WhatIf]) -> Vec<WhatIf> {
    let with =
        |other: &WhatIf| WhatIf { settings: [&other.settings[..], std::slice::from_ref(&lift)].concat() };
    let all = others.iter().map(with).collect::<Vec<_>>();
    [vec![WhatIf { settings: vec![lift.clone()] }], all].concat()
}

/// Governors of the kernel on a machine whose driver chooses by itself: it has to be in passive mode, where
/// its kernel has that. Nothing where a limit is in force, which would be gone with the mode.
fn in_passive_mode(replay: &Replay, driver: Driver) -> Vec<WhatIf> {
    let is_limited = || {
        let limits = ["turbo", "min_perf_pct", "max_perf_pct"];
        lifted(replay).is_some() || limits.iter().any(|name| value(replay.in_force(), name).is_some())
    };
    let passive = driver.in_mode("passive", replay.machine().spec.kernel);
    let Some(mode) = driver.mode_setting().filter(|_| passive.is_some() && !is_limited()) else {
        return Vec::new();
    };
    ["schedutil", "ondemand"].map(|name| WhatIf::of(&[(mode, "passive"), ("governor", name)])).into()
}

/// What is predicted without asking.
pub fn what_matters(replay: &Replay) -> Vec<WhatIf> {
    let machine = replay.machine();
    let driver = machine.driver();
    let by_driver = !driver.has_governors();
    let known: Vec<&str> = machine.governors.iter().map(String::as_str).collect();
    let has = |name: &&str| known.is_empty() || known.contains(name);
    let governors: Vec<&str> = match by_driver {
        true => vec!["performance", "powersave"],
        false => GOVERNORS.into_iter().filter(has).collect(),
    };
    let mut all: Vec<WhatIf> = governors.iter().map(|name| WhatIf::of(&[("governor", name)])).collect();
    if by_driver {
        let preferences = machine.preferences.iter().filter(|epp| *epp != "default");
        all.extend(preferences.map(|epp| WhatIf::of(&[("governor", "powersave"), ("epp", epp)])));
        all.extend(in_passive_mode(replay, driver));
    } else {
        for (governor, tunable, values) in TUNABLES {
            if governors.contains(&governor) {
                all.extend(
                    values.iter().map(|value| WhatIf::of(&[("governor", governor), (tunable, value)])),
                );
            }
        }
    }
    let limited: Vec<WhatIf> =
        lifted(replay).into_iter().flat_map(|lift| with_and_without(lift, &all)).collect();
    all.extend(limited);
    // What is in force already is no question.
    let is_in_force =
        |one: &SettingRequest| value(replay.in_force(), &one.setting.name) == Some(one.value.as_str());
    for what_if in &mut all {
        what_if.settings.retain(|one| !is_in_force(one));
    }
    all.retain(|what_if| !what_if.settings.is_empty());
    // Two that differ in what is in force alone are one.
    let mut each: Vec<WhatIf> = Vec::new();
    for what_if in all {
        if !each.contains(&what_if) {
            each.push(what_if);
        }
    }
    each
}
