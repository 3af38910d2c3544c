#!/usr/bin/env python3
"""Flyball's recorder against sadc and `pidstat -t`: CPU milliseconds a sample, user and system, of the whole
process tree, in turns within one run. Needs sysstat, a C compiler, and the release build of two examples:

    cargo build --release -p recorder --examples && benches/recorder/run.py [ROUNDS]
"""

import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "target/release/examples"
SADC = shutil.which("sadc") or "/usr/lib/sysstat/sadc"
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SECONDS = 5
LOAD_THREADS = 100
MANY_THREADS = 10_000
MANY_SECONDS = 20


def tree_cpu_s(command, env=None):
    """CPU seconds of a command and all that it waited for, and what it printed."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, env={**os.environ, **(env or {})})
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"{command} ended with {child.returncode}")
        out.seek(0)
        return usage.ru_utime + usage.ru_stime, out.read().decode(errors="replace")


def ours(folder, rate, *options):
    spool = folder / "spool"
    command = [EXAMPLES / "record", *options, f"{1_000_000 // rate}us", f"{SECONDS}s", spool]
    cpu, text = tree_cpu_s([str(word) for word in command])
    samples, missed = map(int, re.search(r"samples (\d+) missed (\d+)", text).groups())
    return {"ms": cpu * 1e3 / samples, "missed": missed, "bytes": spool.stat().st_size / samples}


def fast(folder, rate):
    return {"LD_PRELOAD": str(folder / "fast_alarm.so"), "FAST_ALARM_US": str(1_000_000 // rate), "LC_ALL": "C"}


def sadc(folder, rate):
    """sadc with its disks, for ours has them: -S DISK."""
    data = folder / "sa"
    data.unlink(missing_ok=True)
    count = rate * SECONDS
    cpu, _ = tree_cpu_s([SADC, "-S", "DISK", "1", str(count), str(data)], fast(folder, rate))
    return {"ms": cpu * 1e3 / count, "bytes": data.stat().st_size / count}


def pidstat(folder, rate):
    count = rate * SECONDS
    started = time.monotonic()
    cpu, text = tree_cpu_s(["pidstat", "-t", "1", str(count)], fast(folder, rate))
    return {"ms": cpu * 1e3 / count, "rate": count / (time.monotonic() - started), "bytes": len(text) / count}


class Load:
    """Keeps threads alive while it is used."""

    def __init__(self, threads, processes):
        self.command = [str(EXAMPLES / "threads"), str(threads), str(processes)]

    def __enter__(self):
        self.child = subprocess.Popen(self.command, stdin=subprocess.PIPE)
        time.sleep(2)

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait()


def side_by_side(folder, rate, processes):
    tools = {
        "flyball, system only": lambda: ours(folder, rate, "--system"),
        "flyball, all": lambda: ours(folder, rate),
        "sadc -S DISK": lambda: sadc(folder, rate),
        "pidstat -t": lambda: pidstat(folder, rate),
    }
    results = {name: [] for name in tools}
    for _ in range(ROUNDS):
        for name, run in tools.items():
            results[name].append(run())
    middle = {name: statistics.median(r["ms"] for r in rows) for name, rows in results.items()}
    print(f"\n### {rate} Hz, {LOAD_THREADS} threads of a load, in {processes} processes, besides the machine's own\n")
    print("| tool | CPU ms a sample | range | bytes a sample | sadc / it | pidstat / it |")
    print("|---|---|---|---|---|---|")
    for name, rows in results.items():
        values = [row["ms"] for row in rows]
        size = statistics.median(row["bytes"] for row in rows)
        ratios = [middle["sadc -S DISK"] / middle[name], middle["pidstat -t"] / middle[name]]
        print(f"| {name} | {middle[name]:.3f} | {min(values):.3f}–{max(values):.3f} | {size:.0f} "
              f"| {ratios[0]:.1f} | {ratios[1]:.1f} |")
    reached = statistics.median(row["rate"] for row in results["pidstat -t"])
    missed = sum(row["missed"] for name in list(tools)[:2] for row in results[name])
    print(f"\npidstat reached {reached:.0f} Hz; flyball missed {missed} rows in all rounds.")


def fastest(folder):
    rows = [ours(folder, 1000, "--system") for _ in range(ROUNDS)]
    # Milliseconds a sample, a thousand samples a second: the share of a core, in percent, is 100 times that.
    share = [row["ms"] * 100 for row in rows]
    print("\n### 1 kHz, system only\n")
    print(f"{statistics.median(share):.2f}% of a core ({min(share):.2f}–{max(share):.2f}), "
          f"{sum(row['missed'] for row in rows)} of {ROUNDS * SECONDS * 1000} rows missed.")


def many(folder, processes):
    """Following alone: the sampler's own clock from the first row to the last, without the start."""
    shares, starts = [], []
    with Load(MANY_THREADS, processes):
        for _ in range(max(1, ROUNDS // 2)):
            command = [str(EXAMPLES / "record"), "--trace", "1s", f"{MANY_SECONDS}s", str(folder / "spool")]
            _, text = tree_cpu_s(command)
            rows = [line.split(",") for line in text.splitlines()[1:]]
            first, last = rows[1], rows[-2]
            shares.append((int(last[-1]) - int(first[-1])) / (int(last[0]) - int(first[0])) * 100)
            starts.append(int(rows[1][-1]) / 1e6)
    print(f"\n### {MANY_THREADS} threads in {processes} process(es) at 1 Hz\n")
    print(f"{statistics.median(shares):.2f}% of a core ({min(shares):.2f}–{max(shares):.2f}); "
          f"finding and opening them at the start took {statistics.median(starts):.0f} ms once.")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = Path(__file__).with_name("fast_alarm.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "fast_alarm.so", source], check=True)
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        version = subprocess.run([SADC, "-V"], capture_output=True, text=True).stdout.split("\n")[0]
        print(f"{os.cpu_count()} × {model[1] if model else platform.machine()}, Linux {platform.release()}, "
              f"{version}; {ROUNDS} rounds of {SECONDS} s, medians; load average before: {os.getloadavg()[0]:.2f}")
        # Ours reads one clock a process: the more processes, the more work.
        for processes in [10, LOAD_THREADS]:
            with Load(LOAD_THREADS, processes):
                side_by_side(folder, 100, processes)
        fastest(folder)
        many(folder, 1)
        many(folder, 1000)


if __name__ == "__main__":
    main()
