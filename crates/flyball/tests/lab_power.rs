//! Power cuts: a lab machine whose disk is kept loses its power in the middle of a run, again and again. The
//! machine boots clean, nothing that was acknowledged is lost, and nothing that Flyball changed is left.
//!
//! What counts as acknowledged: Flyball begins the next trial only when the one before is durable, with its
//! name. So a trial that could be seen *before* another one was seen in the staging folder is acknowledged; a
//! trial that is merely visible is not. The guest looks, and prints; what has reached the host was said
//! before the power failed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips and what it found"
)]

use crate::support;
use crate::support::{Place, lab};
use domain::rng::{Rng, Seed};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use testing::Extent;

/// When the power fails of a machine that is asked for it: so long after it began to look at what the cut
/// before has left.
const EARLIEST: Duration = Duration::from_millis(1500);
const LATEST: Duration = Duration::from_millis(9000);

/// When the power fails of the others: so many trials after that, and so long after the last of them was
/// acknowledged. What is most at risk is what was written last.
const MAX_TRIALS: usize = 4;
const LONGEST_DELAY: Duration = Duration::from_millis(40);

/// Each kernel with a disk: what is written at once on the one takes a while on the other.
const MACHINES: [(&str, &str); 2] =
    [(lab::KERNELS[0], "plain-7200:256MiB"), (lab::KERNELS[1], "samsung-850-evo:256MiB")];

/// Enough trials that no run comes to its end: the end would be no cut.
const STUDY: &str = r#"
flyball = 1
name = "power"
question = "Does read-ahead decide how fast a small loop device is written?"

[target]
loop = "8MiB"

[workload.write]
tool = "command"
argv = ["dd", "if=/dev/zero", "of={target}", "bs=64k", "count=8", "conv=fsync", "status=none"]

[factor.readahead]
setting = "read_ahead_kb"
levels = [16, 128, 512]

[settings]
"vm.dirty_expire_centisecs" = 2900
"vm.swappiness" = 11

[measure]
metric = "elapsed"
repeats = [80, 80]
settle = "0s"
interval = "50ms"
under_load = true
"#;

/// Makes the filesystem that is Flyball's home; the study is the first argument.
const MAKE: &str = r#"
set -e
mkfs.ext4 -q /dev/sda
mkdir /h
mount /dev/sda /h
printf %s "$1" > /h/power.toml
umount /h
"#;

/// What a machine does when it has its power back: it mounts its filesystem, puts back what was changed as
/// its boot service would, and tells what there is. Its first argument are the trials whose traces need not
/// be read again.
const LOOK: &str = r#"
exec 2>&1
shopt -s nullglob
export FLYBALL_STATE=/h/state FLYBALL_NOTEBOOK=/h/notebook
mkdir -p /h
try() { "$@" > /tmp/out 2>&1 || echo "wrong: $* ended with $?: $(< /tmp/out)"; }
# Ends well only where it has nothing to complain about.
quiet() { "$@" > /tmp/out 2> /tmp/complaints && [[ ! -s /tmp/complaints ]] || echo "wrong: $*: $(< /tmp/complaints)"; }
try mount /dev/sda /h
try umount /h
try e2fsck -fn /dev/sda
try mount /dev/sda /h
try flyball restore
flyball status --json 2>&1 | tr -d '\n' | sed 's/^/status /'
echo
for left in /sys/block/loop*/loop /h/notebook/work/*; do echo "left $left"; done
runs=(/h/notebook/runs/*)
if (( ${#runs[@]} )); then
    quiet flyball list
    for left in /h/notebook/staging/*; do echo "left $left"; done
    quiet flyball export power --format csv
    while IFS= read -r row; do echo "row $row"; done < /tmp/out
    for trial in /h/notebook/runs/*/trials/*; do
        key=${trial##*/}
        [[ " $1 " == *" $key "* ]] && continue
        [[ -s $trial/reproduce.sh ]] || echo "wrong: $key has no reproduce.sh"
        quiet flyball export power --trace "$key" --format csv
        echo "read $key"
    done
fi
echo "runs ${#runs[@]}"
echo looked
"#;

/// What it does then, until its power fails.
const WORK: &str = r#"
flyball run /h/power.toml > /tmp/said 2>&1 &
run=$!
mkfifo /tmp/never
exec 9<> /tmp/never
declare -A told
while kill -0 $run 2> /dev/null; do
    # In this order: what is being written now is another trial than those that were there before.
    seen=(/h/notebook/runs/*/trials/*)
    next=(/h/notebook/staging/trial-*.part)
    if (( ${#next[@]} )); then
        for trial in "${seen[@]}"; do
            [[ ${told[$trial]-} ]] || echo "kept ${trial##*/}"
            told[$trial]=1
        done
    fi
    read -rt 0.01 -u 9
done
echo "wrong: the run ended: $(< /tmp/said)"
"#;

/// How the power fails.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// As `--cut-power-after` does it.
    Asked(Duration),
    /// QEMU is killed, right after something was acknowledged.
    Qemu(Moment),
    /// Flyball is killed, and takes QEMU with it: nothing that was not flushed is on the disk.
    Flyball(Moment),
}

/// Right after something was acknowledged.
#[derive(Clone, Copy, Debug)]
struct Moment {
    trials: usize,
    delay: Duration,
}

impl Cut {
    fn draw(number: u64, rng: &mut Rng) -> Self {
        let moment = |rng: &mut Rng| Moment {
            trials: 1 + rng.below(MAX_TRIALS),
            delay: LONGEST_DELAY.mul_f64(rng.unit()),
        };
        match number % 4 {
            0 => Self::Asked(EARLIEST + (LATEST - EARLIEST).mul_f64(rng.unit())),
            3 => Self::Flyball(moment(rng)),
            _ => Self::Qemu(moment(rng)),
        }
    }
}

/// What a guest told until its power failed.
#[derive(Default)]
struct Told {
    lines: Vec<String>,
}

impl Told {
    fn with<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter_map(move |line| line.strip_prefix(word)?.strip_prefix(' '))
    }

    fn has_looked(&self) -> bool {
        self.lines.iter().any(|line| line == "looked")
    }
}

/// What was found on one machine's disk over its cuts.
#[derive(Debug, Default)]
struct Account {
    acknowledged: BTreeSet<String>,
    found: BTreeSet<String>,
    /// Those whose trace was read.
    whole: BTreeSet<String>,
    doubled: BTreeSet<String>,
    /// What is damaged, lost or not as it should be; told once, however often it is seen.
    wrong: BTreeSet<String>,
    changed: Vec<String>,
    cuts: u32,
    /// Cuts that came before the machine had looked at what the one before had left.
    early: u32,
}

impl Account {
    /// Takes in what a machine told after a cut, and before the next.
    fn take(&mut self, told: &Told) {
        const WORDS: [&str; 8] = ["begun", "status", "left", "row", "read", "runs", "looked", "kept"];
        let is_known = |line: &&String| WORDS.contains(&line.split(' ').next().unwrap_or_default());
        self.wrong.extend(told.lines.iter().filter(|line| !is_known(line)).cloned());
        self.changed.extend(told.with("left").map(str::to_owned));
        if told.has_looked() {
            self.look(told);
        } else {
            self.early += 1;
        }
        self.whole.extend(told.with("read").map(str::to_owned));
        self.acknowledged.extend(told.with("kept").map(str::to_owned));
    }

    /// The trials that need not be read again, as an argument.
    fn read_already(&self) -> String {
        self.whole.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    fn knows(&self, trial: &str) -> bool {
        self.acknowledged.contains(trial) || self.found.contains(trial)
    }

    fn look(&mut self, told: &Told) {
        for status in told.with("status") {
            let status: serde_json::Value = serde_json::from_str(status).unwrap_or_default();
            match status["changed"].as_array() {
                Some(changed) => self.changed.extend(changed.iter().map(ToString::to_string)),
                None => self.wrong.extend([format!("the status is {status}")]),
            }
        }
        if told.with("runs").any(|count| count != "0" && count != "1") {
            self.wrong.insert("the run was begun again instead of gone on with".to_owned());
        }
        let rows: Vec<Vec<&str>> = told.with("row").map(|row| row.split(',').collect()).collect();
        let Some((names, rows)) = rows.split_first() else {
            return self.wrong.extend((!self.found.is_empty()).then(|| "all trials are gone".to_owned()));
        };
        let column = |name: &str| names.iter().position(|n| *n == name).unwrap();
        let (key, block, cell, validity) =
            (column("key"), column("block"), column("cell"), column("validity"));
        let now: BTreeSet<String> = rows.iter().map(|row| row[key].to_owned()).collect();
        let mut valid: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for row in rows.iter().filter(|row| row[validity] == "valid") {
            *valid.entry((row[block], row[cell])).or_default() += 1;
        }
        let twice = valid.iter().filter(|(_, count)| **count > 1);
        self.doubled.extend(twice.map(|((block, cell), _)| format!("block {block}, {cell}")));
        if now.len() != rows.len() {
            self.wrong.insert("a trial is listed twice".to_owned());
        }
        // What was found once was on the disk, and stays there.
        let gone = self.acknowledged.union(&self.found).filter(|trial| !now.contains(*trial));
        self.wrong.extend(gone.map(|trial| format!("lost: {trial}")));
        self.found.extend(now);
    }
}

/// A machine with a disk that is kept.
struct Machine<'a> {
    place: &'a Place,
    kernel: &'a str,
    disk: &'a str,
    folder: String,
}

impl Machine<'_> {
    fn exec(&self, options: &[&str], script: &str, argument: &str) -> Command {
        let fixed = ["lab", "exec", "--kernel", self.kernel, "--disk", self.disk, "--keep-disks"];
        let command = ["--", "bash", "-c", script, "bash", argument];
        self.place.flyball(&[&fixed, &[self.folder.as_str()][..], options, &command].concat())
    }

    /// Runs a script to its end.
    fn run(&self, script: &str, argument: &str) -> Told {
        let output = self.exec(&["--seed", "1"], script, argument).output().unwrap();
        assert!(output.status.success(), "{}", support::stderr(&output));
        Told { lines: String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect() }
    }

    /// Looks and works until its power fails. Trials that are known already are no news.
    fn run_until(&self, cut: Cut, seed: u64, account: &Account) -> Told {
        let seed = seed.to_string();
        let script = format!("echo begun\n{LOOK}{WORK}");
        let span = match cut {
            Cut::Asked(span) => format!("{}ms", span.as_millis()),
            // A machine that comes to nothing ends too, and fails the test.
            Cut::Qemu(_) | Cut::Flyball(_) => "60s".to_owned(),
        };
        let options = ["--seed", &seed, "--cut-power-after", &span];
        let mut command = self.exec(&options, &script, &account.read_already());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut told = Told::default();
        let mut fresh = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            fresh += usize::from(line.strip_prefix("kept ").is_some_and(|trial| !account.knows(trial)));
            let (victim, moment) = match cut {
                Cut::Asked(_) => (None, None),
                Cut::Qemu(moment) => (lab::machines_of(child.id()).first().copied(), Some(moment)),
                Cut::Flyball(moment) => (Some(child.id()), Some(moment)),
            };
            told.lines.push(line);
            if let (Some(victim), Some(moment)) = (victim, moment)
                && fresh == moment.trials
            {
                fresh += MAX_TRIALS;
                std::thread::sleep(moment.delay);
                kill_process(Pid::from_raw(victim.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
            }
        }
        let expected = match cut {
            Cut::Asked(_) => Some(137),
            Cut::Qemu(_) => Some(1),
            Cut::Flyball(_) => None,
        };
        assert_eq!(child.wait().unwrap().code(), expected, "{cut:?}: {:#?}", told.lines);
        told
    }
}

/// Cuts the power of one machine again and again.
fn cut_again_and_again(place: &Place, kernel: &str, disk: &str, extent: Extent) -> Account {
    let folder = place.path(&format!("disks-{kernel}")).to_str().unwrap().to_owned();
    let machine = Machine { place, kernel, disk, folder };
    machine.run(MAKE, STUDY);
    // Decides when the power fails, and what is then left on the disk.
    let mut rng = Seed(extent.seed).stream(kernel);
    let mut account = Account::default();
    for number in 0..extent.count {
        let cut = Cut::draw(number, &mut rng);
        let told = machine.run_until(cut, rng.bits(), &account);
        let before = account.acknowledged.len();
        account.take(&told);
        account.cuts += 1;
        eprintln!(
            "{kernel}, {cut:?}: {} trials were there, {} were acknowledged until then, {} complaints",
            told.with("row").count().saturating_sub(1),
            account.acknowledged.len() - before,
            account.wrong.len(),
        );
    }
    account.take(&machine.run(LOOK, &account.read_already()));
    account
}

fn missing(place: &Place) -> Option<String> {
    let kernels = lab::KERNELS.iter().find_map(|kernel| lab::missing(place, kernel));
    kernels.or_else(|| lab::without(&["mkfs.ext4", "e2fsck"]))
}

#[test]
fn power_cuts_lose_nothing_that_was_acknowledged_and_leave_nothing_changed() {
    if !testing::is_long_in_turn(0) {
        return;
    }
    let place = Place::new();
    if let Some(why) = missing(&place) {
        return eprintln!("skipped: {why}");
    }
    // For each of the two.
    let extent = Extent::of(3, 50);
    let place = &place;
    let accounts: Vec<Account> = std::thread::scope(|scope| {
        let lanes = MACHINES
            .map(|(kernel, disk)| scope.spawn(move || cut_again_and_again(place, kernel, disk, extent)));
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    let sum = |count: fn(&Account) -> usize| accounts.iter().map(count).sum::<usize>();
    let found = accounts.iter().map(|a| a.acknowledged.intersection(&a.found).count()).sum::<usize>();
    eprintln!(
        "{} power cuts: {} trials acknowledged, {found} found, {} doubled, {} damaged, {} left changed ({} cuts came \
         before the machine had looked, {} trials were found that had not been acknowledged)",
        sum(|a| a.cuts as usize),
        sum(|a| a.acknowledged.len()),
        sum(|a| a.doubled.len()),
        sum(|a| a.wrong.len()),
        sum(|a| a.changed.len()),
        sum(|a| a.early as usize),
        sum(|a| a.found.difference(&a.acknowledged).count()),
    );
    for account in &accounts {
        assert!(account.wrong.is_empty() && account.doubled.is_empty(), "{:#?}", account);
        assert!(account.changed.is_empty(), "{:#?}", account.changed);
        assert!(account.acknowledged.is_subset(&account.found));
        assert!(!account.acknowledged.is_empty(), "nothing was measured between the cuts");
    }
    let figure = format!("{} trials acknowledged, {found} found", sum(|a| a.acknowledged.len()));
    testing::promise("power-cuts", sum(|a| a.cuts as usize), figure);
}

/// A run whose work files are on another filesystem than its ledger, killed by a power cut while its file is
/// there.
const TWO_DISKS: &str = r#"
exec 2>&1
export FLYBALL_STATE=/h/state FLYBALL_NOTEBOOK=/h/notebook
mkdir /h /w
mount_both() { mount /dev/sda /h && mount /dev/sdb /w; }
case $1 in
    make)
        mkfs.ext4 -q /dev/sda && mkfs.ext4 -q /dev/sdb && mount_both
        printf '%s\n' 'flyball = 1' 'name = "two"' 'question = "Q?"' '[target]' 'file = "8MiB"' '[workload.wait]' \
            'tool = "command"' 'argv = ["sleep", "60"]' '[measure]' 'metric = "elapsed"' 'settle = "0s"' > /h/two.toml
        mkdir /w/work
        flyball run /h/two.toml --work /w/work &
        while kill -0 $! && [[ ! -e /w/work/target ]]; do sleep 0.1; done
        sync
        ;;
    restore)
        mount_both
        flyball restore
        ;;
    look)
        mount_both
        flyball restore
        ls /w/work
        exit
        ;;
esac
echo done
sleep 600
"#;

#[test]
fn a_work_file_that_was_removed_does_not_come_back_with_a_power_cut() {
    if !testing::is_long_in_turn(1) {
        return;
    }
    let place = Place::new();
    if let Some(why) = missing(&place) {
        return eprintln!("skipped: {why}");
    }
    let run = |what: &str| {
        let disk = ["--disk", "samsung-850-evo:128MiB"];
        let fixed =
            ["lab", "exec", "--kernel", lab::KERNELS[0], "--keep-disks", "disks", "--cut-power-after", "60s"];
        let mut command = place
            .flyball(&[&fixed[..], &disk, &disk, &["--", "bash", "-c", TWO_DISKS, "bash", what]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let lines: Vec<String> = lines.take_while(|line| line != "done").collect();
        // What was not flushed by now is lost.
        child.kill().unwrap();
        child.wait().unwrap();
        lines.join("\n")
    };
    run("make");
    let text = run("restore");
    assert!(text.contains("/w/work/target: removed"), "{text}");
    assert_eq!(run("look"), "nothing is changed", "the file came back, and nothing knows of it any more");
}

/// Two claimed disks and one for Flyball's own folders, found by their serial numbers: each start may name
/// them differently.
const CLAIMED_DISKS: &str = r#"
exec 2>&1
disk() { for d in /sys/block/sd*; do if [ "$(tail -c +5 $d/device/vpd_pg80)" = $1 ]; then echo /dev/${d##*/}; fi; done; }
home=$(disk disk0) one=$(disk disk1) two=$(disk disk2)
export FLYBALL_STATE=/home/state FLYBALL_NOTEBOOK=/home/notebook
mkdir -p /home
held() { for d in $one $two; do echo "$(wipefs --no-act --noheadings --output TYPE,UUID $d)"; done; }
case $1 in
make)
    mkfs.ext4 -q $home
    mount $home /home
    flyball claim $one > /dev/null && flyball claim $two > /dev/null
    cat > /home/study.toml << END
flyball = 1
name = "claimed"
question = "What is left of an array on claimed disks when the power goes?"
[target]
file = "2MiB"
[stack.disks]
kind = "devices"
count = 2
claimed = ["$one", "$two"]
[stack.array]
kind = "md"
level = 1
resync = "skip"
on = "disks"
[stack.files]
kind = "filesystem"
on = "array"
[workload.wait]
tool = "command"
argv = ["sh", "-c", "echo > /run/began; sleep 600"]
[measure]
metric = "elapsed"
repeats = 1
drop_caches = false
settle = "100ms"
END
    flyball run /home/study.toml &
    for ((i = 0; i < 300; i++)); do [ -e /run/began ] || ! kill -0 $! || sleep 0.1; done
    if [ -e /run/began ]; then
        echo began
    else
        # What each disk has in flight, whether it answers, and what each thread waits for.
        mount -t debugfs none /sys/kernel/debug
        for d in $home $one $two; do
            b=${d##*/}
            echo "$b: $(< /sys/block/$b/inflight); $(cat /sys/kernel/debug/block/$b/hctx*/{busy,dispatch,state,flags})"
            timeout 5 dd if=$d of=/dev/null bs=4k count=1 iflag=direct && cat /sys/block/$b/inflight
        done
        for t in /proc/[0-9]*/task/*; do
            [ -z "$(tr '\0' ' ' < $t/cmdline)" ] || echo "$t $(< $t/comm): $(head -n 4 $t/stack | tr '\n' ' ')"
        done
    fi
    sync
    echo done
    wait
    ;;
look)
    mount $home /home
    held
    modprobe raid1
    # As a system would that assembles what it finds.
    mdadm --assemble --quiet --run /dev/md/found $one $two && grep -o 'md[0-9]* : active' /proc/mdstat
    flyball restore | sort
    held
    grep -c active /proc/mdstat
    flyball status
    echo done
    ;;
esac
"#;

#[test]
fn claimed_disks_are_erased_after_a_power_cut_whatever_they_are_called_then() {
    if !testing::is_long_in_turn(1) {
        return;
    }
    let place = Place::new();
    if let Some(why) = missing(&place) {
        return eprintln!("skipped: {why}");
    }
    let run = |what: &str| {
        let (large, small) = (["--disk", "samsung-850-evo:192MiB"], ["--disk", "samsung-850-evo:64MiB"]);
        let fixed =
            ["lab", "exec", "--kernel", lab::KERNELS[1], "--keep-disks", "disks", "--cut-power-after", "90s"];
        let script = ["--", "bash", "-c", CLAIMED_DISKS, "bash", what];
        let mut command = place.flyball(&[&fixed[..], &large, &small, &small, &script].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let lines: Vec<String> = lines.take_while(|line| line != "done").collect();
        child.kill().unwrap();
        child.wait().unwrap();
        lines
    };
    let made = run("make");
    if made.last().is_none_or(|line| line != "began") {
        // Seen three times in some 38 runs, before disk_server/vhost/device.rs gave up `VIRTIO_F_EVENT_IDX`.
        return testing::skip_in_part(format!("the run in the guest had not begun after 30 s: {made:#?}"));
    }
    let lines = run("look");
    let members = lines.iter().filter(|line| line.starts_with("linux_raid_member f17ba110-")).count();
    assert_eq!(members, 2, "before the cut: {made:#?}; what it left: {lines:#?}");
    assert!(lines.iter().any(|line| line.ends_with(": active")), "it was to be assembled: {lines:#?}");
    let removed =
        lines.iter().filter(|line| line.starts_with("what Flyball wrote to") && line.ends_with(": removed"));
    assert_eq!(removed.count(), 2, "{lines:#?}");
    assert!(lines.iter().any(|line| line == "/dev/md200: removed"), "{lines:#?}");
    assert_eq!(lines[lines.len() - 4..], ["", "", "0", "nothing is changed"], "{lines:#?}");
}

#[test]
fn kept_disks_are_found_again_and_a_cut_loses_what_was_not_flushed() {
    if !testing::is_long_in_turn(1) {
        return;
    }
    let place = Place::new();
    if let Some(why) = missing(&place) {
        return eprintln!("skipped: {why}");
    }
    let folder = place.path("disks");
    let folder = folder.to_str().unwrap();
    let exec = |options: &[&str], script: &str| {
        let fixed = ["lab", "exec", "--kernel", lab::KERNELS[0], "--disk", "samsung-850-evo:64MiB"];
        let kept = ["--keep-disks", folder, "--seed", "5"];
        place.output(&[&fixed[..], &kept, options, &["--", "bash", "-c", script]].concat())
    };
    // Written, and nothing said of a flush: the orderly end flushes it.
    let output = exec(&[], "yes flushed | dd of=/dev/sda bs=1M count=1 iflag=fullblock status=none");
    assert_eq!(output.status.code(), Some(0), "{}", support::stderr(&output));
    let unflushed =
        "yes dropped | dd of=/dev/sda bs=1M count=1 iflag=fullblock oflag=direct status=none; sleep 60";
    let output = exec(&["--cut-power-after", "2s"], unflushed);
    assert_eq!(output.status.code(), Some(137), "{}", support::stderr(&output));
    assert!(support::stderr(&output).contains("the power was cut"), "{}", support::stderr(&output));
    let output = exec(&[], "head -c 1048576 /dev/sda | sort | uniq -c");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains(" flushed\n") && text.contains(" dropped\n"),
        "this seed leaves some of both:\n{text}"
    );
    // A command that ends before its time is up ends as without a cut.
    assert_eq!(exec(&["--cut-power-after", "60s"], "exit 7").status.code(), Some(7));
}

#[test]
fn disks_that_cannot_be_kept_are_told_before_anything_is_started() {
    let place = Place::new();
    if let Some(why) = missing(&place) {
        return eprintln!("skipped: {why}");
    }
    std::fs::create_dir(place.path("mine")).unwrap();
    std::fs::write(place.path("mine/disk0.img"), "somebody's").unwrap();
    let disk = ["--disk", "nvme:64MiB"];
    let exec = |code, options: &[&str]| {
        place.fails(
            code,
            &[&["lab", "exec", "--kernel", lab::KERNELS[0]][..], options, &["--", "true"]].concat(),
        )
    };
    let error = exec(2, &["--keep-disks", "disks"]);
    assert!(error.contains("cannot keep the disks of a machine that has none"), "{error}");
    let error = exec(2, &[&disk[..], &["--cut-power-after", "1s"]].concat());
    assert!(error.contains("--keep-disks"), "{error}");
    let error = exec(1, &[&disk[..], &["--keep-disks", "mine"]].concat());
    assert!(error.contains("it holds `disk0.img`, and no disks of a lab machine"), "{error}");
    let lock = ::lab::KeptDisks::open(&place.path("disks")).unwrap();
    std::fs::File::create(lock.file("disk0")).unwrap().set_len(1 << 20).unwrap();
    let error = exec(4, &[&disk[..], &["--keep-disks", "disks"]].concat());
    assert!(error.contains("another lab machine has them"), "{error}");
    drop(lock);
    let error = exec(1, &[&disk[..], &["--keep-disks", "disks"]].concat());
    assert!(error.contains("is a disk of 1048576 bytes, and one of 67108864 bytes is wanted"), "{error}");
}
