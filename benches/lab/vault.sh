# Begins the scripts that measure paced guests: dm-crypt as in studies/governor-grid.toml, on memory that answers after 10 ms.
modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=10000000
modprobe dm-crypt
key=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
dmsetup create vault --table "0 2097152 crypt aes-cbc-essiv:sha256 $key 0 /dev/nullb0 0"
# One from which nothing comes: a pause without a process.
mkfifo /run/quiet
exec 9<>/run/quiet
pause() { read -r -t "$1" -u 9; }
# 1 paces the CPUs, 0 lets them run, and more is a mark.
control() { printf "\\x$(printf %x "$1")" | dd of=/dev/port bs=1 seek=$FLYBALL_LAB_CONTROL_PORT conv=notrunc status=none; }
# Ends the processes of these names. fio's jobs are in sessions of their own.
end() {
    local process name
    for process in /proc/[0-9]*; do
        read -r name < $process/comm && [[ " $* " = *" $name "* ]] && kill -9 ${process##*/}
    done
    wait
} 2> /dev/null
