#!/usr/bin/env python3
"""Flyball's simulator against SimPy: events and array I/Os a second of one core, in turns within one run.

    cargo build --release && benches/sim/run.py [ROUNDS]

Needs Python 3 with SimPy 4 (`pip install simpy`). Ours is the whole program as users run it: study, machine, trace, notebook
and report are in its time. The figures are of CPU time, user and system, of the process and its children.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FLYBALL = ROOT / "target/release/flyball"
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
TOY_SECONDS = 4


def cpu_s(command, env=None):
    """CPU seconds of a command, and what it printed."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(
            command, stdout=out, stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"{command} ended with {child.returncode}")
        out.seek(0)
        return usage.ru_utime + usage.ru_stime, out.read().decode(errors="replace")


def ours(rw):
    """CPU seconds, events and array I/Os of the study with this kind of requests."""
    with tempfile.TemporaryDirectory() as folder:
        study, notebook = Path(folder) / "array.toml", Path(folder) / "notebook"
        study.write_text((HERE / "array.toml").read_text().replace('rw = "randread"', f'rw = "{rw}"'))
        command = ["taskset", "-c", "0", FLYBALL, "run", study, "--on", "sim", "--new", "--seed", "1"]
        seconds, _ = cpu_s([str(word) for word in command], {"FLYBALL_NOTEBOOK": str(notebook)})
        events = ios = 0
        for path in notebook.glob("runs/*/trials/*/trial.json"):
            trial = json.loads(path.read_text())
            metrics = trial["measurement"]["metrics"]
            events += int(trial["environment"]["simulated events"])
            ios += metrics["iops"]["value"] * metrics["elapsed"]["value"]
    return seconds, events, ios


def toy():
    """The same of the array in SimPy."""
    command = ["taskset", "-c", "0", sys.executable, str(HERE / "raid5.py"), str(TOY_SECONDS)]
    seconds, text = cpu_s(command)
    said = json.loads(text)
    return seconds, said["events"], said["ios"]


def main():
    import simpy

    subjects = {
        "flyball, random reads": lambda: ours("randread"),
        "flyball, random writes": lambda: ours("randwrite"),
        f"SimPy {simpy.__version__}, a toy, half reads": toy,
    }
    load = os.getloadavg()[0]
    rounds = [{name: run() for name, run in subjects.items()} for _ in range(ROUNDS)]
    cpu = next(line for line in open("/proc/cpuinfo") if line.startswith("model name")).split(":")[1].strip()
    print(f"{os.cpu_count()} x {cpu}, Linux {platform.release()}; {ROUNDS} rounds, medians; load average before: {load}")
    print()
    print("| simulator | events a second | array I/Os a second | events / SimPy's | I/Os / SimPy's |")
    print("|---|---|---|---|---|")
    rates = {
        name: [statistics.median(turn[name][part] / turn[name][0] for turn in rounds) for part in (1, 2)]
        for name in subjects
    }
    base = list(rates.values())[-1]
    for name, (events, ios) in rates.items():
        print(
            f"| {name} | {events / 1e6:.2f} M | {ios / 1e3:.0f} k | {events / base[0]:.1f} | {ios / base[1]:.1f} |"
        )


main()
