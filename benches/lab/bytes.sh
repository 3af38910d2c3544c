#!/bin/bash
# What a guest's CPU takes for bytes: zeros, random ones, from and into the page cache. Runs in a lab machine, on a quiet host:
#
#     flyball lab exec --memory 768MiB --disk plain-7200:256MiB -- bash -c "$(cat benches/lab/bytes.sh)"
#
# Seconds of five times each. studies/machines/lab-unpaced.toml has what is left when dd's start is taken off.
TIMEFORMAT='%R'
timed() {
    for i in 1 2 3 4 5; do { time "$@" > /dev/null 2>&1; } 2>&1 | tr '\n' ' '; done
    echo ": $*"
}
mkfs.ext4 -q -F /dev/sda && mkdir -p /mnt/files && mount /dev/sda /mnt/files
timed dd if=/dev/zero of=/dev/null bs=64k count=0
timed dd if=/dev/zero of=/dev/null bs=64k count=512
timed dd if=/dev/urandom of=/dev/null bs=64k count=128
timed dd if=/dev/zero of=/mnt/files/x bs=64k count=512
timed dd if=/mnt/files/x of=/dev/null bs=64k
