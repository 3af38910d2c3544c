//! The whole program in a lab machine, killed at any moment while it builds arrays, encryption, volumes and
//! filesystems and switches governors, half of the time again while it recovers: nothing of it is left there,
//! no trial is lost or doubled. And what somebody else has changed meanwhile is left alone.
//!
//! The driver is a script in the guest: a process is started in a tenth of a second there, a guest in ten.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::lab::SharedGuest;
use crate::support::{MIRROR, Place, lab};
use testing::Extent;

/// One kernel, for what is killed is this program; its storage is shown on both elsewhere.
const KERNEL: &str = "6.12";

/// Each kind of layer, in five cells, each with a governor of its own.
const STUDY: &str = r#"
flyball = 1
name = "kills"
question = "Is anything left, whenever it is killed?"

[target]
file = "1MiB"

[stack.disks]
kind = "devices"
count = 4
loop = "16MiB"

[stack.fast]
kind = "devices"
null_blk = "320MiB"

[stack.array]
kind = "md"
on = "disks"
level = 5
chunk = "64KiB"

[stack.vault]
kind = "crypt"
on = "array"
type = "plain"
use = false

[stack.volume]
kind = "lvm"
on = "vault"
use = false

[stack.files]
kind = "filesystem"
on = "volume"
type = "ext4"

[workload.write]
tool = "command"
argv = ["sh", "-c", "setsid sleep 0.3 & dd if=/dev/zero of={target} bs=64k count=16 conv=notrunc,fsync 2> /dev/null; wait"]

[[factor.what.level]]
name = "raid5"
settings = { governor = "ondemand", "ondemand.up_threshold" = 60 }
[[factor.what.level]]
name = "raid1-plain"
settings = { governor = "conservative", "conservative.down_threshold" = 30 }
stack = { "disks.count" = 2, "array.level" = 1, "vault.use" = true }
[[factor.what.level]]
name = "raid10-luks"
settings = { governor = "performance" }
stack = { "array.level" = 10, "vault.use" = true, "vault.type" = "luks2", "files.use" = false }
[[factor.what.level]]
name = "stripe"
settings = { governor = "schedutil", "vm.swappiness" = 10 }
stack = { "disks.count" = 2, "array.use" = false, "volume.use" = true, "files.type" = "ext2" }
[[factor.what.level]]
name = "null"
settings = { governor = "powersave", "scheduler" = "mq-deadline" }
stack = { "files.on" = "fast", "files.type" = "xfs" }

[measure]
metric = "elapsed"
repeats = [1, 1]
settle = "0s"
drop_caches = false
under_load = true
"#;

/// Five cells, once each: the first run and the last one are whole.
const TRIALS: u32 = 5;

/// One whose first trial lasts until somebody ends it.
fn storage() -> String {
    format!(
        r#"
flyball = 1
name = "held"
question = "What is left?"
{MIRROR}resync = "skip"

[stack.vault]
kind = "crypt"
on = "array"
type = "plain"

[stack.files]
kind = "filesystem"
on = "vault"
type = "ext4"

[workload.hold]
tool = "command"
argv = ["sh", "-c", "exec sleep 333 < {{target}}"]

[settings]
governor = "performance"

[measure]
metric = "elapsed"
repeats = [2, 2]
settle = "0s"
drop_caches = false
under_load = true
"#
    )
}

/// The same on a device of null_blk.
const MEMORY: &str = r#"
flyball = 1
name = "held"
question = "What is left?"

[target]
file = "1MiB"

[stack.disks]
kind = "devices"
null_blk = "16MiB"

[workload.hold]
tool = "command"
argv = ["sh", "-c", "exec sleep 333 < {target}"]

[settings]
governor = "performance"

[measure]
metric = "elapsed"
repeats = [2, 2]
settle = "0s"
drop_caches = false
under_load = true
"#;

/// What each script begins with: the machine as it is before, and everything that must not be there
/// afterwards.
const BEGIN: &str = r#"
set -u
RANDOM=$SEED
exec 3>&1 >&2
modprobe loop
mkdir -p /run/kills
mkfifo /run/pause
exec 9<> /run/pause
cd /run/kills || exit 1
export FLYBALL_NOTEBOOK=/run/kills/notebook FLYBALL_STATE=/run/kills/state NO_COLOR=1
# Nothing that is measured here counts.
unset FLYBALL_LAB_CONTROL_PORT
cpufreq=/sys/devices/system/cpu/cpufreq
echo ondemand > $cpufreq/policy0/scaling_governor
echo 61 > $cpufreq/ondemand/up_threshold
echo 7 > $cpufreq/ondemand/sampling_down_factor

settings() { grep . $cpufreq/policy*/scaling_governor $cpufreq/*/up_threshold $cpufreq/*/sampling_down_factor /proc/sys/vm/swappiness; }
loops() { echo /sys/block/loop* && grep -s . /sys/block/loop*/loop/backing_file; }
settings_before=$(settings)
loops_before=$(loops)

wrong() {
    echo "@@ wrong in round $round ($how): $*" >&3
    { flyball status; cat /proc/mdstat; dmsetup ls; loops; mount; ps; dmesg | tail -20; tail -30 log; } >&3 2>&3
    exit 1
}
# Everything that must not be there once all is undone.
look() {
    [ "$(settings)" = "$settings_before" ] || wrong "settings: $(settings)"
    [ "$(loops)" = "$loops_before" ] || wrong "loop devices: $(loops)"
    ! grep -q '^md' /proc/mdstat || wrong "an array"
    for node in /sys/block/md* /sys/block/dm-* /sys/block/null*; do [ ! -e $node ] || wrong $node; done
    for node in /dev/mapper/* /dev/flyball* /dev/md/*; do [ ! -e $node ] && [ ! -L $node ] || [ $node = /dev/mapper/control ] || wrong $node; done
    ! grep -q /run/kills/ /proc/self/mountinfo || wrong "a mount"
    for folder in /sys/kernel/config/nullb/flyball* /sys/module/null_blk /sys/module/scsi_debug; do
        [ ! -e $folder ] || wrong "$folder: $(head -n 9 $folder/initstate $folder/refcnt 2>&1; ls $folder/holders; ps)"
    done
    [ -z "$(ls -A notebook/work 2> /dev/null)" ] || wrong "files: $(ls -A notebook/work)"
    marked=$(grep -l FLYBALL_WORKLOAD= /proc/[0-9]*/environ 2> /dev/null)
    [ -z "$marked" ] || wrong "processes: $marked"
    flyball status --json | grep -q '"changed": \[\]' || wrong "the ledger is not empty"
}

# The processes that $1 has started and whose name matches $2. Nothing is started to find them: what is to be
# killed may live for a tenth of a second.
children() {
    for list in /proc/$1/task/*/children; do
        read -r -a pids < $list
        for pid in "${pids[@]}"; do read -r name < /proc/$pid/comm && [[ $name =~ $2 ]] && echo $pid; done
    done 2> /dev/null
}
now() { read -r up _ < /proc/uptime && echo ${up/./}0; }
alive() { read -r pid name state rest < /proc/$1/stat && [ "$state" != Z ]; } 2> /dev/null
# A pause of up to $1 ms.
pause() { read -r -t "$(printf '%d.%03d' $((RANDOM % $1 / 1000)) $((RANDOM % ($1 < 1000 ? $1 : 1000))))" <&9; }
ended() {
    for _ in $(seq 1000); do alive $1 || return 0; read -r -t 0.03 <&9; done
    wrong "process $1 does not end"
}
start() {
    set -m
    flyball run kills.toml --seed 5 >> log 2>&1 &
    run=$!
    set +m
}
# No trial that was kept may go, change or come twice.
kept=""
trials() {
    now=$(cd notebook 2> /dev/null && md5sum runs/*/trials/*/trial.json 2> /dev/null)
    while read -r line; do
        [ -z "$line" ] || [[ $now == *"$line"* ]] || wrong "a trial is lost or changed: $line"
    done <<< "$kept"
    kept=$now
}
whole() {
    trials
    count=$(ls -d notebook/runs/*/trials/*.a0 | wc -l)
    [ "$count" = $TRIALS ] && [ $(ls -d notebook/runs/* | wc -l) = 1 ] || wrong "$count trials of $TRIALS"
    finished=$((finished + count)) runs=$((runs + 1)) kept=""
    rm -r notebook
}

"#;

/// Kills, until there were enough of them.
const KILLING: &str = r#"
# Killed in its last moments it has them all, and the next start would begin a second run.
has_all() { [ "$(ls -d notebook/runs/*/trials/*.a0 2> /dev/null | wc -l)" = $TRIALS ]; }

# Who is killed first, and who recovers: the supervisor, `flyball restore`, or the next run.
HOWS=(worker worker group both both next tool)
kills=0 again=0 tools=0 runs=0 finished=0 ended=0 busy=0 round=0 how=begin
begun=$(now)
start
wait $run || wrong "the first run ended with $?"
life=$((($(now) - begun) * 13 / 10 / TRIALS))
whole
look
echo "@@ kills within $life ms" >&3
recovery=500
# Half of them again while it recovers, which on a fast machine is soon over: then some more are killed.
while [ $kills -lt $KILLS ] || { [ $again -lt $((KILLS / 2)) ] && [ $kills -lt $((KILLS * 3)) ]; }; do
    round=$((round + 1))
    how=${HOWS[RANDOM % ${#HOWS[@]}]}
    start
    if [ $how = tool ]; then
        # The next one that it starts.
        pause $life
        for _ in $(seq 40); do
            tool=$(children $run 'mdadm|cryptsetup|lvm|mke2fs|mkfs|mount|wipefs|dmsetup|modprobe|fio' | head -n 1)
            [ -z "$tool" ] || break
        done
        [ -z "$tool" ] || { kill -9 $tool 2> /dev/null && tools=$((tools + 1)); }
    fi
    pause $life
    supervisor=$(children $run flyball)
    if ! alive $run; then
        wait $run
        code=$?
        ended=$((ended + 1))
        case $code in
            0 | 3) whole ;;
            *) [ $how = tool ] || wrong "it ended with $code" ;;
        esac
        look
        continue
    fi
    case $how in
        group) kill -9 -- -$run ;;
        both | next) kill -9 $supervisor $run ;;
        *) kill -9 $run ;;
    esac
    kills=$((kills + 1))
    wait $run 2> /dev/null
    code=$?
    # It ended by itself a moment before: 3 where a tool of one of its trials was killed.
    if [ $code != 137 ]; then
        kills=$((kills - 1))
        if [ $code = 0 ] || [ $code = 3 ]; then whole; fi
    fi
    trials
    if [ $how = both ] || [ $how = next ] || [ -z "$supervisor" ]; then
        [ $how = next ] && ! has_all && continue
    elif [ $((RANDOM % 10)) -lt 9 ]; then
        pause $recovery
        alive $supervisor && kill -9 $supervisor 2> /dev/null && again=$((again + 1))
        ended $supervisor
    else
        ended $supervisor
        look
        ! has_all || whole
        continue
    fi
    if [ $((RANDOM % 10)) -lt 8 ]; then
        flyball restore >> log 2>&1 &
        restore=$!
        pause $recovery
        kill -9 $restore 2> /dev/null
        wait $restore 2> /dev/null
        [ $? = 137 ] && again=$((again + 1))
    fi
    began=$(now)
    flyball restore >> log 2>&1 || wrong "restore ended with $?"
    recovery=$(((recovery * 9 + $(now) - began) / 10 + 15))
    look
    ! has_all || whole
done
how=end
for _ in 1 2 3; do
    start
    wait $run
    code=$?
    [ $code != 0 ] && [ $code != 3 ] || break
done
[ $code = 0 ] || [ $code = 3 ] || wrong "the last run ended with $code"
whole
look
back=$(grep -c 'put back from' log) down=$(grep -c ': removed' log)
echo "@@ $kills kills ($again again during recovery, $tools tools besides): at least $back settings put back, $down parts taken down; 0 left; $finished trials in $runs runs, 0 lost, 0 doubled" >&3
"#;

/// Kills `flyball tune` while it makes two sysctls last, and while it takes them back.
const TUNE: &str = r#"
round=0 how=begin kills=0 whole=0 nothing=0 middle=0
file=/etc/sysctl.d/90-flyball.conf
lasting() { cat /proc/sys/vm/extfrag_threshold /proc/sys/vm/stat_interval | tr '\n' ' '; }
others() { find /etc -type f ! -path $file | sort | xargs md5sum; }
persist="--set vm.extfrag_threshold=510 --set vm.stat_interval=3 --persist"
before=$(lasting)
tune() { flyball tune $* >> log 2>&1; }
# Its folders are made once, and stay.
tune $persist && tune --undo || wrong "tune ended with $?"
others_before=$(others)
began=$(now); tune $persist || wrong "tune ended with $?"; persist_ms=$(($(now) - began))
began=$(now); tune --undo || wrong "undo ended with $?"; undo_ms=$(($(now) - began))
echo "@@ kills within $persist_ms and $undo_ms ms" >&3
while [ $kills -lt $KILLS ]; do
    round=$((round + 1))
    if [ -e $file ]; then how=undo arguments=--undo span=$undo_ms; else how=persist arguments=$persist span=$persist_ms; fi
    flyball tune $arguments >> log 2>&1 &
    run=$!
    pause $((span * 13 / 10 + 1))
    kill -9 $(children $run flyball) $run 2> /dev/null
    wait $run 2> /dev/null
    [ $? = 137 ] || continue
    kills=$((kills + 1))
    status=$(flyball status --json)
    if [[ $status != *'"changed": []'* || $status == *'"unfinished": true'* ]]; then middle=$((middle + 1)); fi
    flyball restore >> log 2>&1 || wrong "restore ended with $?"
    status=$(flyball status --json)
    [[ $status == *'"changed": []'* && $status != *'"unfinished": true'* ]] || wrong "$status"
    if [ -e $file ]; then
        whole=$((whole + 1))
        [ "$(lasting)" = "510 3 " ] && grep -q extfrag_threshold $file && grep -q stat_interval $file || wrong "half: $(lasting) $(cat $file)"
        [[ $status == *as_written* ]] || wrong "$status"
    else
        nothing=$((nothing + 1))
        [ "$(lasting)" = "$before" ] || wrong "values without a file: $(lasting)"
    fi
    [ "$(others)" = "$others_before" ] || wrong "other files of /etc: $(others)"
done
how=end
tune --undo || wrong "the last undo ended with $?"
[ "$(lasting)" = "$before" ] && [ ! -e $file ] || wrong "left: $(lasting)"
look
echo "@@ $kills kills of tune: $whole left all of it, $nothing nothing; $middle were cut in the middle" >&3
"#;

/// What somebody else did meanwhile.
const OTHERS: &str = r#"
round=0
# What somebody else did meanwhile is left alone, and told where it matters.
marked() { grep -l FLYBALL_WORKLOAD= /proc/[0-9]*/environ 2> /dev/null | cut -d / -f 3; }
is_held() {
    for stat in /proc/[0-9]*/stat; do
        read -r pid name rest < $stat && [ "$name" = "(sleep)" ] && return 0
    done 2> /dev/null
    return 1
}
# Leaves everything of a study as it is in the middle of its first trial.
leave() {
    how=$1
    rm -rf notebook
    flyball run $2.toml --seed 5 >> log 2>&1 &
    run=$!
    for _ in $(seq 600); do is_held && break; read -r -t 0.1 <&9; done
    is_held || wrong "the workload did not begin"
    kill -9 $(children $run flyball) $run
    wait $run 2> /dev/null
    point=$(grep -o '/run/kills/notebook/work/flyball-[^ ]*' /proc/self/mountinfo | head -n 1)
}
restore() {
    flyball restore > told 2>&1
    code=$?
    cat told >> log
    [ $code = $1 ] || wrong "restore ended with $code: $(cat told)"
}
end_workload() { for _ in $(seq 100); do [ -z "$(marked)" ] && break; kill -9 $(marked) 2> /dev/null; done; }

leave "mounted over" storage
mount -t tmpfs theirs $point
echo theirs > $point/theirs
restore 1
grep -q 'theirs. mounted there over it' told || wrong "not told: $(cat told)"
[ "$(cat $point/theirs)" = theirs ] || wrong "what was mounted over is gone"
umount $point
restore 0
look

leave "mapping closed" storage
end_workload
umount $point && dmsetup remove --retry "$(dmsetup ls | cut -f 1)"
restore 0
look

leave "array stopped" storage
end_workload
umount $point && dmsetup remove --retry "$(dmsetup ls | cut -f 1)" && mdadm --stop /dev/md200
restore 0
look

leave "their null_blk" memory
mkdir /sys/kernel/config/nullb/theirs
echo 8 > /sys/kernel/config/nullb/theirs/size
echo 1 > /sys/kernel/config/nullb/theirs/memory_backed
echo 1 > /sys/kernel/config/nullb/theirs/power
restore 5
grep -q 'module null_blk: left alone' told || wrong "not told: $(cat told)"
[ "$(cat /sys/kernel/config/nullb/theirs/power)" = 1 ] || wrong "their device is gone"
flyball status --json | grep -q '"changed": \[\]' || wrong "the ledger is not empty"
rmdir /sys/kernel/config/nullb/theirs
modprobe -r null_blk
look

truncate -s 16M /run/theirs0 /run/theirs1
their0=$(losetup -f --show /run/theirs0) their1=$(losetup -f --show /run/theirs1)
mdadm --create /dev/md127 --run --quiet --level=1 --raid-devices=2 --assume-clean --bitmap=none $their0 $their1 < /dev/null
dd if=/dev/urandom of=/dev/md127 bs=1M count=8 conv=fsync 2> /dev/null
theirs=$(md5sum < /dev/md127)
leave "an array beside" storage
restore 0
[ "$(md5sum < /dev/md127)" = "$theirs" ] && grep -q '^md127 : active raid1' /proc/mdstat || wrong "their array is changed"
mdadm --stop --quiet /dev/md127
losetup -d $their0
losetup -d $their1
look
echo "@@ 5 things of others left alone" >&3
"#;

const TOOLS: [&str; 9] =
    ["mdadm", "cryptsetup", "dmsetup", "lvm", "mke2fs", "mkfs.xfs", "modprobe", "losetup", "mount"];

/// All three scripts run in it.
static GUEST: SharedGuest = SharedGuest::new();

/// How many runs are killed, and when.
fn kills() -> Extent {
    Extent::of(6, 150)
}

/// The same of `tune`.
fn kills_of_tune() -> Extent {
    Extent::of(4, 100)
}

/// A whole script: its folder is new, and as many are killed as the extent says.
fn whole(script: &str, extent: Extent) -> String {
    let storage = storage();
    let files = [("kills", STUDY), ("storage", &storage), ("memory", MEMORY)];
    let files = files.map(|(name, text)| format!("cat > /run/kills/{name}.toml <<'END'\n{text}\nEND\n"));
    // Bash's generator takes no more than 32 bits.
    let seed = extent.seed % (1 << 31);
    let numbers = format!("SEED={seed} KILLS={} TRIALS={TRIALS}\n", extent.count);
    ["rm -rf /run/kills /run/pause\nmkdir /run/kills\n", &files.concat(), &numbers, BEGIN, script].concat()
}

/// The lines that a script marked.
fn marked(name: &str) -> Option<Vec<String>> {
    let place = Place::new();
    let missing = lab::without(&TOOLS).or_else(lab::without_plugin);
    if let Some(why) = missing.or_else(|| lab::missing(&place, KERNEL)) {
        eprintln!("skipped: {why}");
        return None;
    }
    let scripts = [
        ("run", whole(KILLING, kills())),
        ("tune", whole(TUNE, kills_of_tune())),
        ("others", whole(OTHERS, Extent { count: 1, seed: 5 })),
    ];
    let table = lab::slow_pstates(&place);
    let text = GUEST.said(&place, KERNEL, &["--memory", "1GiB", "--pstates", &table], &scripts, name).ok();
    Some(text.lines().filter_map(|line| line.strip_prefix("@@ ")).map(str::to_owned).collect())
}

#[test]
fn killed_at_any_moment_in_the_lab_nothing_is_left_and_no_trial_is_lost_or_doubled() {
    if !testing::is_long_in_turn(1) {
        return;
    }
    let extent = kills();
    let Some(lines) = marked("run") else { return };
    let last = lines.last().unwrap();
    let kills: u64 = last.split(' ').next().unwrap().parse().unwrap();
    assert!(kills >= extent.count && last.contains(" kills ("), "{lines:?}");
    let again: u64 = last.split(['(', ' ']).nth(3).unwrap().parse().unwrap();
    assert!(again >= extent.count * 2 / 5, "only {again} were killed again");
    testing::promise("lab-kills", kills, last);
}

#[test]
fn tune_killed_at_any_moment_in_the_lab_leaves_all_or_nothing() {
    if !testing::is_long_in_turn(1) {
        return;
    }
    let extent = kills_of_tune();
    let Some(lines) = marked("tune") else { return };
    let last = lines.last().unwrap();
    let kills: u64 = last.split(' ').next().unwrap().parse().unwrap();
    assert!(kills >= extent.count && last.contains(" kills of tune: "), "{lines:?}");
    testing::promise("lab-tune", kills, last);
}

#[test]
fn what_somebody_else_changed_meanwhile_is_left_alone_and_told() {
    if !testing::is_long_in_turn(1) {
        return;
    }
    let Some(lines) = marked("others") else { return };
    eprintln!("{lines:?}");
    assert_eq!(lines, ["5 things of others left alone"]);
}
