#!/bin/bash
# Which threads of a paced guest run under a load of studies/governor-grid.toml, how often, and for how long each time (schedstat; at
# 20 million instructions a second 1 us is 20 of them). Runs in a lab machine, on a quiet host:
#
#     flyball lab exec --study governor-grid -- bash -c "$(cat benches/lab/paced-threads.sh)"
#
# What interrupts execute counts to the thread that they interrupt, and nowhere while the CPU is idle.
modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=10000000
modprobe dm-crypt
key=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
dmsetup create vault --table "0 2097152 crypt aes-cbc-essiv:sha256 $key 0 /dev/nullb0 0"
mkfifo /run/quiet
exec 9<>/run/quiet
# 1 paces the CPUs, 0 lets them run.
control() { printf "\\x$1" | dd of=/dev/port bs=1 seek=$FLYBALL_LAB_CONTROL_PORT conv=notrunc status=none; }
threads() {
    local thread name ran waited times
    for thread in /proc/[0-9]*/task/*; do
        read -r name < $thread/comm && read -r ran waited times < $thread/schedstat && echo "${thread##*/} ${name// /_} $ran $waited $times"
    done 2> /dev/null
}
measure() {
    local title=$1
    shift
    fio --name=load --filename=/dev/mapper/vault --direct=1 --time_based --runtime=30 --output=/dev/null "$@" &
    sleep 4
    control 1; read -r -t 0.5 -u 9; control 0
    threads > /run/before
    control 1; read -r -t 6 -u 9; control 0
    threads > /run/after
    # Its jobs are in sessions of their own.
    for process in /proc/[0-9]*; do
        read -r command < $process/comm && [ "$command" = fio ] && kill -9 ${process##*/}
    done 2> /dev/null
    wait 2> /dev/null
    echo "$title"
    awk '
        FNR == NR { ran[$1] = $3; waited[$1] = $4; times[$1] = $5; next }
        $5 > times[$1] {
            n = $5 - times[$1]
            printf "  %-28s %6.1f/s, %5.0f us each, waited %5.0f us\n", $2, n / 6, ($3 - ran[$1]) / n / 1e3, ($4 - waited[$1]) / n / 1e3
        }
    ' /run/before /run/after | sort -k2 -rn | head -n 8
}
for governor in performance powersave; do
    echo $governor > /sys/devices/system/cpu/cpufreq/policy0/scaling_governor
    measure "$governor, fio sleeps" --rw=read --bs=2k --ioengine=psync --thinktime=30000000
    measure "$governor, reads of 1 KiB" --rw=read --bs=1k --ioengine=psync
    measure "$governor, four reads of 1 KiB at a time" --rw=read --bs=1k --ioengine=libaio --iodepth=4
done
