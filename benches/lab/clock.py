#!/usr/bin/env python3
"""Does it matter how many times slower a lab machine is than the machine that it stands for?

    benches/lab/clock.py target/release/flyball DIRECTORY [DILATION...]

One machine (40 million instructions a second at its highest frequency) stands for itself, and is then run at
each DILATION (4 and 16) more slowly: once with the guest's times stretched, once with its clock slowed
(`clock = "slowed"`, docs/study-format/lab.md). The load is an encrypted read after the other of memory that
answers after 10 ms, under two drivers. Printed are throughput over that of `performance` with the same
driver, the share of the time in each P-state and the mean frequency: none of it should depend on the dilation.

Studies, tables and results are kept in DIRECTORY. Needs Python and a quiet host; half an hour.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = ROOT / "studies/machines/pstates"
PACE = 40e6
ANSWER_NS = 10_000_000

STUDY = """
flyball = 1
name = "{name}"
question = "Does what a governor costs depend on the time dilation?"
primary = "policy"

[stack.disk]
kind = "devices"
null_blk = "1GiB"
attributes = "irqmode=2 completion_nsec={answer}"

[stack.vault]
kind = "crypt"
on = "disk"
type = "plain"
cipher = "aes-cbc-essiv:sha256"
key_size = 256

[workload.read]
tool = "fio"
options = {{ rw = "read", bs = "2k", ioengine = "psync", direct = true, time_based = true, runtime = "2s" }}

[factor.policy]
{levels}

[lab]
vcpus = 1
pstates = "acpi.toml"
dilation = {dilation}
clock = "{clock}"

[measure]
metric = "throughput"
repeats = 2
retries = 3
settle = "100ms"
interval = "1s"
timeout = "30s"
"""

# Name, table, settings; the first of each table is what the others are compared with.
POLICIES = [
    ("acpi-performance", "acpi", 'governor = "performance"'),
    ("acpi-ondemand", "acpi", 'governor = "ondemand", "ondemand.sampling_rate" = 20000'),
    ("acpi-schedutil", "acpi", 'governor = "schedutil"'),
    ("pstate-performance", "pstate", 'governor = "performance"'),
    ("pstate-powersave", "pstate", 'governor = "powersave"'),
]


def table(name, dilation):
    """A shipped table at the pace of a machine so many times slower."""
    text = (TABLES / name).read_text()
    text = re.sub(r"(?m)^stands_for = .*$", "", text)
    return re.sub(r"(?m)^pace = .*$", f"pace = {PACE / dilation}", text)


def run(flyball, directory, dilation, clock):
    """Runs the study so slowly with this clock; gives throughput and shares of P-states by policy."""
    name = f"clock-{dilation:g}-{clock}"
    folder = directory / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "acpi.toml").write_text(table("server-8.toml", dilation))
    (folder / "pstate.toml").write_text(table("i7-6700t-pstate.toml", dilation))
    levels = "\n".join(
        f'[[factor.policy.level]]\nname = "{level}"\npstates = "{of}.toml"\nsettings = {{ {settings} }}'
        for level, of, settings in POLICIES
    )
    # A device that the kernel emulates answers by the guest's clock, which nothing else stretches.
    answer = int(ANSWER_NS * (dilation if clock == "host" else 1))
    study = folder / "study.toml"
    study.write_text(STUDY.format(name=name, answer=answer, levels=levels, dilation=dilation, clock=clock))
    notebook = ["--notebook", str(directory / "notebook")]
    measure = [flyball, "lab", "run", str(study), "--seed", "1", "--new", *notebook]
    subprocess.run(measure, check=True, stdout=sys.stderr)
    show = [flyball, "show", name, "--json", *notebook]
    shown = json.loads(subprocess.run(show, check=True, stdout=subprocess.PIPE).stdout)
    states = {one["cell"]: dict(map(tuple, one["states"])) for one in shown["lab"]["time_in_state"]}
    cells = {cell["levels"]["policy"]: (cell["median"], states[cell["cell"]]) for cell in shown["cells"]}
    return cells, shown["lab"]["cpu_late"]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    flyball, directory = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    dilations = [float(word) for word in sys.argv[3:]] or [4.0, 16.0]
    runs = [(1.0, "host")] + [(dilation, clock) for dilation in dilations for clock in ("host", "slowed")]
    results = {one: run(flyball, directory, *one) for one in reversed(runs)}
    first = {of: next(level for level, its, _ in POLICIES if its == of) for _, of, _ in POLICIES}
    base, _ = results[runs[0]]
    print(f"{'':20}" + "".join(f"{'x%g ' % dilation + clock:>18}" for dilation, clock in runs))
    for level, of, _ in POLICIES:
        row = f"{level:20}"
        for one in runs:
            result, _ = results[one]
            over = result[level][0] / result[first[of]][0]
            was = base[level][0] / base[first[of]][0]
            row += f"{over:9.3f} {100 * (over / was - 1):+7.1f}%"
        print(row)
    print("\nthroughput of `performance`, kB/s")
    for level in first.values():
        print(f"{level:20}" + "".join(f"{results[one][0][level][0] / 1e3:18.1f}" for one in runs))
    print("\nthe share of a P-state that is furthest from that without a dilation, in points")
    for level, _, _ in POLICIES:
        row = f"{level:20}"
        for one in runs:
            now, was = results[one][0][level][1], base[level][1]
            off = max(abs(now.get(state, 0) - was.get(state, 0)) for state in now.keys() | was.keys())
            row += f"{100 * off:18.1f}"
        print(row)
    print("\nmean frequency, MHz")
    for level, _, _ in POLICIES:
        means = [sum(hz * share for hz, share in results[one][0][level][1].items()) / 1e6 for one in runs]
        print(f"{level:20}" + "".join(f"{mean:18.0f}" for mean in means))
    print("\nvirtual CPUs late, median and most, in percent")
    late = ["%.1f, %.1f" % tuple(100 * late for late in results[one][1]) for one in runs]
    print(f"{'':20}" + "".join(f"{one:>18}" for one in late))


if __name__ == "__main__":
    main()
