//! One screen about a machine that was watched: how busy it was, which layers its I/O passes, what is not
//! visible, what limits it as far as rules can tell, and the next command.

use crate::command::TIED;
use crate::inventory::page::{Page, Spacing, list_of};
use crate::inventory::{frequency, one_line, storage};
use crate::next::{self, Step};
use analysis::facts::usage::{CpuUsage, DiskUsage, Pressure, Transfers, Usage};
use analysis::server::{OF_THE_SERVER, WatchedServer};
use analysis::words::{counted, percent};
use domain::database::counters::{ACTIVE_TIME, QUERIES, STATEMENT_LATENCY, TRANSACTIONS, WRITE_TRANSACTIONS};
use domain::finding::{Finding, NotMeasured};
use domain::inventory::{BlockDevice, BlockKind, Inventory};
use domain::time::Nanos;
use domain::trial::ThreadTime;
use domain::units::Unit;

/// What was seen of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Diagnosis<'a> {
    /// The machine.
    pub inventory: &'a Inventory,
    /// How busy it was.
    pub usage: &'a Usage,
    /// For how long it was watched.
    pub duration: Nanos,
    /// What was watched, in words: `what was running`, a command, a process.
    pub watched: &'a str,
    /// The CPU time of that command or process; `None` where the whole machine was watched.
    pub own_cpu: Option<Nanos>,
    /// The server whose counters were read.
    pub server: Option<&'a WatchedServer<'a>>,
    /// The threads that used most CPU time, most first.
    pub threads: &'a [ThreadTime],
    /// What was found, most important first.
    pub findings: &'a [Finding],
    /// What could not be seen.
    pub not_measured: &'a [NotMeasured],
    /// The run that has all of it.
    pub run: &'a str,
    /// How this program is typed where it finds that run: `flyball`, `flyball --notebook DIR`.
    pub program: &'a str,
}

/// A terminal's lines.
const LINES: usize = 24;

/// Where lists are cut, so that the whole is one screen.
#[derive(Clone, Copy, Debug)]
struct Most {
    paths: usize,
    disks: usize,
    threads: usize,
    findings: usize,
}

/// The first with which all has room; what goes first is told least by.
const MOST: [Most; 5] = [
    Most { paths: 2, disks: 3, threads: 3, findings: 3 },
    Most { paths: 1, disks: 3, threads: 3, findings: 3 },
    Most { paths: 1, disks: 2, threads: 1, findings: 3 },
    Most { paths: 1, disks: 2, threads: 1, findings: 2 },
    Most { paths: 0, disks: 1, threads: 1, findings: 1 },
];
const MAX_STEPS: usize = 3;

/// Mounts of one device that are named.
const MAX_MOUNTS: usize = 2;

/// The figures of a server that the screen has room for: of each row the first that was measured.
const ON_THE_SCREEN: [&[&str]; 4] = [
    &[TRANSACTIONS, WRITE_TRANSACTIONS],
    &[QUERIES],
    &["log_syncs", "data_syncs"],
    &[STATEMENT_LATENCY, ACTIVE_TIME],
];

/// A thread with less is not worth a word.
const MIN_THREAD: f64 = 0.01;

/// A disk with less did nothing that counts.
const MIN_BUSY: f64 = 0.001;

/// A machine in one line, which is not broken between the size of its memory and the unit.
fn machine(inventory: &Inventory) -> String {
    let line = one_line(inventory);
    match line.rsplit_once(' ') {
        Some((before, unit)) => format!("{before}{TIED}{unit}"),
        None => line,
    }
}

/// The screen, at most so many columns wide, and where there are as many as a terminal usually has, of as
/// many lines.
pub fn diagnosis_text(diagnosis: &Diagnosis<'_>, width: usize) -> String {
    let [all, shorter @ ..] = MOST;
    let fits = |text: &String| text.lines().count() <= LINES;
    let whole = text_of(diagnosis, width, all);
    // On a narrow terminal nothing is left out that its own scrolling shows.
    if width < USUAL_WIDTH || fits(&whole) {
        return whole;
    }
    let mut shortest = whole;
    for most in shorter {
        shortest = text_of(diagnosis, width, most);
        if fits(&shortest) {
            break;
        }
    }
    shortest
}

const USUAL_WIDTH: usize = 80;

fn text_of(diagnosis: &Diagnosis<'_>, width: usize, most: Most) -> String {
    let mut page = Page::new(width, Spacing::None);
    page.section("Machine");
    page.line(machine(diagnosis.inventory));
    page.section("Watched");
    page.line(format!("{} of {}", diagnosis.duration, diagnosis.watched));
    if let Some(cpu) = diagnosis.own_cpu {
        let share = cpu.secs() / diagnosis.duration.secs().max(f64::MIN_POSITIVE);
        page.line(format!("it used {cpu} of CPU time, {} of one CPU", percent(share)));
    }
    if let Some(server) = diagnosis.server {
        watched_server(server, &mut page);
    }
    cpus(diagnosis, most.threads, &mut page);
    disks(diagnosis, most.disks, &mut page);
    page.section("I/O path");
    let paths = paths(diagnosis);
    paths.iter().take(most.paths).for_each(|path| page.line(path));
    if most.paths == 0 && !paths.is_empty() {
        page.line(format!("{}; `flyball inspect` shows them", counted(paths.len(), "path")));
    }
    not_seen(diagnosis, &mut page);
    page.section("Verdict");
    verdict(diagnosis, most.findings, &mut page);
    next::section(&steps(diagnosis), &mut page);
    page.finish()
}

/// What it is, and its figures on as many lines as they need.
fn watched_server(server: &WatchedServer<'_>, page: &mut Page) {
    page.section("Server");
    page.line(server.in_words());
    let shown = |name: &str| server.metrics.iter().find(|(is, _)| *is == name);
    let figures = ON_THE_SCREEN.iter().filter_map(|names| names.iter().find_map(|name| shown(name)));
    let figures: Vec<String> =
        figures.map(|(name, metric)| format!("{name} {}", metric.unit.show(metric.value))).collect();
    match figures.is_empty() {
        true => page.line("none of its figures was measured"),
        false => page.line(list_of(figures)),
    }
    if let Some(what) = server.began_anew {
        page.line(what);
    }
}

fn cpus(diagnosis: &Diagnosis<'_>, most: usize, page: &mut Page) {
    let Diagnosis { usage, inventory, .. } = diagnosis;
    page.section("CPU");
    page.line(usage.machine.map_or_else(|| "not sampled".to_owned(), |cpu| shares(&cpu, usage.pressure)));
    let busiest = usage.cpus.iter().max_by(|(_, a), (_, b)| a.busy().total_cmp(&b.busy()));
    if let Some((number, cpu)) = busiest.filter(|_| usage.cpus.len() > 1) {
        page.line(format!("the busiest, CPU {number}: {}", percent(cpu.busy())));
    }
    match &inventory.cpufreq {
        Some(cpufreq) => {
            let policies = frequency::policies(cpufreq);
            policies.first().into_iter().for_each(|line| page.line(line));
            if policies.len() > 1 {
                page.line(format!(
                    "and {} more; `flyball inspect` shows them",
                    counted(policies.len() - 1, "policy group")
                ));
            }
        }
        None => page.line("frequency policy: not visible here"),
    }
    let share = |thread: &ThreadTime| thread.cpu.secs() / diagnosis.duration.secs().max(f64::MIN_POSITIVE);
    let threads = diagnosis.threads.iter().filter(|thread| share(thread) >= MIN_THREAD).take(most);
    let threads: Vec<String> = threads
        .map(|thread| format!("{} {} ({})", thread.name, percent(share(thread)), thread.role))
        .collect();
    if !threads.is_empty() {
        page.line(format!("busiest threads, of one CPU: {}", list_of(threads)));
    }
}

/// What the CPUs did with their time.
fn shares(cpu: &CpuUsage, pressure: Pressure) -> String {
    let busy = format!(
        "busy {} (programs {}, kernel {}, interrupts {})",
        percent(cpu.busy()),
        percent(cpu.user),
        percent(cpu.system),
        percent(cpu.interrupts)
    );
    let parts = [
        Some(busy),
        (cpu.iowait > 0.0).then(|| format!("idle for I/O {}", percent(cpu.iowait))),
        (cpu.steal > 0.0).then(|| format!("stolen {}", percent(cpu.steal))),
        pressure.io.map(|share| format!("tasks waited for I/O {}", percent(share))),
    ];
    list_of(parts.into_iter().flatten())
}

fn disks(diagnosis: &Diagnosis<'_>, most: usize, page: &mut Page) {
    page.section("Disks");
    let active = || diagnosis.usage.disks.iter().filter(|disk| disk.busy >= MIN_BUSY);
    if active().next().is_none() {
        return page.line("no block device had a request");
    }
    page.line(row("", "busy", "reads", "writes"));
    // A server takes the place of one.
    let shown = most.saturating_sub(usize::from(diagnosis.server.is_some())).max(1);
    for disk in active().take(shown) {
        page.line(row(&disk.device, &percent(disk.busy), &transfers(&disk.read), &transfers(&disk.write)));
    }
    if active().count() > shown {
        page.line(format!("and {} more that did less", active().count() - shown));
    }
}

fn row(device: &str, busy: &str, reads: &str, writes: &str) -> String {
    format!("{device:7} {busy:>5} {reads:26} {writes}")
}

/// `120 /s 492 kB/s 27.0 ms`: requests and bytes a second, and what one takes.
fn transfers(transfers: &Transfers) -> String {
    let Some(latency) = transfers.latency else { return "-".to_owned() };
    let (rate, bytes) = (Unit::PerSecond.show(transfers.rate), Unit::BytesPerSecond.show(transfers.bytes));
    // The kernel counts whole milliseconds of each request.
    let latency = if latency > 0.0 { Unit::Seconds.show(latency) } else { "<1 ms".to_owned() };
    format!("{rate} {bytes} {latency}")
}

/// What requests pass from a filesystem down to the disks, of what did most.
fn paths(diagnosis: &Diagnosis<'_>) -> Vec<String> {
    let inventory = diagnosis.inventory;
    let active = |name: &str| diagnosis.usage.disks.iter().any(|d| d.device == name && d.busy >= MIN_BUSY);
    let is_top = |disk: &&DiskUsage| {
        disk.busy >= MIN_BUSY && !inventory.built_on(&disk.device).any(|above| active(&above.name))
    };
    let tops = diagnosis.usage.disks.iter().filter(is_top);
    tops.filter_map(|disk| Some(path(inventory, inventory.device(&disk.device)?))).collect()
}

/// `ext4 on /srv, journal data=ordered > crypt aes-xts-plain64 (dm-0) > raid10 (md0) > sda, sdb`.
fn path(inventory: &Inventory, top: &BlockDevice) -> String {
    let on_partitions = || inventory.built_on(&top.name).flat_map(|above| inventory.mounts_of(&above.name));
    let mounts: Vec<String> = inventory
        .mounts_of(&top.name)
        .chain(on_partitions())
        .take(MAX_MOUNTS)
        .map(|mount| storage::filesystem(mount, crate::inventory::Style::Brief))
        .collect();
    let mut layers: Vec<String> = mounts.first().map(|_| mounts.join(" and ")).into_iter().collect();
    let mut level = vec![top];
    // A machine that says it is built on itself ends too.
    for _ in 0..MAX_LAYERS {
        layers.push(level.iter().map(|device| layer(device)).collect::<Vec<_>>().join(", "));
        let mut below: Vec<&BlockDevice> = Vec::new();
        for name in level.iter().flat_map(|device| &device.built_of) {
            let known = below.iter().any(|device| device.name == *name);
            below.extend(inventory.device(name).filter(|_| !known));
        }
        if below.is_empty() {
            break;
        }
        level = below;
    }
    layers.join(" > ")
}

const MAX_LAYERS: usize = 16;

fn layer(device: &BlockDevice) -> String {
    match &device.kind {
        BlockKind::Disk | BlockKind::Partition => device.name.clone(),
        _ => format!("{} ({})", storage::kind(device).unwrap_or_default(), device.name),
    }
}

fn not_seen(diagnosis: &Diagnosis<'_>, page: &mut Page) {
    let (of_server, others): (Vec<_>, Vec<_>) =
        diagnosis.not_measured.iter().partition(|open| open.what.ends_with(OF_THE_SERVER));
    let mut what: Vec<String> = others.into_iter().map(|open| open.what.clone()).collect();
    // Its run names them, and says why.
    what.extend((!of_server.is_empty()).then(|| "some figures of the server".to_owned()));
    if !what.is_empty() {
        page.section("Not visible");
        page.line(list_of(what));
    }
}

fn verdict(diagnosis: &Diagnosis<'_>, most: usize, page: &mut Page) {
    for finding in diagnosis.findings.iter().take(most) {
        page.line(format!("{} ({})", finding.title, finding.confidence.name()));
    }
    if diagnosis.findings.is_empty() {
        page.line("no limit was found: CPUs and disks had idle time, and tasks waited little");
    }
}

/// What to type: the first remedy's command, or a measurement of what the policies cost here; what other
/// policies would have given, where there are any; the evidence, and the whole as a page.
fn steps(diagnosis: &Diagnosis<'_>) -> Vec<Step> {
    let Diagnosis { program, run, findings, .. } = diagnosis;
    let mut remedies = findings.iter().filter(|finding| finding.remedy.is_some()).peekable();
    let first = match remedies.peek() {
        None => Some(Step::new("what this disk gives", format!("{program} check"))),
        // What is to be done by hand shows nothing that is not on this screen: the reasons lead on.
        Some(_) => remedies
            .find(|finding| next::leads_on(finding, run))
            .map(|finding| Step::new(next::TRY, next::typed(&finding.next, program))),
    };
    let evidence = (!findings.is_empty()).then(|| Step::new(next::WHY, format!("{program} explain {run}")));
    let has_policies = diagnosis.inventory.cpufreq.is_some();
    let replay = has_policies.then(|| Step::new("other governors", format!("{program} replay {run}")));
    let page = Step::new(next::PAGE, format!("{program} report {run}"));
    [first, replay, evidence, Some(page)].into_iter().flatten().take(MAX_STEPS).collect()
}
