#!/bin/bash
# Which threads of a paced guest run under some loads, how often, and for how long each time (schedstat; at 20 million instructions a
# second 1 us is 20 of them), with the highest frequency and with the lowest. Runs in a lab machine, on a quiet host; five minutes:
#
#     flyball lab exec --study governor-grid -- bash -c "$(cat benches/lab/vault.sh benches/lab/paced-threads.sh)"
#
# What interrupts execute counts to the thread that they interrupt, and nowhere while the CPU is idle.
threads() {
    local thread name ran waited times uptime idle
    read -r uptime idle < /proc/uptime
    echo "uptime $uptime"
    for thread in /proc/[0-9]*/task/*; do
        read -r name < $thread/comm && read -r ran waited times < $thread/schedstat && echo "${thread##*/} ${name// /_} $ran $waited $times"
    done 2> /dev/null
}
measure() {
    local title=$1
    shift
    env "$@" &
    sleep 4
    control 1; pause 0.5; control 0
    threads > /run/before
    control 1; pause 6; control 0
    threads > /run/after
    end fio dd sleep
    echo "$title"
    awk '
        # The command that ends the pacing is executed at its pace: the span is longer than the pause.
        $1 == "uptime" { span = $2 - began; began = $2; next }
        FNR == NR { ran[$1] = $3; waited[$1] = $4; times[$1] = $5; next }
        $5 > times[$1] {
            n = $5 - times[$1]
            printf "  %-28s %6.1f/s, %5.0f us each, waited %5.0f us\n", $2, n / span, ($3 - ran[$1]) / n / 1e3, ($4 - waited[$1]) / n / 1e3
        }
    ' /run/before /run/after | sort -k2 -rn | head -n 8
}
fio="fio --name=load --filename=/dev/mapper/vault --direct=1 --time_based --runtime=60 --output=/dev/null --rw=read"
for governor in performance powersave; do
    echo $governor > /sys/devices/system/cpu/cpufreq/policy0/scaling_governor
    measure "$governor, nothing runs" sleep 60
    measure "$governor, dd reads 4 KiB" dd if=/dev/mapper/vault of=/dev/null bs=4k iflag=direct status=none
    # fio's main thread looks for a file there: a tmpfs frees the name of one that it does not have, and sysfs keeps it.
    for directory in /tmp /sys; do
        measure "$governor, fio sleeps, TMPDIR=$directory" TMPDIR=$directory $fio --bs=4k --ioengine=psync --thinktime=60000000
        measure "$governor, fio reads 4 KiB, TMPDIR=$directory" TMPDIR=$directory $fio --bs=4k --ioengine=psync
    done
    measure "$governor, reads of 1 KiB" $fio --bs=1k --ioengine=psync
    measure "$governor, four reads of 1 KiB at a time" $fio --bs=1k --ioengine=libaio --iodepth=4
done
