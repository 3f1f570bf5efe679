"""How soon the screen is there: ``python -m tests.bench.start [--rounds 20]``.

The program runs on a pseudo-terminal of 120x40. First data: from ``exec`` until the terminal has received a figure.
Keys: ``?`` is typed at once, until its help is on the screen. CPU: user and system time of the process until then.
Minimum and median of the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import statistics
import struct
import sys
import termios
import time
from typing import NamedTuple

from tests.bench.cost import ESCAPE, HEIGHT, OURS, PROGRAMS, WIDTH, program_environment

HELP = re.compile(rb"help")
LIMIT_S = 30.0


class Start(NamedTuple):
    """Milliseconds after ``exec``. cpu_ms: of the process, until the keys answer."""

    data_ms: float
    keys_ms: float
    cpu_ms: float


def begin(argv: list[str]) -> Start:
    """Start the screen once, until its help answers."""
    shows = re.compile(next(program.shows for program in PROGRAMS if program.name == OURS))
    pid, terminal = pty.fork()
    if pid == 0:
        environment = program_environment() | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        os.execvpe(argv[0], argv, environment)
    start = time.monotonic()
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        raw, data_ms = b"", 0.0
        while time.monotonic() < start + LIMIT_S:
            if not select.select([terminal], [], [], 0.05)[0]:
                continue
            raw += os.read(terminal, 1 << 16)
            text = ESCAPE.sub(b"", raw)
            if not data_ms and shows.search(text):
                data_ms = (time.monotonic() - start) * 1000
                os.write(terminal, b"?")
                seen = len(raw)
            elif data_ms and HELP.search(ESCAPE.sub(b"", raw[seen:])):
                return Start(data_ms, (time.monotonic() - start) * 1000, _cpu_ms(pid))
        raise RuntimeError(f"no answer within {LIMIT_S} s: {ESCAPE.sub(b'', raw)[-300:]!r}")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with contextlib.suppress(OSError):
            os.close(terminal)


def _cpu_ms(pid: int) -> float:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    argv = [sys.executable, "-m", "iotop_ai", "-d", "1"]
    begin(argv)  # the first one compiles and fills the page cache
    found = [begin(argv) for _ in range(args.rounds)]
    for name, values in zip(Start._fields, zip(*found, strict=True), strict=True):
        print(f"{name:<8} {min(values):7.1f} ({statistics.median(values):.1f})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
