#!/bin/bash
# How many instructions a second a paced guest executes under the loads of studies/governor-grid.toml, and for how many requests:
# counts, so that what else the host does changes little. On the host, with the program built:
#
#     benches/lab/paced-loads.sh [FLYBALL]
#
# The plugin counts (`blocks=FILE`, crates/pstate-plugin/src/blocks.rs) between two marks, which take four million instructions
# themselves, measured first and subtracted. Some seven minutes.
set -eu
flyball=${1:-target/release/flyball}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/qemu" <<EOF
#!/bin/bash
exec qemu-system-x86_64 "\${@/,record=/,blocks=$work/blocks,record=}"
EOF
chmod +x "$work/qemu"

cat "$(dirname "$0")/vault.sh" - > "$work/guest" <<'EOF'
policy=/sys/devices/system/cpu/cpufreq/policy0
mark=1
# What the load has read and written so far, and when.
said() {
    local reads merged sectors ms writes rest now idle
    read -r reads merged sectors ms writes rest < /sys/block/dm-0/stat
    read -r now idle < /proc/uptime
    mark=$((mark + 1))
    echo "@@ $1 $mark $((reads + writes)) $now"
    control "$mark"
}
span() { control 1; pause 0.5; said "$1"; pause "$2"; said end; control 0; }
measure() {
    local name=$1
    shift
    fio --name=load --filename=/dev/mapper/vault --direct=1 --time_based --runtime=30 --output=/dev/null "$@" &
    sleep 4
    span "$name" 6
    end fio
    sleep 0.3
}
for governor in performance powersave; do
    echo $governor > $policy/scaling_governor
    span "$governor marks" 0.001
    span "$governor nothing" 6
    measure "$governor fio-idle" --rw=read --bs=2k --ioengine=psync --thinktime=30000000
    for bs in 1k 2k 4k; do
        measure "$governor paused_$bs" --rw=read --bs=$bs --ioengine=psync --thinktime=40000
        measure "$governor read_$bs" --rw=read --bs=$bs --ioengine=psync
        measure "$governor write_$bs" --rw=write --bs=$bs --ioengine=psync
        measure "$governor queued_$bs" --rw=read --bs=$bs --ioengine=libaio --iodepth=4
    done
done
EOF
FLYBALL_QEMU=$work/qemu "$flyball" lab exec --study governor-grid -- bash -c "$(cat "$work/guest")" > "$work/said"

awk '
    FNR == NR && /^@@ end/ { mark[n] = $3; requests[n] = $4 - requests[n]; ended[n] = $5; next }
    FNR == NR && /^@@/     { n++; name[n] = $2 " " $3; first[n] = $4; requests[n] = $5; began[n] = $6; next }
    FNR == NR              { next }
    # Of several machines, the last.
    /^flyball-blocks/      { delete sum; delete at }
    /^mark/                { split($2, ns, "="); split($3, value, "="); now = value[2]; at[now] = ns[2] }
    /instructions=/        { split($0, part, "instructions="); sum[now] += part[2] }
    END {
        for (i = 1; i <= n; i++) {
            executed = sum[mark[i]] - sum[first[i]]
            seconds = (at[mark[i]] - at[first[i]]) / 1e9
            if (name[i] ~ / marks$/) { own = executed; took = seconds; printf "%-28s %6.2f M instructions\n", name[i], own / 1e6; continue }
            printf "%-28s %6.2f M instructions/s, %5.1f requests/s\n", name[i], (executed - own) / seconds / 1e6, requests[i] / (seconds - took)
        }
    }
' "$work/said" "$work/blocks"
