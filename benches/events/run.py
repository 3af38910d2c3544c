#!/usr/bin/env python3
"""Flyball's events against `perf` and `trace-cmd`, in turns within one run: what is recorded a second without
loss, what is decoded a second, and what fio loses of its IOPS. Needs root, perf, trace-cmd, fio, losetup, zram in
the kernel, and the release build of three examples:

    cargo build --release -p recorder -p events --examples && benches/events/run.py [ROUNDS]
"""

import json
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = Path(os.environ.get("EXAMPLES", ROOT / "target/release/examples"))
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SECONDS = int(os.environ.get("SECONDS_EACH", "3"))
HELD_IOPS = 100_000
SETS = re.findall(r'"([a-z]+/[a-z_]+)"', (ROOT / "crates/domain/src/event_set.rs").read_text())
DEFAULT = [name for name in dict.fromkeys(SETS) if not name.startswith("irq/softirq")]


def run(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


# perf may be used and BPF may not; a tracefs that nobody mounted takes CAP_SYS_ADMIN.
WITHOUT_BPF = ["unshare", "--mount", "sh", "-c", "cd /sys/kernel/tracing/events 2> /dev/null || "
               "mount -t tracefs tracefs /sys/kernel/tracing; "
               'exec setpriv --bounding-set=-bpf,-sys_admin "$@"', "sh"]


def ours(folder, sets, command):
    """Records a command with events; their file."""
    sets, _, without = sets.partition(", ")
    sampled(folder, [f"--events={sets}"], command, WITHOUT_BPF if without else [])
    return folder / "spool.events"


def sampled(folder, options, command, refusing=()):
    """The example takes words with dashes for its own."""
    shell = ["sh", "-c", shlex.join(map(str, command))]
    run([*refusing, EXAMPLES / "record", *options, "10ms", "1s", folder / "spool", *shell], cwd=folder)


def perf(folder, names, command):
    """The same with perf record: all CPUs, each event, the same clock, its default buffers."""
    data = folder / "perf.data"
    events = [word for name in names for word in ("-e", name.replace("/", ":"))]
    run(["perf", "record", "-a", "-c", "1", "-R", "-k", "CLOCK_MONOTONIC", "-o", data, *events, *command], cwd=folder)
    return data


def trace_cmd(folder, names, command):
    """The same with trace-cmd: all CPUs, the same clock, its default buffers; and what it says when it ends."""
    data = folder / "trace.dat"
    events = [word for name in names for word in ("-e", name.replace("/", ":"))]
    run(["trace-cmd", "record", "-q", "-C", "mono", "-o", data, *events, *command], cwd=folder)
    return data


def without_trace_cmd(folder):
    """Why it cannot record here; `None` where it can."""
    done = subprocess.run(["trace-cmd", "record", "-q", "-o", folder / "probe.dat", "-e", "sched:sched_switch", "true"],
                          capture_output=True, text=True, cwd=folder)
    return None if done.returncode == 0 else " ".join(done.stderr.split())


def stats_of_trace_cmd(data):
    """Events in a file of trace-cmd's, and those that found no room."""
    stats = run(["trace-cmd", "report", "-i", data, "--stat"]).stdout
    counts = lambda word: sum(int(count) for count in re.findall(rf"^{word}: (\d+)", stats, re.M))
    return counts("read events") or counts("entries"), counts("overrun") + counts("dropped events")


def decode_ours(path, times=1):
    words = run([EXAMPLES / "decode", path, times]).stdout.split()
    return {name: float(value) for name, value in zip(words[::2], words[1::2])}


def decode_text(command):
    """Lines, which are events, and seconds of CPU time."""
    script = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    count = sum(chunk.count(b"\n") for chunk in iter(lambda: script.stdout.read(1 << 20), b""))
    _, status, usage = os.wait4(script.pid, 0)
    script.returncode = os.waitstatus_to_exitcode(status)
    return count, usage.ru_utime + usage.ru_stime


def stats_of_perf(data):
    """Samples in a file of perf's, and those that its LOST records tell of."""
    stats = run(["perf", "report", "-i", data, "--stats"]).stdout
    samples = re.search(r"^\s+SAMPLE events:\s+(\d+)", stats, re.M)
    raw = run(["perf", "report", "-D", "-i", data]).stdout if re.search(r"LOST(_SAMPLES)? events:\s+[1-9]", stats) else ""
    lost = sum(int(n) for n in re.findall(r"PERF_RECORD_LOST(?:_SAMPLES)?[: ].*?lost[: ]+(\d+)", raw))
    return int(samples[1]) if samples else 0, lost if not raw or lost else "some"


def recording(folder, title, sets, command, done):
    """What is recorded a second of a command, and what it then does a second by what it prints."""
    print(f"\n### Recorded a second on one core: {title}, `{sets}`\n")
    print("| recorder | events a second | lost | done a second |")
    print("|---|---|---|---|")
    names = [name for name in DEFAULT if name.startswith(f"{sets}/")]
    out = folder / "said"
    wrapped = ["sh", "-c", f"{shlex.join(map(str, command))} > {out}"]

    def flyball():
        found = decode_ours(ours(folder, sets, wrapped))
        return found["events"], int(found["lost"])

    recorders = {"nobody": lambda: (run(wrapped), (0, ""))[1], "flyball": flyball,
                 "perf record": lambda: stats_of_perf(perf(folder, names, wrapped))}
    if HAS_TRACE_CMD:
        recorders["trace-cmd record"] = lambda: stats_of_trace_cmd(trace_cmd(folder, names, wrapped))
    rows = {name: [] for name in recorders}
    for _ in range(ROUNDS):
        for name, record in recorders.items():
            events, lost = record()
            rows[name].append((events / SECONDS, lost, done(out.read_text())))
    for name, found in rows.items():
        lost = ", ".join(str(row[1]) for row in found)
        print(f"| {name} | {statistics.median(row[0] for row in found):,.0f} | {lost} "
              f"| {statistics.median(row[2] for row in found):,.0f} |")


class Zram:
    """A block device of the kernel's memory, whose bios end where they are submitted: two events each."""

    def __enter__(self):
        self.number = Path("/sys/class/zram-control/hot_add").read_text().strip()
        Path(f"/sys/block/zram{self.number}/disksize").write_text("1G")
        return f"/dev/zram{self.number}"

    def __exit__(self, *_):
        Path("/sys/class/zram-control/hot_remove").write_text(self.number)


def bios(disk):
    """Reads by one thread on one CPU, as many as it can."""
    return ["fio", "--name=bios", f"--filename={disk}", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=io_uring",
            "--iodepth=64", "--iodepth_batch_submit=32", "--iodepth_batch_complete_min=32", "--time_based",
            "--gtod_reduce=1", "--norandommap", "--cpus_allowed=0", f"--runtime={SECONDS}", "--output-format=json"]


def yields(text):
    return int(re.search(r"yields (\d+)", text)[1]) / SECONDS


def decoding(folder, disk):
    print("\n### Decoded a second of CPU time: a recording of fio, the default set\n")
    print("| decoder | events | events a second |")
    print("|---|---|---|")
    job = fio(disk, None, folder / "fio.json")
    ours_file, perf_file = ours(folder, "default", job), perf(folder, DEFAULT, job)
    texts = {"perf script": ["perf", "script", "-i", perf_file]}
    if HAS_TRACE_CMD:
        texts["trace-cmd report"] = ["trace-cmd", "report", "-i", trace_cmd(folder, DEFAULT, job)]
    rows = {name: [] for name in ["flyball, typed events", "flyball, facts", *texts]}
    for _ in range(ROUNDS):
        found = decode_ours(ours_file, 10)
        rows["flyball, typed events"].append((found["events"], found["events"] / found["decode_s"]))
        rows["flyball, facts"].append((found["events"], found["events"] / found["facts_s"]))
        for name, command in texts.items():
            count, seconds = decode_text(command)
            rows[name].append((count, count / seconds))
    for name, found in rows.items():
        events = found[0][0] / (10 if name.startswith("flyball") else 1)
        print(f"| {name} | {events:,.0f} | {statistics.median(row[1] for row in found):,.0f} |")


def fio(disk, held, out):
    job = ["fio", "--name=read", f"--filename={disk}", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio",
           "--iodepth=32", "--iodepth_batch_submit=8", "--iodepth_batch_complete_max=32", "--time_based",
           f"--runtime={SECONDS}", "--output-format=json", f"--output={out}"]
    return job + ([f"--rate_iops={held}"] if held else [])


def iops(out):
    read = json.loads(out.read_text())["jobs"][0]
    return read["read"]["iops"], read["usr_cpu"] + read["sys_cpu"]


def overhead(folder, disk, held):
    kind = f"held at {held:,} IOPS" if held else "as fast as it can"
    print(f"\n### fio, random reads of 4 KiB from a loop device in memory, {kind}\n")
    print("| recorder | IOPS | of nobody's | fio's CPU | events a second | lost |")
    print("|---|---|---|---|---|---|")
    out = folder / "fio.json"
    job = fio(disk, held, out)
    names = ["nobody", "samples alone", "profile", "in-passing, without BPF", "in-passing",
             "power,sched,work,timer,lock", "default", "all"]
    others = ["perf record, profile", "perf record, default", *(["trace-cmd, default"] if HAS_TRACE_CMD else [])]
    rows = {name: [] for name in [*names, *others]}
    for _ in range(ROUNDS):
        for name in rows:
            events, lost = 0, ""
            if name == "nobody":
                run(job)
            elif name == "samples alone":
                sampled(folder, [], job)
            elif name == "perf record, profile":
                run(["perf", "record", "-a", "-q", "-g", "-e", "cpu-clock", "-c", "1003021", "-o", folder / "perf.data", *job],
                    cwd=folder)
            elif name.startswith("trace-cmd"):
                count, lost = stats_of_trace_cmd(trace_cmd(folder, DEFAULT, job))
                events = count / SECONDS
            elif name.startswith("perf"):
                count, lost = stats_of_perf(perf(folder, DEFAULT, job))
                events = count / SECONDS
            else:
                found = decode_ours(ours(folder, name, job))
                events, lost = found["events"] / SECONDS, int(found["lost"])
            rows[name].append((*iops(out), events, lost))
    base = statistics.median(row[0] for row in rows["nobody"])
    for name, found in rows.items():
        middle = [statistics.median(row[at] for row in found) for at in range(3)]
        lost = ", ".join(str(row[3]) for row in found)
        print(f"| {name} | {middle[0]:,.0f} | {100 * middle[0] / base:.1f}% | {middle[1]:.0f}% | {middle[2]:,.0f} | {lost} |")


def main():
    for program in ["perf", "trace-cmd", "fio", "losetup"]:
        if not shutil.which(program):
            sys.exit(f"{program} is missing")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        image = folder / "disk"
        image.write_bytes(b"")
        os.truncate(image, 256 << 20)
        disk = run(["losetup", "--find", "--show", "--direct-io=off", image]).stdout.strip()
        try:
            run(["dd", "if=/dev/zero", f"of={disk}", "bs=1M", "count=256", "oflag=direct"])
            model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
            version = run(["perf", "--version"]).stdout.strip()
            print(f"{os.cpu_count()} × {model[1] if model else platform.machine()}, Linux {platform.release()}, {version}, "
                  f"{run(['fio', '--version']).stdout.strip()}; {ROUNDS} rounds of {SECONDS} s, medians; "
                  f"load average before: {os.getloadavg()[0]:.2f}")
            global HAS_TRACE_CMD
            why = without_trace_cmd(folder)
            HAS_TRACE_CMD = why is None
            if why:
                print(f"\nWithout trace-cmd, which cannot record here: {why}")
            load = [EXAMPLES / "yield", SECONDS, 0]
            recording(folder, "two threads that yield to each other", "sched", load, yields)
            with Zram() as memory:
                said = lambda text: json.loads(text)["jobs"][0]["read"]["iops"]
                recording(folder, "random reads of 4 KiB from memory (zram)", "block", bios(memory), said)
            decoding(folder, disk)
            for held in [HELD_IOPS, None]:
                overhead(folder, disk, held)
        finally:
            run(["losetup", "--detach", disk])


if __name__ == "__main__":
    main()
