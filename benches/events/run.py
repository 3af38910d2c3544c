#!/usr/bin/env python3
"""Flyball's events against `perf record` and `perf script`, in turns within one run: what is recorded a second
without loss, what is decoded a second, and what fio loses of its IOPS. Needs root, perf, fio, losetup, and the
release build of three examples:

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
SETS = re.findall(r'"([a-z]+/[a-z_]+)"', (ROOT / "crates/events/src/set.rs").read_text())
DEFAULT = [name for name in dict.fromkeys(SETS) if not name.startswith("irq/")]


def run(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


def ours(folder, sets, command):
    """Records a command with events; their file."""
    sampled(folder, [f"--events={sets}"], command)
    return folder / "spool.events"


def sampled(folder, options, command):
    """The example takes words with dashes for its own."""
    shell = ["sh", "-c", shlex.join(map(str, command))]
    run([EXAMPLES / "record", *options, "10ms", "1s", folder / "spool", *shell], cwd=folder)


def perf(folder, names, command):
    """The same with perf record: all CPUs, each event, the same clock, its default buffers."""
    data = folder / "perf.data"
    events = [word for name in names for word in ("-e", name.replace("/", ":"))]
    run(["perf", "record", "-a", "-c", "1", "-R", "-k", "CLOCK_MONOTONIC", "-o", data, *events, *command], cwd=folder)
    return data


def decode_ours(path, times=1):
    words = run([EXAMPLES / "decode", path, times]).stdout.split()
    return {name: float(value) for name, value in zip(words[::2], words[1::2])}


def decode_perf(data):
    """Lines, which are events, and seconds of CPU time."""
    script = subprocess.Popen(["perf", "script", "-i", data], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
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


def recording(folder):
    print("\n### Recorded a second on one core: two threads that yield to each other, `sched`\n")
    print("| recorder | events a second | lost | yields a second |")
    print("|---|---|---|---|")
    load = [EXAMPLES / "yield", SECONDS, 0]
    rows = {"nobody": [], "flyball": [], "perf record": []}
    for _ in range(ROUNDS):
        text = run(load).stdout
        rows["nobody"].append((0, "", yields(text)))
        out = folder / "yields"
        wrapped = ["sh", "-c", f"{' '.join(map(str, load))} > {out}"]
        found = decode_ours(ours(folder, "sched", wrapped))
        rows["flyball"].append((found["events"] / SECONDS, int(found["lost"]), yields(out.read_text())))
        count, lost = stats_of_perf(perf(folder, [n for n in DEFAULT if n.startswith("sched/")], wrapped))
        rows["perf record"].append((count / SECONDS, lost, yields(out.read_text())))
    for name, found in rows.items():
        lost = ", ".join(str(row[1]) for row in found)
        print(f"| {name} | {statistics.median(row[0] for row in found):,.0f} | {lost} "
              f"| {statistics.median(row[2] for row in found):,.0f} |")


def yields(text):
    return int(re.search(r"yields (\d+)", text)[1]) / SECONDS


def decoding(folder, disk):
    print("\n### Decoded a second of CPU time: a recording of fio, the default set\n")
    print("| decoder | events | events a second |")
    print("|---|---|---|")
    job = fio(disk, None, folder / "fio.json")
    ours_file, perf_file = ours(folder, "default", job), perf(folder, DEFAULT, job)
    rows = {"flyball, typed events": [], "flyball, facts": [], "perf script": []}
    for _ in range(ROUNDS):
        found = decode_ours(ours_file, 10)
        rows["flyball, typed events"].append((found["events"], found["events"] / found["decode_s"]))
        rows["flyball, facts"].append((found["events"], found["events"] / found["facts_s"]))
        count, seconds = decode_perf(perf_file)
        rows["perf script"].append((count, count / seconds))
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
    names = ["nobody", "samples alone", "profile", "in-passing", "power,sched,work,timer,lock", "default", "all"]
    rows = {name: [] for name in [*names, "perf record, profile", "perf record, default"]}
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
    for program in ["perf", "fio", "losetup"]:
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
            recording(folder)
            decoding(folder, disk)
            for held in [HELD_IOPS, None]:
                overhead(folder, disk, held)
        finally:
            run(["losetup", "--detach", disk])


if __name__ == "__main__":
    main()
