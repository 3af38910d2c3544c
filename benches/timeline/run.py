#!/usr/bin/env python3
"""A timeline of many events: how long its page takes to write, how large it is, and how long a frame takes in
Chromium, from the whole recording down to a microsecond. Needs root, Chromium, and the release build:

    cargo build --release -p flyball && cargo build --release -p recorder --examples && benches/timeline/run.py [SECONDS]

SECONDS are those of two threads that yield to each other, which makes a quarter of a million events a second.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLYBALL = Path(os.environ.get("FLYBALL", ROOT / "target/release/flyball"))
YIELD = ROOT / "target/release/examples/yield"
HARNESS = ROOT / "crates/flyball/tests/browser/timeline.html"
SECONDS = sys.argv[1] if len(sys.argv) > 1 else "20"


def run(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


def browser():
    names = ["chromium", "chromium-browser", "google-chrome"]
    return next((found for found in map(shutil.which, names) if found), None) or sys.exit("Chromium is not installed")


def looked_at(folder):
    """What the harness says. A browser that dumps its page runs on a clock of its own, so this one is ended."""
    options = ["--headless", "--disable-gpu", "--no-sandbox", "--allow-file-access-from-files",
               "--enable-logging=stderr", "--remote-debugging-port=0", f"--user-data-dir={folder}/profile"]
    command = [browser(), *options, f"file://{folder}/frame.html"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as chromium:
        try:
            for line in chromium.stderr:
                if found := re.search(r'"found: (.*)", source:', line):
                    return found[1].split(" | ")
        finally:
            chromium.terminate()
    return ["Chromium ended before it had looked at the page"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        notebook = ["--notebook", folder / "notebook"]
        # The harness looks for what a recording of fio has: a load of that name.
        load = folder / "fio"
        shutil.copy(YIELD, load)
        told = run([FLYBALL, *notebook, "record", "--events=sched", "--", load, SECONDS, "0"], cwd=folder)
        page = folder / "page.html"
        begun = time.monotonic()
        wide = ["--trace", "b00.recorded.a0", "--format", "timeline", "--out", page]
        run([FLYBALL, *notebook, "export", "recording-fio", *wide], cwd=folder)
        wrote = time.monotonic() - begun
        text = HARNESS.read_text().replace("PAGE", "page.html")
        (folder / "frame.html").write_text(text)
        lines = looked_at(folder)
        counts = re.search(r"([\d,]+) (?:events|recorded)", told.stdout + told.stderr)
        version = run([browser(), "--version"]).stdout.strip()
        print(f"{os.cpu_count()} CPUs, Linux {platform.release()}, {version}, {SECONDS} s")
        print(f"events: {counts[1] if counts else 'see flyball show'}; written in {wrote:.1f} s; "
              f"{page.stat().st_size / 1e6:.1f} MB")
        print("\n".join(lines))


main()
