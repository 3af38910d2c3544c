#!/bin/bash
# How often RCU's thread and fio's main thread wake up in a paced guest, and for how long (schedstat), and that RCU's does so because fio
# looks for a file that a tmpfs does not have: with TMPDIR on a filesystem that keeps the name, it sleeps. Runs in a lab machine, on a
# quiet host; two minutes:
#
#     flyball lab exec --study dmcrypt-duty -- bash -c "$(cat benches/lab/rcu-wakeups.sh)"
modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=10000000
modprobe dm-crypt
key=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
dmsetup create vault --table "0 2097152 crypt aes-cbc-essiv:sha256 $key 0 /dev/nullb0 0"
mkfifo /run/quiet
exec 9<>/run/quiet
# 1 paces the CPUs, 0 lets them run.
control() { printf "\\x$1" | dd of=/dev/port bs=1 seek=$FLYBALL_LAB_CONTROL_PORT conv=notrunc status=none; }
called() {
    local process name
    for process in /proc/[0-9]*; do
        read -r name < $process/comm && [ "$name" = "$1" ] && echo ${process##*/} && return
    done 2> /dev/null
}
wakeups() { if [ "$4" -gt 0 ]; then echo "$1 $(($4 / 5))/s, $((($3 - $2) / $4 / 1000)) us each"; else echo "$1 none"; fi; }
# The oldest process that is called fio is its main thread.
span() {
    local rcu fio ran waited times fio_ran fio_times now_ran now_times
    rcu=$(called rcu_preempt) fio=$(called fio)
    control 1
    read -r -t 1 -u 9
    read -r ran waited times < /proc/$rcu/schedstat
    [ "$fio" ] && read -r fio_ran waited fio_times < /proc/$fio/schedstat
    read -r -t 5 -u 9
    read -r now_ran waited now_times < /proc/$rcu/schedstat
    echo "$1"
    wakeups "  rcu_preempt" $ran $now_ran $((now_times - times))
    [ "$fio" ] && read -r now_ran waited now_times < /proc/$fio/schedstat && wakeups "  fio" $fio_ran $now_ran $((now_times - fio_times))
    control 0
}
end() {
    local process name
    for process in /proc/[0-9]*; do
        read -r name < $process/comm && [ "$name" = "$1" ] && kill -9 ${process##*/}
    done
    wait
} 2> /dev/null
with_fio() {
    local title=$1
    shift
    env "$@" &
    sleep 4
    span "$title"
    end fio
}
reads="fio --name=load --filename=/dev/mapper/vault --direct=1 --time_based --runtime=60 --output=/dev/null --rw=read --bs=4k --ioengine=psync"
for governor in performance powersave; do
    echo $governor > /sys/devices/system/cpu/cpufreq/policy0/scaling_governor
    span "$governor, nothing runs"
    dd if=/dev/mapper/vault of=/dev/null bs=4k iflag=direct status=none &
    sleep 1
    span "$governor, dd reads 4 KiB"
    end dd
    for directory in /tmp /sys; do
        with_fio "$governor, fio sleeps, TMPDIR=$directory" TMPDIR=$directory $reads --thinktime=60000000
        with_fio "$governor, fio reads 4 KiB, TMPDIR=$directory" TMPDIR=$directory $reads
    done
done
