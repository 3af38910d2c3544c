//! From a slow volume to a proved gain, in a lab machine and by the commands that the screens name:
//! `diagnose` a load that runs, `replay` what it recorded, `tune` by its finding. The kernel is real, and so
//! are dm-crypt and ondemand; the CPU is paced while something is measured.
//!
//! It takes four minutes of a quiet host, and has its turn in one run of three.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it saw"
)]

use crate::support::{Place, lab, stderr};

/// The load of studies/dmcrypt-ondemand.toml: one small encrypted read after the other, of memory that
/// answers after 10 ms, on a CPU that is busy for three quarters of each window of ondemand's 100 ms. At half
/// of this pace the kernel's own ticks and threads keep it busier, and ondemand goes up.
const SLOW_VOLUME: &str = r#"
set -e
exec 3>&1 >&2
modprobe configfs
modprobe null_blk nr_devices=0
modprobe dm_crypt
mount -t configfs none /sys/kernel/config || true # It may be there.
null=/sys/kernel/config/nullb/disk
mkdir $null
echo 1024 > $null/size
echo 2 > $null/irqmode
echo 10000000 > $null/completion_nsec
echo 1 > $null/power
for wait in $(seq 100); do name=$(ls /sys/block | grep -E '^(nullb|disk)') && break; sleep 0.1; done
printf 32-bytes-of-a-key-of-no-secrecy. | cryptsetup open --type plain --cipher aes-cbc-essiv:sha256 --key-size 256 \
    --key-file - /dev/$name vault
cpufreq=/sys/devices/system/cpu/cpufreq
echo ondemand > $cpufreq/policy0/scaling_governor
echo 100000 > $cpufreq/ondemand/sampling_rate
echo 95 > $cpufreq/ondemand/up_threshold
cd /run
export FLYBALL_NOTEBOOK=/run/notebook COLUMNS=200 NO_COLOR=1
fio --name=load --rw=read --bs=4k --ioengine=psync --direct=1 --time_based --runtime=100000 --size=512m \
    --filename=/dev/mapper/vault > fio.out & load=$!
sleep 3
set +e
# A part of what is said here, and the command that a screen names.
part() { echo "@@ $1" >&3; }
named() { grep -o "^ *flyball $1 .*" $2; }
part diagnose
flyball diagnose --pid $load --for 20s > screen; part "code $?"; cat screen >&3
command=$(named tune screen)
part "replay"
$(named replay screen) > predicted; part "code $?"; cat predicted >&3
part "tune $command"
$command < /dev/null > tuned; part "code $?"; cat tuned >&3
part status
flyball status >&3
echo "threshold $(cat $cpufreq/ondemand/up_threshold)" >&3
kill $load
"#;

/// By how many percent of its time the CPU may be late: the gain that is looked for is larger.
const MOST_LATE: f64 = 10.0;

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

#[test]
fn a_slow_encrypted_volume_is_explained_predicted_and_its_remedy_proved_by_the_printed_commands() {
    if !testing::is_in_turn(2, 1, 3) {
        return;
    }
    let place = Place::new();
    let without = lab::without(&["cryptsetup", "fio"]).or_else(lab::without_plugin);
    if let Some(why) = without.or_else(|| lab::missing(&place, "6.12")) {
        return testing::skip(why);
    }
    let machine = ["lab", "exec", "--kernel", "6.12", "--pstates", "laptop-5", "--memory", "1GiB"];
    let output = place.output(&[&machine[..], &["--", "bash", "-c", SLOW_VOLUME]].concat());
    let told = stderr(&output);
    if told.contains("is too fast for this host") || told.contains("this host is too busy") {
        return testing::skip(format!("this host is too busy to pace a machine: {told}"));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    eprintln!("{text}");
    assert!(output.status.success(), "{told}");
    let late =
        told.lines().find(|line| line.contains("behind its pace")).and_then(|line| line.split_once('('));
    if late.is_some_and(|(_, share)| numbers(share)[0] > MOST_LATE) {
        return testing::skip(format!("not measured, for this host is busy with other things: {late:?}"));
    }
    // What is wrong is the first finding, with the governor's windows and its threshold.
    let diagnosed = part(&text, "@@ diagnose");
    assert!(diagnosed.contains("code 0"), "{told}");
    let verdict = diagnosed.lines().find_map(|line| line.strip_prefix("Verdict")).unwrap();
    assert!(verdict.trim().starts_with("ondemand kept CPU 0 below its highest frequency"), "{verdict}");
    assert!(diagnosed.contains("goes up above 95%"), "{diagnosed}");
    // What the lower threshold would give, before anybody has tried it.
    let predicted = part(&text, "@@ replay");
    // Others are as good, at the highest frequency all the time: what changes least is the first.
    let best = predicted.lines().skip_while(|line| !line.starts_with("Predicted")).nth(1).unwrap_or_default();
    assert!(best.ends_with("ondemand.up_threshold=40"), "{predicted}");
    let predicted = numbers(best);
    let [times, low, high] = predicted[..3] else { panic!("{predicted:?}") };
    assert!(times > 1.1, "{predicted:?}");
    // What it gives: in interleaved trials, fewer than were planned for; and all is as before.
    let tuned = part(&text, "@@ tune");
    let verdict =
        tuned.lines().find_map(|line| line.strip_prefix("Verdict")).unwrap_or_else(|| panic!("{told}"));
    let verdict = verdict.trim();
    assert!(verdict.starts_with("change decides: after gives "), "{verdict}");
    let gain = numbers(verdict)[0];
    eprintln!("ondemand.up_threshold=40: predicted {times} times ({low} to {high}), measured {gain} times");
    assert!(gain > low && gain < high, "{gain} times is not within {low} to {high}");
    let keeps = "to keep the change: `flyball tune --set ondemand.up_threshold=40 --persist`";
    assert!(told.contains(keeps), "{told}");
    let after = part(&text, "@@ status");
    assert!(after.contains("nothing is changed") && after.contains("threshold 95"), "{after}");
}
