//! The kernel: how it was built, started and set.

use super::Error;
use super::reader::Reader;
use crate::access::read_whole;
use domain::inventory::{CpuList, Kernel, Preemption, Tickless};
use flate2::read::GzDecoder;
use parse::kernel::config::Config;
use parse::kernel::{cmdline, selection};
use std::collections::BTreeMap;

/// A bound on the unpacked configuration: the largest distribution's is 300 KiB.
const LONGEST_CONFIG: u64 = 8 << 20;

/// The settings of the page cache's writeback, under `/proc/sys/vm`.
pub const SYSCTLS: [&str; 7] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
    "swappiness",
];

pub(super) fn take(reader: &Reader) -> Result<Kernel, Error> {
    let version = reader.text("/proc/version");
    let release =
        version.as_ref().and_then(|v| Some(v.strip_prefix("Linux version ")?.split(' ').next()?.to_owned()));
    let release = reader.text("/proc/sys/kernel/osrelease").or(release);
    let command_line = cmdline::parse(&reader.text("/proc/cmdline").unwrap_or_default());
    let build = release.as_ref().and_then(|release| config(reader, release));
    let (path, text) = build.unzip();
    let config = Config::parse(text.as_deref().unwrap_or_default());
    let nohz_full = cpus_of(reader, "nohz_full")?;
    Ok(Kernel {
        hz: config.hz(),
        tickless: tickless(&command_line, config.tickless(), &nohz_full),
        preemption: preemption(reader, &command_line, version.as_deref(), &config),
        isolated: cpus_of(reader, "isolated")?,
        mitigations: mitigations(reader),
        clocksource: reader.text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        sysctls: sysctls(reader),
        config: path,
        nohz_full,
        command_line,
        version,
        release,
    })
}

/// The first configuration that is there: its path and text.
fn config(reader: &Reader, release: &str) -> Option<(String, String)> {
    let plain = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    let found = plain.into_iter().find_map(|path| reader.text(&path).map(|text| (path, text)));
    found.or_else(|| {
        let path = "/proc/config.gz";
        let packed = reader.bytes_of(path)?;
        let text = read_whole(GzDecoder::new(&packed[..]), LONGEST_CONFIG).ok()?;
        Some((path.to_owned(), String::from_utf8(text).ok()?))
    })
}

/// A list of CPUs that older kernels write as `(null)` where it is empty.
fn cpus_of(reader: &Reader, name: &str) -> Result<CpuList, Error> {
    let path = format!("/sys/devices/system/cpu/{name}");
    match reader.text(&path).as_deref() {
        Some("(null)") | None => Ok(CpuList::default()),
        Some(_) => Ok(reader.cpus(&path)?.unwrap_or_default()),
    }
}

/// What the kernel can is in its configuration; whether it does, on its command line.
fn tickless(command_line: &[String], built: Option<Tickless>, nohz_full: &CpuList) -> Option<Tickless> {
    match built? {
        _ if cmdline::value(command_line, "nohz") == Some("off") => Some(Tickless::Periodic),
        Tickless::Full if nohz_full.is_empty() => Some(Tickless::Idle),
        built => Some(built),
    }
}

/// The running kernel first (debugfs, root alone), then its command line, its configuration, its version
/// string.
fn preemption(
    reader: &Reader,
    command_line: &[String],
    version: Option<&str>,
    config: &Config,
) -> Option<Preemption> {
    let built = config.preemption().or_else(|| preemption_of_version(version?));
    let dynamic = built.as_ref().is_some_and(|p| p.dynamic);
    let now = reader.text("/sys/kernel/debug/sched/preempt").and_then(|text| selection::parse(&text).chosen);
    let asked = cmdline::value(command_line, "preempt").filter(|_| dynamic).map(str::to_owned);
    match now.or(asked) {
        Some(mode) => Some(Preemption { mode: Some(mode), dynamic }),
        None => built,
    }
}

fn preemption_of_version(version: &str) -> Option<Preemption> {
    let named = |word: &str| version.split_whitespace().any(|w| w == word);
    let mode = |mode: &str| Some(Preemption { mode: Some(mode.to_owned()), dynamic: false });
    match () {
        () if named("PREEMPT_RT") => mode("rt"),
        () if named("PREEMPT_DYNAMIC") => Some(Preemption { mode: None, dynamic: true }),
        () if named("PREEMPT") => mode("full"),
        () => None,
    }
}

fn mitigations(reader: &Reader) -> BTreeMap<String, String> {
    const FOLDER: &str = "/sys/devices/system/cpu/vulnerabilities";
    let names = reader.names(FOLDER).into_iter();
    names.filter_map(|name| Some((name.clone(), reader.text(&format!("{FOLDER}/{name}"))?))).collect()
}

fn sysctls(reader: &Reader) -> BTreeMap<String, String> {
    let value = |name: &&str| Some((format!("vm.{name}"), reader.text(&format!("/proc/sys/vm/{name}"))?));
    SYSCTLS.iter().filter_map(value).collect()
}
