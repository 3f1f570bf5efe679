"""The live screen in a real terminal: it is painted, each key has its effect, nothing jumps, and it ends cleanly."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotop_ai.tui.terminal_app import END_WAIT_S
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk
from tests.rigs.tmux import Terminal, why_no_tmux

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux())

PROGRAM = [sys.executable, "-m", "iotop_ai"]
COMMAND = shlex.join([*PROGRAM, "--no-smart", "-d", "0.5"])
SIZES = [(80, 24), (160, 48)]
RULE = re.compile(r"^[─━]{2} ([a-z]\w*)")
READER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 65536)
while True:
    os.preadv(fd, [buffer], 0)
"""

SLOW_DISK = pytest.mark.xdist_group("a slow disk")
"""Only one test at a time may use the slow disk."""


@pytest.fixture(scope="module")
def slow_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The kernel's name of a second disk, from which a program reads all the time, at 20 ms for each read."""
    if why := why_no_fuse_disk():
        pytest.skip(why)
    with FuseDisk(tmp_path_factory.mktemp("disk"), 16) as disk:
        disk.set(delay_us=20_000)
        reader = disk.popen(sys.executable, "-c", READER, disk.node)
        try:
            yield disk.name
        finally:
            reader.kill()
            reader.wait()


def own_disks() -> list[str]:
    """The names of the real disks. If only these are shown, a loop device of another program adds no row."""
    return sorted(path.name for path in Path("/sys/block").iterdir() if (path / "device").exists())


def sections(text: str) -> dict[str, int]:
    """The row of each section's rule, by the first word of its title."""
    found = {}
    for number, line in enumerate(text.splitlines()):
        if match := RULE.match(line):
            found[match[1]] = number
    return found


def has_job(text: str) -> bool:
    """Whether the line about a job's time is shown. Any program on this machine may be a job, and may end."""
    return any(line.startswith(" time ") for line in text.splitlines())


def rows_of(text: str, title: str) -> list[str]:
    """The rows below a section's rule, up to the next rule; [] if the section is missing."""
    lines = text.splitlines()
    at = sections(text)
    if title not in at:
        return []
    first = at[title] + 1
    last = min((row for row in at.values() if row >= first), default=len(lines))
    return lines[first:last]


def marked_disk(text: str) -> str:
    """The name of the device that is marked as selected."""
    return next((row[1:].split()[0] for row in rows_of(text, "disk") if row.startswith(">")), "")


def start_program(terminal: Terminal, *disks: str) -> str:
    """Start the program for all disks or for these, and wait for its whole screen."""
    terminal.type(COMMAND + (f" --device {','.join(disks)}" if disks else "") + "\n")
    return terminal.wait_until(is_whole, what="the whole screen")


def rated(terminal: Terminal) -> str:
    """The first screen with rates, such as the program's own cost. By then a disk that works has its row."""
    return terminal.wait_for_match(r"(?s).*self +[\d.]+ %.*").string


def is_whole(text: str) -> bool:
    """Whether all sections and the row of keys are shown; the keys are painted last."""
    return {"path", "disk", "process"} <= sections(text).keys() and text.splitlines()[-1].startswith(" q ")


def leave(terminal: Terminal) -> None:
    """Press q, and check that the program ends with exit code 0 and the shell works as before."""
    terminal.keys("q")
    terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0", what="the normal screen")
    terminal.type("echo rc=$? $((40+2))\n")
    terminal.wait_for("rc=0 42")
    mode = terminal.mode()
    assert mode["cursor_flag"] == "1"
    assert mode["mouse_any_flag"] == "0"


@pytest.mark.alone
@pytest.mark.parametrize("size", SIZES)
def test_the_screen_opens_fills_its_size_and_ends(size: tuple[int, int]) -> None:
    with Terminal(*size) as terminal:
        start = time.monotonic()
        text = start_program(terminal)
        assert time.monotonic() - start < 2.0
        lines = text.splitlines()
        assert re.match(r"[▌ ]*(OK|STARVED|BLOCKED|SLOWED|FAILING|WASTED|STARTING|CALM|BUSY|UNSURE)\b", lines[0])
        assert lines[-1].split()[0] == "q"
        assert terminal.mode()["alternate_on"] == "1"
        leave(terminal)


@pytest.mark.parametrize("size", SIZES)
def test_nothing_jumps_on_the_screen(size: tuple[int, int]) -> None:
    with Terminal(*size) as terminal:
        start_program(terminal, *own_disks())
        terminal.type("/no such process\n")  # without this, a list longer than its rows would take rows from the graphs
        terminal.wait_for("no such process")
        text = rated(terminal)
        last_line = text.splitlines()[-1]
        first = {has_job(text): sections(text)}
        for _ in range(40):
            now = terminal.text()
            assert sections(now) == first.setdefault(has_job(now), sections(now))
            assert now.splitlines()[-1] == last_line
            time.sleep(0.05)
        leave(terminal)


def wait_changed(terminal: Terminal, measure: Callable[[str], object], before: object) -> str:
    """The first screen for which the measure has another value."""
    return terminal.wait_until(lambda text: measure(text) != before, what=f"a change from {before!r}")


def focused(text: str) -> tuple[str, ...]:
    """The titles that show which panel has the focus."""
    return tuple(line.split()[1] for line in text.splitlines() if line.startswith("━"))


@SLOW_DISK
@pytest.mark.parametrize("size", SIZES)
def test_devices_are_switched_by_keys_and_clicks(size: tuple[int, int], slow_disk: str) -> None:
    with Terminal(*size) as terminal:
        start_program(terminal, *own_disks(), slow_disk)
        text = terminal.wait_until(lambda text: slow_disk in "\n".join(rows_of(text, "disk")), what=slow_disk)
        names = [row[1:].split()[0] for row in rows_of(text, "disk") if re.match(r"[>! ]\w", row)]
        assert len(names) >= 2
        for forth, back in (("n", "b"), ("Right", "Left")):
            here = marked_disk(terminal.text())
            terminal.keys(forth)
            there = marked_disk(wait_changed(terminal, marked_disk, here))
            terminal.keys(back)
            assert marked_disk(terminal.wait_until(lambda text, there=there: marked_disk(text) != there)) == here
        # a verdict would move the disk that it names to the first row, so that the click would hit another
        terminal.keys("Space")
        text = terminal.wait_for("paused")
        other = next(name for name in names if name != marked_disk(text))
        row = next(n for n, line in enumerate(text.splitlines()) if line[1:].startswith(other + " "))
        assert row > sections(text)["disk"]
        terminal.click(2, row)
        terminal.wait_until(lambda text: marked_disk(text) == other, what=f"{other} selected")
        leave(terminal)


@SLOW_DISK
@pytest.mark.parametrize("size", SIZES)
def test_rows_are_filtered_sorted_and_summed(size: tuple[int, int], slow_disk: str) -> None:
    with Terminal(*size) as terminal:
        start_program(terminal)
        terminal.wait_until(lambda text: "python" in "\n".join(rows_of(text, "process")), what="the reader")
        terminal.keys("/")
        terminal.wait_for("Esc:clear")
        terminal.type("nosuchname")
        terminal.wait_until(
            lambda text: "process" in sections(text) and "python" not in "\n".join(rows_of(text, "process")),
            what="a process panel without the reader",
        )
        terminal.wait_until(lambda text: "nosuchname" in text.splitlines()[-1], what="the filter in the last row")
        terminal.keys("Enter")
        terminal.keys("Escape", ">")  # both arrive together, as from a fast user or over a slow link, but are two keys
        terminal.wait_until(lambda text: "python" in "\n".join(rows_of(text, "process")), what="the reader again")
        terminal.wait_until(lambda text: "by read" in text, what="the order by read")

        for key, column in (("<", "io"), ("<", "user"), ("<", "name")):
            terminal.keys(key)
            terminal.wait_until(lambda text, by=f"by {column}": by in text, what=f"the order by {column}")
        first = rows_of(terminal.text(), "process")[0]
        terminal.keys("r")
        terminal.wait_for("Z to A")
        terminal.wait_until(lambda text: rows_of(text, "process")[:1] not in ([], [first]), what="another first row")
        terminal.keys("r")
        terminal.wait_for("A to Z")

        terminal.keys("o")
        terminal.wait_for("only active")
        terminal.wait_until(lambda text: slow_disk in "\n".join(rows_of(text, "disk")))
        terminal.keys("o")
        terminal.wait_for("all rows")

        terminal.wait_for("rMB/s")
        terminal.keys("a")
        terminal.wait_for("summed since now")
        terminal.wait_gone("rMB/s")
        terminal.keys("a")
        terminal.wait_for("rMB/s")
        leave(terminal)


@pytest.mark.parametrize("size", SIZES)
def test_keys_control_panels_pause_interval_and_help(size: tuple[int, int]) -> None:
    with Terminal(*size) as terminal:
        start_program(terminal, *own_disks())
        # the path may be about a job of this machine, which may end
        before = sections(rated(terminal)).keys() - {"path"}
        terminal.keys("5")
        terminal.wait_for("hidden; 5 shows it")
        terminal.keys("5")
        terminal.wait_until(lambda text: sections(text).keys() >= before, what="the same sections again")
        terminal.keys("2")
        terminal.wait_until(lambda text: not "".join(rows_of(text, "path")).strip(), what="the path's rule only")
        terminal.keys("2")
        terminal.wait_until(lambda text: "".join(rows_of(text, "path")).strip(), what="the path")
        terminal.keys("6")
        terminal.wait_for("hidden; 6 shows it")
        terminal.keys("6")
        terminal.wait_gone("hidden; 6 shows it")

        focus = [focused(terminal.text())]
        for _ in range(4):
            terminal.keys("Tab")
            focus.append(focused(wait_changed(terminal, focused, focus[-1])))
        assert len(set(focus)) >= 3

        terminal.keys("Space")
        terminal.wait_for("paused")
        terminal.wait_gone("the same key resumes")
        still = terminal.text()
        time.sleep(1.5)
        assert terminal.text() == still
        terminal.keys("Space")
        terminal.wait_for("done: live")

        terminal.keys("+")
        terminal.wait_for("every 1 s")
        terminal.keys("-")
        terminal.wait_for("every 0.5 s")

        for key in ("?", "F1"):
            terminal.keys(key)
            found = terminal.wait_for_match(r"── help (?:1/(\d))?")
            pages = int(found[1] or 1)
            for page in range(2, pages + 1):
                if "svctm" in terminal.text():
                    break
                terminal.keys("Space")
                terminal.wait_for(f"help {page}/{pages}")
            terminal.wait_for("svctm")
            terminal.keys("Escape")
            terminal.wait_until(lambda text: "disk" in sections(text), what="the main screen")
        leave(terminal)


@SLOW_DISK
def test_the_terminal_can_become_smaller_and_larger(slow_disk: str) -> None:
    with Terminal(80, 24) as terminal:
        start_program(terminal, *own_disks(), slow_disk)
        for size in ((160, 48), (60, 15), (100, 30)):
            terminal.resize(*size)
            terminal.wait_until(
                lambda text: text.splitlines()[-1].startswith(" q ") and "disk" in sections(text),
                what=f"the screen at {size}",
            )
        leave(terminal)


@pytest.mark.parametrize("loaded", [False, True])
def test_sigterm_gives_the_terminal_back(loaded: bool) -> None:
    """This includes the time when only the first frame is shown and the rest is still being loaded."""
    with Terminal(80, 24) as terminal:
        start_program(terminal)
        if loaded:
            terminal.wait_app()
        (child,) = terminal.children()
        os.kill(child, signal.SIGTERM)
        terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0", what="the normal screen")
        terminal.type("echo rc=$? $((40+2))\n")
        text = terminal.wait_for("rc=143 42")
        assert "Traceback" not in text
        assert not loaded or "ended by SIGTERM" in text
        assert terminal.mode()["cursor_flag"] == "1"
        assert terminal.mode()["mouse_any_flag"] == "0"


@pytest.mark.parametrize("leaving", [False, True])
def test_a_closed_terminal_ends_the_program(leaving: bool) -> None:
    """This includes a terminal that closes while the program ends: no process may remain without a terminal."""
    with Terminal(80, 24) as terminal:
        start_program(terminal)
        terminal.wait_app()
        (child,) = terminal.children()
        if leaving:
            terminal.keys("q")
    process = Path(f"/proc/{child}")
    end = time.monotonic() + END_WAIT_S + 5
    while process.exists() and time.monotonic() < end:
        time.sleep(0.05)
    if process.exists():
        os.kill(child, signal.SIGKILL)
        raise AssertionError("still running after its terminal went")


def test_a_filter_that_arrives_all_at_once_is_text_and_not_keys() -> None:
    with Terminal(100, 30) as terminal:
        start_program(terminal)
        terminal.wait_app()
        terminal.type("/noa")
        terminal.wait_until(lambda text: text.splitlines()[-1].startswith(" /noa"), what="all letters in the filter")
        assert "done:" not in terminal.text()
        terminal.keys("Escape")
        terminal.wait_gone("Esc:clear")
        leave(terminal)


def test_without_a_terminal_there_is_one_line_and_exit_code_2() -> None:
    done = subprocess.run(PROGRAM, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("usage:")
    assert "-b" in line
    assert "snapshot" in line


def test_a_dumb_terminal_gives_one_line_and_exit_code_2() -> None:
    with Terminal(80, 24, {"TERM": "dumb"}) as terminal:
        terminal.type(f"{COMMAND}; echo rc=$?\n")
        # The typed line contains the path of the checkout and may be wrapped anywhere, so only the printed lines are
        # read.
        printed = [line for line in terminal.wait_for("rc=2").splitlines() if line.startswith("usage: ")]
        assert len(printed) == 1
        assert printed[0].startswith("usage: TERM=dumb")
        assert terminal.mode()["alternate_on"] == "0"


def test_a_pipe_as_the_output_of_the_screen_is_refused(tmp_path: Path) -> None:
    with Terminal(80, 24) as terminal:
        terminal.type(f"{COMMAND} | cat > {tmp_path}/out; echo size=$(wc -c < {tmp_path}/out)\n")
        assert "usage: not a terminal" in terminal.wait_for("size=0")


@pytest.mark.parametrize("size", SIZES)
def test_rows_below_another_screen_are_never_painted(size: tuple[int, int]) -> None:
    with Terminal(*size) as terminal:
        terminal.type(COMMAND.replace("-d 0.5", "-d 0.2") + "\n")
        terminal.wait_until(lambda text: {"path", "disk", "process"} <= sections(text).keys(), what="the sections")
        for key, word in (("?", " back ──"), ("h", "Esc:back")):
            terminal.keys(key)
            terminal.wait_for(word)
            end = time.monotonic() + 2
            while time.monotonic() < end:
                assert not {"path", "process"} & sections(terminal.text()).keys()
                assert "CPU busy" not in terminal.text()
                assert "kworker" not in terminal.text()
                time.sleep(0.1)
            terminal.keys("Escape")
            terminal.wait_until(lambda text: {"path", "disk", "process"} <= sections(text).keys(), what="the screen")
        leave(terminal)
