#!/bin/bash
# How much of a guest's CPU the thread of a RAID5 takes, by members, for whole stripes and single blocks. Runs in a lab machine:
#
#     disks=$(for i in 0 1 2 3 4 5 6 7 8 9; do echo --disk plain-7200:64MiB; done)
#     flyball lab exec --memory 768MiB $disks -- bash -c "$(cat benches/lab/array-thread.sh)"
#
# The model: a study of the same arrays and loads with `--on sim --machine lab`; a trial's `threads` have `md0_raid5`.
for members in 4 10; do
    devices=$(ls /dev/sd? | head -n $members)
    mdadm --create /dev/md0 --run --assume-clean --level=5 --raid-devices=$members --chunk=32 --bitmap=none $devices > /dev/null 2>&1
    thread=$(for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = md0_raid5 ] && echo $p; done)
    for load in "write 1m 45m" "randwrite 4k 1m"; do
        set -- $load
        before=$(cut -d' ' -f1 $thread/schedstat)
        fio --name=x --filename=/dev/md0 --rw=$1 --bs=$2 --direct=1 --ioengine=libaio --iodepth=1 --size=180m --io_size=$3 > /tmp/fio.txt
        after=$(cut -d' ' -f1 $thread/schedstat)
        echo "$members members, $load: $(((after - before) / 1000000)) ms of the array's thread;$(grep IOPS /tmp/fio.txt)"
    done
    mdadm --stop /dev/md0 > /dev/null 2>&1
    for device in $devices; do mdadm --zero-superblock $device; done
done
