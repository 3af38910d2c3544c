#!/usr/bin/env python3
"""Flyball's import against Python's json, orjson and sadf: MB/s of one core, in turns within one run. Needs sysstat, fio and
python3-orjson, and the release build of an example:

    cargo build --release -p parse --example import && benches/import/run.py [MEGABYTES [ROUNDS]]

sadf turns the binary file into that JSON, which is the other half of the same work; its rate is of the JSON that it prints.
"""

import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "target/release/examples/import"
SADC = shutil.which("sadc") or "/usr/lib/sysstat/sadc"
MEGABYTES = int(sys.argv[1]) if len(sys.argv) > 1 else 200
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5

READERS = {
    "Python json": "import json,sys; json.load(open(sys.argv[1]))",
    "orjson": "import orjson,sys; orjson.loads(open(sys.argv[1],'rb').read())",
}


def sadf_day(folder):
    """sadf -j of a real sample, again and again with the clock moved on."""
    data = folder / "sa"
    subprocess.run([SADC, "-S", "ALL", "1", "2", str(data)], check=True)
    text = subprocess.run(["sadf", "-j", str(data), "--", "-A"], check=True, capture_output=True, text=True).stdout
    host = json.loads(text)["sysstat"]["hosts"][0]
    start = text.index("{", text.index('"statistics": ['))
    depth, end = 0, start
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            break
    sample = text[start : end + 1]
    stamp = re.search(r'"time": "[0-9:]+"', sample).group(0)
    assert host["statistics"]
    out = folder / "sadf.json"
    count = MEGABYTES * 1_000_000 // len(sample)
    with open(out, "w") as f:
        f.write(text[:start])
        for second in range(count):
            clock = f'"time": "{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"'
            f.write(("" if second == 0 else ",\n\t\t\t\t") + sample.replace(stamp, clock))
        f.write("\n\t\t\t]\n\t\t}\n\t]\n}}\n")
    return out, data


def fio_report(folder):
    """fio's json+ of a real job, again and again under other names."""
    target = folder / "target"
    command = ["fio", "--name=job", f"--filename={target}", "--size=32m", "--rw=randrw", "--bs=4k", "--ioengine=psync"]
    command += ["--time_based", "--runtime=2", "--output-format=json+"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report = json.loads(text[text.index("{") :])
    # Indented as fio has it.
    job = textwrap.indent(json.dumps(report["jobs"][0], indent=2), "    ")
    out = folder / "fio.json"
    with open(out, "w") as f:
        f.write('{\n  "fio version" : "%s",\n  "jobs" : [\n' % report["fio version"])
        for number in range(MEGABYTES * 1_000_000 // len(job)):
            f.write(("" if number == 0 else ",\n") + job.replace('"jobname": "job"', f'"jobname": "job{number % 1000}"'))
        f.write("\n  ]\n}\n")
    return out


def cpu_of(command, **options):
    """CPU seconds and the most memory in MB of a command."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options)
    size = 0
    while chunk := child.stdout.read(1 << 20):
        size += len(chunk)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{command} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3, size


def compare(what, path):
    size = path.stat().st_size / 1e6
    figures = {}
    for _ in range(ROUNDS):
        for name, command in [("flyball, one reading", [str(OURS), str(path)])] + [
            (name, [sys.executable, "-c", code, str(path)]) for name, code in READERS.items()
        ]:
            cpu, memory, _ = cpu_of(command)
            figures.setdefault(name, []).append((size / cpu, memory))
    print(f"\n{what}: {size:.0f} MB, {ROUNDS} rounds, CPU time of the whole process")
    ours = statistics.median(rate for rate, _ in figures["flyball, one reading"])
    for name, values in figures.items():
        rates = sorted(rate for rate, _ in values)
        middle = statistics.median(rates)
        memory = max(memory for _, memory in values)
        print(f"  {name:22} {middle:7.0f} MB/s ({rates[0]:.0f} to {rates[-1]:.0f}), {memory:6.0f} MB of memory, ours is {ours / middle:.2f} times as fast")


def main():
    print(platform.platform(), platform.processor(), os.cpu_count(), "CPUs", time.strftime("%F"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, data = sadf_day(folder)
        compare("sadf -j -A", path)
        cpu, _, size = 0.0, 0, 0
        for _ in range(50):
            one, _, printed = cpu_of(["sadf", "-j", str(data), "--", "-A"])
            cpu, size = cpu + one, size + printed
        print(f"  sadf, printing it      {size / 1e6 / cpu:7.0f} MB/s (of a file of two samples, its start included)")
        compare("fio json+", fio_report(folder))


main()
