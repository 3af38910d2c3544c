#!/bin/sh
# How much of a trial of large writes depends on what the trial before has left in the disks' write caches. In a lab machine:
#
#     flyball lab exec --study studies/md-grid.toml -- bash -c "$(cat benches/lab/write-cache.sh)"
#
# Large writes to a RAID10 of four disks after small ones, at once and after a flush; bytes a second of the guest's time.
set -e
mdadm --create /dev/md77 --run --quiet --metadata=1.2 --level=10 --layout=n2 --chunk=32K --bitmap=none --assume-clean \
    --raid-devices=4 /dev/sda /dev/sdb /dev/sdc /dev/sdd
run() {
    fio --name=x --filename=/dev/md77 --direct=1 --ioengine=libaio --time_based=1 --norandommap=1 --randrepeat=0 \
        --output-format=json "$@" | grep '"bw_bytes"' | sed -n 2p
}
small() { run --rw=randrw --bs=4k --iodepth=8 --runtime=9 --randseed="$1" > /dev/null; }
large() { run --rw=randwrite --bs=1m --iodepth=32 --runtime=3 --randseed=7; }
for seed in 1 2 3; do
    small $seed
    echo "after small writes:          $(large)"
    small $seed
    dd if=/dev/zero of=/dev/md77 bs=4k count=1 oflag=direct conv=fsync status=none
    sleep 1
    echo "after small writes, flushed: $(large)"
done
