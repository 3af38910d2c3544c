#!/usr/bin/env python3
"""What `flyball watch` costs: CPU time by thread over so many seconds at ten frames a second, the time to the
first frame and to the first figures, and the bytes that are sent to the terminal.

    benches/watch/run.py [SECONDS] [-- COMMAND]

Needs target/release/flyball and Python 3. CPU time is /proc/PID/task/TID/schedstat; the terminal is a pair of
pseudo-terminals of 80 columns and 24 rows that this program reads.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import tempfile
import termios
import time

PROGRAM = os.environ.get("FLYBALL", "target/release/flyball")


def cpu_ns(pid):
    """CPU time by the threads' names; those that ended are not in it."""
    spent = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        base = f"/proc/{pid}/task/{task}"
        with open(f"{base}/comm") as comm, open(f"{base}/schedstat") as times:
            name = comm.read().strip()
            spent[name] = spent.get(name, 0) + int(times.read().split()[0])
    return spent


def read_for(terminal, seconds, until=None):
    """The bytes of so many seconds, or of the time until these are among them."""
    end, taken = time.monotonic() + seconds, b""
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                taken += os.read(terminal, 1 << 16)
            except OSError:
                # Nobody has the other side any more.
                break
            if until and until in taken:
                break
    return taken


def main():
    words = sys.argv[1:]
    command = words[words.index("--"):] if "--" in words else []
    seconds = float(words[0]) if words and words[0] != "--" else 30.0
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(FLYBALL_NOTEBOOK=f"{folder}/n", FLYBALL_STATE=f"{folder}/s", FLYBALL_RUN=folder)
            os.environ.update(LC_ALL="C.UTF-8", TERM="xterm-256color")
            os.execv(PROGRAM, [PROGRAM, "watch", *command])
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        read_for(terminal, 60, b"Waits")
        frame = time.monotonic() - begun
        read_for(terminal, 60, b"other")
        figures = time.monotonic() - begun
        read_for(terminal, 2)
        before = cpu_ns(pid)
        sent = len(read_for(terminal, seconds))
        after = cpu_ns(pid)
        os.write(terminal, b"q")
        read_for(terminal, 2)
        os.waitpid(pid, 0)
    print(f"first frame {frame * 1e3:.0f} ms, first figures {figures * 1e3:.0f} ms, {sent / seconds:.0f} bytes a second")
    total = 0
    for name in sorted(after):
        spent = after[name] - before.get(name, 0)
        total += spent
        print(f"  {name:16} {spent / 1e6:8.1f} ms  {spent / 1e7 / seconds:.2f}% of a core")
    print(f"  {'together':16} {total / 1e6:8.1f} ms  {total / 1e7 / seconds:.2f}% of a core, over {seconds:.0f} s")


if __name__ == "__main__":
    main()
