//! From a slow load to a proved gain, in lab machines with one thing wrong, and by the commands that the
//! screens name: `diagnose` a load that runs, `replay` what it recorded, `tune` by its finding. The kernel is
//! real, and so are its governors and layers of storage; a CPU with P-states is paced while something is
//! measured.
//!
//! Each takes four to five minutes of a quiet host.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it saw"
)]

use crate::support::{Place, lab, stderr};

/// What each script begins with, and a disk of memory: its name, its MiB, and nanoseconds of a request.
const BEGIN: &str = r#"
set -e
exec 3>&1 >&2
cd /run
export FLYBALL_NOTEBOOK=/run/notebook COLUMNS=200 NO_COLOR=1
modprobe configfs
modprobe null_blk nr_devices=0
mount -t configfs none /sys/kernel/config || true # It may be there.
memory() {
    null=/sys/kernel/config/nullb/$1
    mkdir $null
    echo $2 > $null/size
    echo 2 > $null/irqmode
    echo $3 > $null/completion_nsec
    echo 1 > $null/power
    for wait in $(seq 100); do [ -b /dev/$1 ] && break; sleep 0.1; done
}
"#;

/// The load of studies/dmcrypt-ondemand.toml: one small encrypted read after the other, of memory that
/// answers after 10 ms, on a CPU that is busy for three quarters of each window of ondemand's 100 ms. At half
/// of this pace the kernel's own ticks and threads keep it busier, and ondemand goes up.
const ENCRYPTED_READS: &str = r#"
memory disk 1024 10000000
modprobe dm_crypt
printf 32-bytes-of-a-key-of-no-secrecy. | cryptsetup open --type plain --cipher aes-cbc-essiv:sha256 --key-size 256 \
    --key-file - /dev/disk vault
fio --name=load --rw=read --bs=4k --ioengine=psync --direct=1 --time_based --runtime=100000 --size=512m \
    --filename=/dev/mapper/vault > fio.out & load="--pid $! --for 20s"
sleep 3
"#;

/// The way that the screens name: what each says, and the settings afterwards. `$load` is what is watched, as
/// `flyball diagnose` takes it.
const WAY: &str = r#"
set +e
# A part of what is said here, and the command that a screen names.
part() { echo "@@ $1" >&3; }
named() { grep -o "^ *flyball $1 .*" $2 | head -1; }
settings > before
part diagnose
eval "flyball diagnose $load" > screen; part "code $?"; cat screen >&3
command=$(named tune screen)
part replay
replay=$(named replay screen)
if [ -n "$replay" ]; then $replay > predicted; part "code $?"; cat predicted >&3; fi
part "tune $command"
eval "$command" < /dev/null > tuned; part "code $?"; cat tuned >&3
part status
flyball status >&3
settings > after
cmp before after >&3 && echo "settings are as before" >&3
"#;

/// A machine with one thing wrong.
struct Planted {
    /// Of `lab exec`.
    options: &'static [&'static str],
    /// What makes it: storage and its load, `$load`; `settings` prints what may be changed.
    script: String,
    /// How the first finding begins, and what it contains.
    verdict: [&'static str; 2],
    /// The setting that is measured.
    setting: &'static str,
    /// How the row of a prediction ends that no other beats; `None` for what no replay knows.
    predicted: Option<&'static str>,
}

/// A host is too crowded for a machine that nobody paces where less of the time is to be had that is wanted.
const LEAST_GOT: f64 = 0.8;

/// By how many percent of its time the CPU may be late: the gain that is looked for is larger.
const MOST_LATE: f64 = 10.0;

/// From this share of another prediction on one is as good, where both are rounded. The program has 0.98
/// (`AS_GOOD` of `crates/report/src/replayed.rs`).
const AS_GOOD: f64 = 0.97;

/// The part of a text that begins with this mark.
fn part<'a>(text: &'a str, mark: &str) -> &'a str {
    let from = text.find(mark).unwrap_or_else(|| panic!("no `{mark}`: {text}"));
    let rest = &text[from + mark.len()..];
    // The next mark but one: the first says how it ended.
    rest.match_indices("@@ ").nth(1).map_or(rest, |(end, _)| &rest[..end])
}

/// The numbers of a line, without their units.
fn numbers(line: &str) -> Vec<f64> {
    let words = line.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    words.filter_map(|word| word.trim_matches('.').parse().ok()).collect()
}

/// Goes the way; `None` where this host is too busy for it.
fn judge(planted: &Planted) -> Option<()> {
    let place = Place::new();
    let paced = planted.options.contains(&"--pstates");
    let without = lab::without(&["cryptsetup", "mdadm", "fio"]);
    let without = without.or_else(|| if paced { lab::without_plugin() } else { None });
    if let Some(why) = without.or_else(|| lab::missing(&place, "6.12")) {
        testing::skip(why);
        return None;
    }
    let script = [BEGIN, &planted.script, WAY].concat();
    let machine = ["lab", "exec", "--kernel", "6.12", "--memory", "1GiB"];
    let crowd = testing::Crowd::watch();
    let output = place.output(&[&machine[..], planted.options, &["--", "bash", "-c", &script]].concat());
    let got = crowd.share();
    let told = stderr(&output);
    if told.contains("is too fast for this host") || told.contains("this host is too busy") {
        testing::skip(format!("this host is too busy to pace a machine: {told}"));
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    eprintln!("{text}");
    assert!(output.status.success(), "{told}");
    let late =
        told.lines().find(|line| line.contains("behind its pace")).and_then(|line| line.split_once('('));
    if late.is_some_and(|(_, share)| numbers(share)[0] > MOST_LATE) {
        testing::skip(format!("not measured, for this host is busy with other things: {late:?}"));
        return None;
    }
    // What is wrong is the first finding, with its figures.
    let diagnosed = part(&text, "@@ diagnose");
    assert!(diagnosed.contains("code 0"), "{told}");
    let verdict = diagnosed.lines().find_map(|line| line.strip_prefix("Verdict")).unwrap().trim();
    let [begins, contains] = planted.verdict;
    let is_found = verdict.starts_with(begins) && verdict.contains(contains);
    if !is_found && got < LEAST_GOT {
        // What a tool takes to begin, on a CPU that others have, is no time of its device.
        testing::skip(format!(
            "not measured, for a task got {:.0}% of the CPU time that it wanted: {verdict}",
            got * 100.0
        ));
        return None;
    }
    assert!(is_found, "{verdict}");
    // What the remedy gives: in interleaved trials, fewer than were planned for; and all is as before.
    let tuned = part(&text, "@@ tune");
    let verdict =
        tuned.lines().find_map(|line| line.strip_prefix("Verdict")).unwrap_or_else(|| panic!("{told}"));
    let verdict = verdict.trim();
    assert!(verdict.starts_with("change decides: after gives "), "{verdict}");
    let gain = numbers(verdict)[0];
    let setting = planted.setting;
    let keeps = format!("to keep the change: `flyball tune --set {setting} --persist`");
    assert!(told.contains(&keeps), "{told}");
    let after = part(&text, "@@ status");
    assert!(after.contains("nothing is changed") && after.contains("settings are as before"), "{after}");
    // What it would give, before anybody has tried it. Of several as good, what changes least is the first:
    // where utilisation lies at a threshold, that one is as good as a lower one in some recordings.
    let Some(ends) = planted.predicted else {
        eprintln!("{setting}: measured {gain} times");
        return Some(());
    };
    let predicted = part(&text, "@@ replay");
    let mut rows = predicted.lines().skip_while(|line| !line.starts_with("Predicted")).skip(1);
    let best = rows.next().unwrap_or_default();
    let row = [best].into_iter().chain(rows).find(|row| row.ends_with(ends));
    let [best, row] = [best, row.unwrap_or_else(|| panic!("no `{ends}`: {predicted}"))].map(numbers);
    let [times, low, high] = row[..3] else { panic!("{row:?}") };
    assert!(times > AS_GOOD * best[0], "{predicted}");
    eprintln!("{setting}: predicted {times} times ({low} to {high}), measured {gain} times");
    assert!(times > 1.1, "{row:?}");
    assert!(gain > low && gain < high, "{gain} times is not within {low} to {high}");
    Some(())
}

const LAPTOP: &[&str] = &["--pstates", "laptop-5"];

#[test]
fn a_governor_that_never_sees_its_threshold_is_explained_predicted_and_its_remedy_proved() {
    if !testing::is_measured_in_turn(0) {
        return;
    }
    let settings = "cpufreq=/sys/devices/system/cpu/cpufreq
        settings() { cat $cpufreq/ondemand/* $cpufreq/policy0/scaling_{governor,min_freq,max_freq}; }
        echo ondemand > $cpufreq/policy0/scaling_governor
        echo 100000 > $cpufreq/ondemand/sampling_rate
        echo 95 > $cpufreq/ondemand/up_threshold\n";
    judge(&Planted {
        options: LAPTOP,
        script: [settings, ENCRYPTED_READS].concat(),
        verdict: ["ondemand kept CPU 0 below its highest frequency", "goes up above 95%"],
        setting: "ondemand.up_threshold=40",
        predicted: Some("ondemand.up_threshold=40"),
    });
}

#[test]
fn a_limit_of_the_frequency_is_explained_predicted_and_its_remedy_proved() {
    if !testing::is_measured_in_turn(1) {
        return;
    }
    let settings = "cpufreq=/sys/devices/system/cpu/cpufreq
        settings() { cat $cpufreq/policy0/scaling_{governor,min_freq,max_freq}; }
        echo performance > $cpufreq/policy0/scaling_governor
        echo 1400000 > $cpufreq/policy0/scaling_max_freq\n";
    judge(&Planted {
        options: LAPTOP,
        script: [settings, ENCRYPTED_READS].concat(),
        verdict: ["the CPUs may run at 1.40 GHz at most, and ran there for", "times as fast at most"],
        setting: "max_freq=max",
        predicted: Some("max_freq=2800000"),
    });
}

#[test]
fn a_preference_for_saving_energy_is_explained_and_its_remedy_proved() {
    if !testing::is_measured_in_turn(2) {
        return;
    }
    let settings = "policy=/sys/devices/system/cpu/cpufreq/policy0
        settings() { cat $policy/scaling_governor $policy/energy_performance_preference; }
        echo powersave > $policy/scaling_governor
        echo power > $policy/energy_performance_preference\n";
    judge(&Planted {
        options: &["--pstates", "i7-6700k-hwp"],
        script: [settings, ENCRYPTED_READS].concat(),
        verdict: ["CPU 0 ran at", "its base is 4.00 GHz"],
        setting: "epp=performance",
        predicted: None,
    });
}

#[test]
fn a_load_that_is_bound_by_a_cpu_at_its_lowest_frequency_is_explained_predicted_and_its_remedy_proved() {
    if !testing::is_measured_in_turn(3) {
        return;
    }
    // The lowest that the policy allows: the table's own lowest would take a quarter of an hour.
    let settings = "cpufreq=/sys/devices/system/cpu/cpufreq
        settings() { cat $cpufreq/policy0/scaling_{governor,min_freq,max_freq}; }
        echo 1400000 > $cpufreq/policy0/scaling_min_freq
        echo powersave > $cpufreq/policy0/scaling_governor\n";
    judge(&Planted {
        options: LAPTOP,
        // Memory that answers at once.
        script: [settings, &ENCRYPTED_READS.replace("10000000", "1000")].concat(),
        verdict: ["the CPUs were busy", "at 1.40 GHz of 2.80 GHz: the load is CPU-bound"],
        setting: "governor=performance",
        predicted: Some("performance"),
    });
}

#[test]
fn a_small_read_ahead_window_is_explained_and_its_remedy_proved() {
    if !testing::is_measured_in_turn(6) {
        return;
    }
    // In order, one piece after the other, of a device that answers after 10 ms.
    let script = "
        settings() { cat /sys/block/disk/queue/read_ahead_kb; }
        memory disk 204800 10000000
        echo 16 > /sys/block/disk/queue/read_ahead_kb
        load='-- dd if=/dev/disk of=/dev/null bs=64k count=128'\n";
    judge(&Planted {
        options: &[],
        script: script.into(),
        verdict: [
            "the load reads in order, and disk gets it in pieces of",
            "the read-ahead window is 16 KiB",
        ],
        setting: "read_ahead_kb@disk=4096",
        predicted: None,
    });
}

#[test]
fn a_queue_with_few_places_is_explained_and_its_remedy_proved() {
    if !testing::is_measured_in_turn(7) {
        return;
    }
    // Thirty-two at a time, of a device that answers each after 100 ms, and takes four: 13 s, beside which
    // the three that fio takes to begin on a slow host are few.
    let script = "
        settings() { cat /sys/block/disk/queue/nr_requests; }
        memory disk 1024 100000000
        echo mq-deadline > /sys/block/disk/queue/scheduler
        echo 4 > /sys/block/disk/queue/nr_requests
        load='-- fio --name=load --rw=randread --bs=4k --ioengine=libaio --iodepth=32 --direct=1 --size=512m \
            --io_size=2m --filename=/dev/disk'\n";
    judge(&Planted {
        options: &[],
        script: script.into(),
        verdict: ["disk has places for 4 requests, and", "whoever asks for more waits for a place"],
        setting: "nr_requests@disk=64",
        predicted: None,
    });
}
