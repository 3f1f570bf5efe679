"""A signal that arrives while the live screen starts."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.cli.start.ending_signals import FORCE_S, EndingSignals, SignalledError
from tests.rigs.pty_pair import PtyPair
from tests.waiting import until

PROGRAM = str(Path(sys.executable).with_name("iotop-ai"))
ALTERNATE, NORMAL = b"\x1b[?1049h", b"\x1b[?1049l"
TTY_WRITES = ("wait_woken", "n_tty_write")
"""The kernel functions in which a write waits for room in a terminal."""
SWALLOWS = """
import os, sys, time
from iotop_ai.cli.start.ending_signals import EndingSignals
EndingSignals(lambda: os.write(1, b"given back")).install()
os.write(1, b"ready ")
while True:
    time.sleep(60)
"""


@pytest.fixture
def signals() -> Iterator[EndingSignals]:
    made = EndingSignals(lambda: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP)}
    made.install()
    try:
        yield made
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_first_signal_decides_how_the_start_ends(signals: EndingSignals) -> None:
    signals.check()
    assert signals.take() is None
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SignalledError) as raised:
        signals.check()
    assert raised.value.number == signal.SIGHUP == signals.take()
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_start_that_ignores_the_signal_is_ended_by_force() -> None:
    with subprocess.Popen([sys.executable, "-c", SWALLOWS], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.read(6) == b"ready "
        begun = time.monotonic()
        child.send_signal(signal.SIGTERM)
        assert child.stdout.read() == b"given back"
        assert child.wait(20) == 128 + signal.SIGTERM
        assert time.monotonic() - begun >= FORCE_S


def test_another_programs_alarm_ends_the_program_as_it_does_by_default() -> None:
    with subprocess.Popen([sys.executable, "-c", SWALLOWS], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.read(6) == b"ready "
        child.send_signal(signal.SIGALRM)
        assert child.stdout.read() == b"given back"
        assert child.wait(20) == 128 + signal.SIGALRM


@pytest.mark.parametrize(
    "delay_s", [0.0, 0.35, 0.55, *(pytest.param(delay_s, marks=pytest.mark.slow) for delay_s in (0.2, 0.45, 0.7))]
)
def test_a_signal_at_any_moment_of_the_start_ends_the_program(delay_s: float) -> None:
    """This includes the moments before the app installs its handlers, when an exception can be swallowed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(PROGRAM, [PROGRAM, "--no-smart", "-d", "0.5"])
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        shown = _read(terminal, 30, ALTERNATE)
        assert ALTERNATE in shown
        shown += _read(terminal, delay_s)
        os.kill(pid, signal.SIGTERM)
        shown += _read(terminal, 20)
        assert NORMAL in shown
        assert b"Error" not in shown
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGTERM, shown[-300:]
    finally:
        os.close(terminal)


def test_a_signal_ends_a_start_whose_terminal_takes_no_output(tmp_path: Path) -> None:
    """The first frame of a large terminal does not fit into the kernel's buffer, so its write waits."""
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "XDG_STATE_HOME": str(tmp_path)}
    with PtyPair([PROGRAM, "--no-smart"], 250, 200, environment, tmp_path) as terminal:
        pid = terminal.process.pid
        wait_channel = Path(f"/proc/{pid}/task/{pid}/wchan")
        until(lambda: wait_channel.read_text() in TTY_WRITES, "a write that waits")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait(20) == 128 + signal.SIGTERM
        assert terminal.attributes() == terminal.before


def _read(terminal: int, seconds: float, until: bytes = b"\0 never") -> bytes:
    """Return the output until ``until`` is in it, the program ends, or ``seconds`` have passed."""
    data = b""
    end = time.monotonic() + seconds
    while until not in data and (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                data += os.read(terminal, 65536)
            except OSError:  # the kernel reports EIO when the other end is closed
                break
    return data
