#!/usr/bin/env python3
"""How many instructions a guest's CPU executes for direct requests to an array, and what costs of the model
they are.

    benches/lab/instructions.py target/release/flyball DIRECTORY [ARRAY...]

An ARRAY is LEVEL:MEMBERS:CHUNK in KiB, `disk`, or `null`: a null_blk device with memory, as studies have them. dd reads and writes each in order, one request at a time.
The QEMU plugin counts the kernel's instructions by block of code (crates/pstate-plugin/src/blocks.rs), and
/proc/kallsyms says of which function a block is. A count does not depend on what else the host does; no time
is measured here.

Printed are the instructions of a request to a member by who executes them, and the costs of
studies/machines/lab.toml by relative least squares; each array is judged by the costs that fit the others.
Files are kept in DIRECTORY, and read again where no ARRAY is given. Needs Python alone; a guest of ten arrays
takes nine minutes.
"""

import collections
import itertools
import math
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = 4096
SUBMIT = "submit + complete + switch"
SECONDS = 3

# Between two marks the counts are taken. A write to the port, which is opened and positioned before, costs a
# thousandth of what starting a program would.
GUEST = r"""
exec 3>&1 >&2
cd /run
modprobe -a raid0 raid1 raid10 raid456 2> /dev/null
mkfifo nothing; exec 7<> nothing
pause() { read -t $1 <&7; }
at_port() { dd bs=1 seek=$FLYBALL_LAB_CONTROL_PORT count=0 conv=notrunc status=none < /dev/null; }
now() {
    while read -r line; do case $line in *" sd"* | *" md"* | *" null"*) echo "$line" ;; esac; done < /proc/diskstats
    while read -r name value rest; do [ $name = ctxt ] && echo "ctxt $value"; done < /proc/stat
}
measured() {
    load=$!
    exec 10> /dev/port 11> /dev/port
    at_port >&10; at_port >&11
    pause 0.3
    now > before
    printf '\x02' >&10; pause SECONDS; printf '\x03' >&11
    now > after
    kill $load; wait $load
    echo "@@ cell $*" >&3; cat before >&3; echo "@@ after" >&3; cat after >&3
    exec 10>&- 11>&-
}
for array in ARRAYS; do
    IFS=: read level members chunk <<< $array
    devices=$(ls /dev/sd? | head -n ${members:-1}); device=/dev/sda
    if [ $level = null ]; then
        modprobe null_blk nr_devices=0
        config=/sys/kernel/config/nullb/nullcounted
        mkdir $config
        for value in size=256 memory_backed=1 irqmode=2 completion_nsec=600000 power=1; do
            echo ${value#*=} > $config/${value%=*}
        done
        pause 1
        device=$(ls /dev/null?* | head -n 1)
        dd if=/dev/zero of=$device bs=1M oflag=direct status=none
    elif [ $level != disk ]; then
        options=; [ $level != 1 ] && options=--chunk=$chunk
        [ $level != 0 ] && options="$options --assume-clean --bitmap=none"
        mdadm --create /dev/md0 --run --level=$level --raid-devices=$members $options $devices
        device=/dev/md0
    fi
    for size in 4K 64K 256K 1M; do
        dd if=$device of=/dev/null bs=$size iflag=direct status=none &
        measured $array read $size
        dd if=/dev/zero of=$device bs=$size oflag=direct conv=notrunc status=none &
        measured $array write $size
    done
    [ $level = disk -o $level = null ] && continue
    mdadm --stop /dev/md0
    for device in $devices; do mdadm --zero-superblock $device; done
done
sleep 100 &
measured none none 0
echo "@@ functions" >&3
grep -i ' [tw] ' /proc/kallsyms >&3
"""

# Who executes: by module, else by how the function's name begins; the first that fits.
GROUPS = {
    "xor": ("xor raid6_pq async_xor async_pq", "ops_run_prexor"),
    "copy": ("async_memcpy", "async_copy_data|memcpy|clear_user"),
    "md": ("md_mod raid0 raid1 raid10 raid456 async_tx", None),
    "driver": (
        "scsi_mod sd_mod virtio_scsi virtio_pci virtio_ring virtio",
        "virtqueue|vring|sg_|__blk|blk_|dd_|sbitmap|elv_",
    ),
    "pages": ("", "gup|bio_iov_iter|__?bio_release|folio|try_g|iov_iter|__bio_add|bvec_try|mod_node"),
    "bio": ("", "bio_|submit_bio|__submit_bio|bvec|ll_|mempool|kmem|kfree|__kmalloc|attempt"),
    "idle": ("", "default_idle|pv_native|cpu_idle|do_idle|cpuidle|acpi_idle|tick_nohz|arch_cpu_idle|menu_"),
    "switch": (
        "",
        "schedule|__schedule|pick_|enqueue_|dequeue_|update_|set_next|put_prev|try_to_wake|ttwu|__wake|wake_"
        "|finish_|__switch|switch_|prepare_|avg_vruntime|place_|sched_|select_task|reweight|psi_|task_",
    ),
}

# What a page of a direct request costs, by when it is executed; the first that fits. Counters of pages are kept
# when one is held and when it is let go.
PAGES = {
    "before the request is sent": "gup_fast|try_g|folio_mapping|bio_iov_iter|bvec_try|__bio_add",
    "when its part is sent": "__blk_rq_map_sg|bio_split_rw|virtqueue_add_split|sg_next|vring_map",
    "at the end": "gup_put|__?bio_release|folio_mark_dirty|folio_unlock|unpin",
    "held and let go": "mod_node",
}


def guest(program, directory, arrays):
    """Counts in a guest. It is not paced; the table's pace is one that any host keeps."""
    table = (ROOT / "studies/machines/pstates/laptop-5.toml").read_text()
    (directory / "slow.toml").write_text(re.sub(r"(?m)^pace = .*", "pace = 1e6", table))
    (directory / "blocks").unlink(missing_ok=True)
    qemu = directory / "qemu"
    qemu.write_text(
        f'#!/bin/bash\nexec qemu-system-x86_64 "${{@/,record=/,blocks={directory}/blocks,record=}}"\n'
    )
    qemu.chmod(0o755)
    script = GUEST.replace("ARRAYS", " ".join(arrays)).replace("SECONDS", str(SECONDS))
    members = max([int(array.split(":")[1]) for array in arrays if ":" in array], default=1)
    disks = ["--disk", "plain-7200:256MiB"] * members
    command = [program, "lab", "exec", "--pstates", directory / "slow.toml", "--memory", "768MiB", *disks]
    with open(directory / "text", "w") as text:
        environment = {**os.environ, "FLYBALL_QEMU": str(qemu)}
        subprocess.run([*command, "--", "bash", "-c", script], stdout=text, env=environment, check=True)


def marks(path):
    """The counts at each mark, by address; programs have address 0."""
    counts = collections.Counter()
    for line in open(path):
        word, *rest = line.split()
        fields = dict(field.split("=") for field in rest if "=" in field)
        if word == "mark":
            counts = collections.Counter()
            value = int(fields["value"])
        elif word in ("user", "block"):
            counts[int(fields.get("address", "0"), 16)] += int(fields["instructions"])
        elif word == "end" and value in (2, 3):
            yield counts


def by_function(counts, functions):
    """Counts by function, of which `functions` has the beginnings in order."""
    found = collections.Counter()
    at = 0
    for address in sorted(counts):
        while at + 1 < len(functions) and functions[at + 1][0] <= address:
            at += 1
        found["user" if address == 0 else functions[at][1]] += counts[address]
    return found


def disk_counts(text):
    """Requests, merges and sectors of members and of what dd has, and context switches."""
    members, target, ctxt = collections.Counter(), None, 0
    for line in text.splitlines():
        words = line.split()
        if words[0] == "ctxt":
            ctxt = int(words[1])
            continue
        reads, read_merges, sectors, _, writes, write_merges, written = map(int, words[3:10])
        if words[2].startswith(("sd", "null")):
            members.update(requests=reads + writes, bios=reads + writes + read_merges + write_merges)
        if words[2].startswith(("md0", "null")) or target is None:
            target = sectors + written
    return {**members, "sectors": target, "ctxt": ctxt}


def read(directory):
    """The cells that were counted."""
    text, functions = (directory / "text").read_text(errors="replace").split("@@ functions\n")
    named = [line.split() for line in functions.splitlines()]
    functions = sorted((int(words[0], 16), " ".join(words[2:4])) for words in named if len(words) > 2)
    # Where `handle_stripe` goes on unless it returns at once (Linux 6.12), with three instructions.
    looks = next((address + 0x45 for address, name in functions if name == "handle_stripe [raid456]"), None)
    parts = text.split("@@ cell ")[1:]
    # Before these, the speed of the host was measured.
    ours = re.compile(r"mark .* value=[23]$")
    others = sum(1 for line in open(directory / "blocks") if ours.match(line)) - 2 * len(parts)
    taken = itertools.islice(marks(directory / "blocks"), others, None)
    for part in parts:
        start, end = next(taken), next(taken)
        head, counted = part.split("\n", 1)
        before, after = (disk_counts(half) for half in counted.split("@@ after\n"))
        array, direction, size = head.split()
        yield {
            "array": array,
            "direction": direction,
            "size": size,
            **{name: after[name] - before[name] for name in after},
            "looks": (end[looks] - start[looks]) / 3,
            "functions": by_function(end - start, functions),
        }


def group(function):
    """Who executes."""
    name, _, module = function.partition(" ")
    for who, (modules, names) in GROUPS.items():
        if module.strip("[]") in modules.split() or (names and re.match(names, name)):
            return who
    return "user" if function == "user" else "rest"


def rows_of_request(level, members, chunk, size):
    """Stripes of a page a member that a request of this size goes into, in the mean of those in order."""
    row = chunk * (members - (2 if level == "6" else 1))
    period = math.lcm(size, row) // size
    stripes = 0
    for start in range(0, period * size, size):
        for begin in range(start // row * row, start + size, row):
            low, high = max(start, begin), min(start + size, begin + row)
            one = low // chunk == (high - 1) // chunk
            stripes += (high - low) // PAGE if one else chunk // PAGE
    return stripes / period


def features(cell):
    """How often the model counts each of its costs in a cell."""
    level, members, chunk = [*cell["array"].split(":"), "1", "0"][:3]
    size = int(cell["size"][:-1]) * {"K": 1 << 10, "M": 1 << 20}[cell["size"][-1]]
    count = collections.Counter()
    count[SUBMIT] = requests = cell["sectors"] * 512 / size
    count["direct_page"] = pages = cell["sectors"] * 512 / PAGE
    count["dispatch + interrupt"] = cell["requests"]
    if level in "56" and cell["direction"] == "write":
        count["md_map"] = requests * rows_of_request(level, int(members), int(chunk) << 10, size)
        count["stripe_member"] = cell["looks"] * int(members)
        count["stripe_io"] = cell["bios"]
        # The submitter's own sleep is in its request.
        count["switch"] = cell["ctxt"] / 2 - requests
        count["page copied"] = pages
        count["stripe_seek"] = pages * size / PAGE / 2
    elif level == "null":
        count["null_request"], count["null_page"] = cell["requests"], pages
    elif level != "disk":
        count["md_map"] = cell["requests"]
    return count


def solve(matrix, values):
    """Gauss and Jordan."""
    rows = [[*row, value] for row, value in zip(matrix, values)]
    for at in range(len(rows)):
        pivot = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for row in range(len(rows)):
            if row != at:
                factor = rows[row][at] / rows[at][at]
                rows[row] = [value - factor * above for value, above in zip(rows[row], rows[at])]
    return [row[-1] / row[at] for at, row in enumerate(rows)]


def fitted(names, cells):
    """Costs by least squares of the errors, relative to what a cell executed."""
    scaled = [[cell[0][name] / cell[1] for name in names] for cell in cells]
    most = [max(row[at] for row in scaled) or 1 for at in range(len(names))]
    scaled = [[value / most[at] for at, value in enumerate(row)] for row in scaled]
    size = range(len(names))
    square = [[sum(row[i] * row[j] for row in scaled) + 1e-9 * (i == j) for j in size] for i in size]
    costs = solve(square, [sum(row[i] for row in scaled) for i in size])
    return {name: cost / most[at] for at, (name, cost) in enumerate(zip(names, costs))}


def fit(title, names, cells, known=None):
    """Fits what is not known, judged by the array that was left out; prints and gives it."""
    rest = []
    for counts, executed, array in cells:
        left = executed - sum(cost * counts[name] for name, cost in (known or {}).items())
        rest.append((counts, left, executed, array))
    errors = []
    for array in {cell[3] for cell in rest}:
        costs = fitted(names, [cell for cell in rest if cell[3] != array])
        for counts, left, executed, _ in (cell for cell in rest if cell[3] == array):
            errors.append(abs(sum(cost * counts[name] for name, cost in costs.items()) - left) / executed)
    costs = fitted(names, rest)
    mean, worst = sum(errors) / len(errors), max(errors)
    print(f"\n{title}: {len(cells)} cells, held out by array: mean error {mean:.1%}, worst {worst:.1%}")
    for name, cost in costs.items():
        print(f"  {name:28}{cost:9.0f}")
    return costs


def pages_of(cells):
    """Prints when a page's instructions are executed, in reads of 256 KiB; all of these functions' are counted."""
    for cell in cells:
        if (cell["direction"], cell["size"]) != ("read", "256K"):
            continue
        pages = cell["sectors"] * 512 / PAGE
        counts = collections.Counter()
        for function, count in cell["functions"].items():
            counts[next((when for when, names in PAGES.items() if re.match(names, function)), None)] += count
        each = ", ".join(f"{when} {counts[when] / pages:.0f}" for when in PAGES)
        print(f"\n{cell['array']}, reads of 256 KiB, a page: {each}")


def main():
    program, directory, *arrays = sys.argv[1:]
    directory = pathlib.Path(directory).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if arrays:
        guest(pathlib.Path(program).resolve(), directory, arrays)
    *cells, nothing = read(directory)
    groups = [*GROUPS, "rest", "user"]
    titles = "".join(f"{name:>8}" for name in [*groups, "all"])
    print(f"{'a request to a member':29}{'requests':>9}{'bios':>9}{titles}")
    idle = sum(count for name, count in nothing["functions"].items() if group(name) != "idle")
    plain, memory, parity, copies, xors = [], [], [], [], []
    for cell in cells:
        executed = collections.Counter()
        for function, count in cell["functions"].items():
            executed[group(function)] += count
        of_it = executed.total() - executed["idle"] - idle
        each = cell["requests"] or 1
        shown = "".join(f"{executed[name] / each:8.0f}" for name in groups)
        name = f"{cell['array']} {cell['direction']} {cell['size']}"
        print(f"{name:29}{cell['requests']:9}{cell['bios']:9}{shown}{of_it / each:8.0f}")
        counts, array = features(cell), cell["array"]
        if cell["requests"] < 100:
            continue
        if array == "null":
            if cell["size"] != "1M":
                memory.append((counts, of_it, cell["direction"]))
            continue
        if counts["stripe_io"]:
            parity.append((counts, of_it - executed["copy"] - executed["xor"], array))
            copies.append((counts, executed["copy"], array))
            xors.append((array, executed["xor"] / counts["md_map"]))
        elif cell["size"] != "1M":  # A buffer of 1 MiB is one huge page, which is held at once.
            plain.append((counts, of_it, array))
    pages_of(cells)
    known = fit("Requests", [SUBMIT, "dispatch + interrupt", "md_map", "direct_page"], plain)
    if memory:
        # Its driver's part of a request is its own, and not SCSI's.
        of_request = {name: known[name] for name in [SUBMIT, "direct_page"]}
        fit("A device in memory", ["null_request", "null_page"], memory, of_request)
    if parity:
        del known["md_map"]
        fit("Copies into stripes", ["page copied", "stripe_seek"], copies)
        names = ["md_map", "stripe_member", "stripe_io", "switch"]
        fit("Writes with parity but copies and xor", names, parity, known)
        print("\nxor, a stripe: " + ", ".join(f"{array} {each:.0f}" for array, each in xors))


if __name__ == "__main__":
    main()
