"""Measures the time until the screen is usable: ``python -m tests.bench.start [--rounds 20] [--stages] [--write]``.

The program runs on a pseudo-terminal of 120x40. "First data" is the time from ``exec`` until the terminal has received
a figure. "Keys": ``?`` is typed then, and the time ends when the help is on the screen. "CPU" is the user and system
time of the process until then. The minimum and the median of the rounds are printed. ``--stages`` instead counts the
instructions and the memory of each stage of a start, which other load does not change; it needs valgrind. ``--write``
puts these counts into docs/cost.md.
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
import subprocess
import sys
import tempfile
import termios
import time
from itertools import pairwise
from typing import NamedTuple

from tests.bench.cost import DOCUMENT, ESCAPE, HEIGHT, WIDTH, program_environment
from tests.bench.peers import machine, markdown, need
from tests.bench.programs import OURS, PROGRAMS
from tests.pages import put_section

HELP = re.compile(rb"help")
LIMIT_S = 30.0


HEADING = "## What a start loads"
FRAME_IMPORTS = (
    "from iotop_ai.cli.main import plain_flags; "
    "import iotop_ai.cli.commands.monitor.command, iotop_ai.sources.live.source"
)
SWEEP_CODE = (
    "from iotop_ai.model.settings import Settings; from iotop_ai.pipeline import unjudged_frame; "
    "from iotop_ai.present.screen.layout import screen_rows; from iotop_ai.present.screen.view import View; "
    "source = iotop_ai.sources.live.source.LiveSource(Settings(smart=False), quick_start=True); stream = iter(source); "
    "rows = screen_rows(120, 40, unjudged_frame(next(stream)), View())"
)
SCREEN_IMPORTS = (
    "from iotop_ai.cli.start.without_ssl import ssl_hidden\n"
    "with ssl_hidden():\n"
    "    import iotop_ai.tui.app, iotop_ai.tui.textual_internals.driver, iotop_ai.diagnosis.engine\n"
    "    import iotop_ai.cli.commands.monitor.session_recording"
)
LAST_HOUR_IMPORTS = "import iotop_ai.store.last_hour"
STAGES = (
    ("Python itself", ()),
    ("+ what the first frame imports", (FRAME_IMPORTS,)),
    ("+ the first sweep and its frame", (FRAME_IMPORTS, SWEEP_CODE)),
    ("+ Textual, our screen and the rules", (FRAME_IMPORTS, SWEEP_CODE, SCREEN_IMPORTS)),
    (
        "+ what keeps the last hour (after the second Frame)",
        (FRAME_IMPORTS, SWEEP_CODE, SCREEN_IMPORTS, LAST_HOUR_IMPORTS),
    ),
)
_COLLECTED = re.compile(r"Collected\s*:\s*(\d+)")
_PEAK = "\nprint(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], flush=True)\nimport os; os._exit(0)"


class Stage(NamedTuple):
    """A stage of the start: the instructions in user space and the peak memory in MB from ``exec`` to its end."""

    name: str
    instructions: int
    peak_mb: float


def stages() -> list[Stage]:
    """Return the stages of a start, each measured in a separate process. Raises RuntimeError when valgrind fails."""
    out = []
    with tempfile.TemporaryDirectory(prefix="start-") as cache:
        environment = program_environment() | {"PYTHONPYCACHEPREFIX": cache, "PYTHONHASHSEED": "0"}
        for name, steps in STAGES:
            command = [sys.executable, "-c", "import gc; gc.disable()\n" + "\n".join(steps) + _PEAK]
            subprocess.run(command, env=environment, capture_output=True, check=True)  # compiles the modules
            peak = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
            counted = subprocess.run(
                ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            match = _COLLECTED.search(counted.stderr)
            if match is None:
                raise RuntimeError(counted.stderr[-2000:])
            out.append(Stage(name, int(match[1]), int(peak) / 1024))
    return out


def report(measured: list[Stage]) -> str:
    """Return the section of the document about the stages."""
    rows = [
        (stage.name, f"{(stage.instructions - earlier.instructions) / 1e6:.0f}", f"{stage.peak_mb:.1f}")
        for earlier, stage in pairwise([Stage("", 0, 0.0), *measured])
    ]
    return (
        f"{HEADING}\n\n`python -m tests.bench.start --stages --write`, on {machine()}. Millions of instructions in "
        "user space of each stage, by callgrind, with compiled modules; peak memory at its end. GPUs and SMART begin "
        "after the first frame; a screen is imported when it is first opened.\n\n"
        + markdown(("stage", "M instructions", "peak MB"), rows)
        + "\n"
    )


class Start(NamedTuple):
    """The times of one start in milliseconds after ``exec``. cpu_ms: the process's CPU time until the keys work."""

    data_ms: float
    keys_ms: float
    cpu_ms: float


def timed_start(argv: list[str]) -> Start:
    """Start the screen once, wait until its help answers, and return the times."""
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
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--stages", action="store_true", help="count what a start loads instead")
    parser.add_argument("--write", action="store_true", help="with --stages: put it into docs/cost.md")
    args = parser.parse_args()
    if args.stages:
        need("valgrind")
        section = report(stages())
        print(section)
        if args.write:
            put_section(DOCUMENT, HEADING, section)
        return 0
    argv = [sys.executable, "-m", "iotop_ai", "-d", "1"]
    timed_start(argv)  # the first start compiles and fills the page cache
    starts = [timed_start(argv) for _ in range(args.rounds)]
    for name, values in zip(Start._fields, zip(*starts, strict=True), strict=True):
        print(f"{name:<8} {min(values):7.1f} ({statistics.median(values):.1f})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
