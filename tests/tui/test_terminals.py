"""Terminals of all kinds and all that can go wrong on one: it is usable after, and nothing recorded is lost."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotop_ai.pipeline import frames
from iotop_ai.store.file import FileRecording
from tests.cli.program import TOP
from tests.rigs.pty_pair import PtyPair
from tests.rigs.tmux import Terminal, why_no_tmux

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux() or "there")

PROGRAM = shlex.join([sys.executable, "-m", "iotop_ai", "--no-smart", "-d", "0.5"])
TITLE = re.compile(r"^[─━]+ ([a-z]+) ", re.MULTILINE)
BREAKING = """
import sys
from iotop_ai.cli.main import main
from iotop_ai.tui.panels.process import ProcessPanel

real = ProcessPanel.rows

def rows(frame, view, width, height):
    if view.reverse:
        raise ZeroDivisionError("a panel \\x1b[31mbroke")
    return real(frame, view, width, height)

ProcessPanel.rows = staticmethod(rows)
sys.exit(main(["--no-smart", "-d", "0.5"]))
"""


def opened(folder: Path, width: int = 80, height: int = 24, **environment: str) -> Terminal:
    where = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": str(TOP)}
    return Terminal(width, height, {**where, **environment})


def start(terminal: Terminal, folder: Path, command: str = PROGRAM, shows: str = " q ?") -> None:
    folder.chmod(0o700)
    terminal.type(f"cd {shlex.quote(str(folder))}\n")
    terminal.type(f"{command}; echo rc=$?\n")
    terminal.wait_for(shows)


def record(terminal: Terminal, folder: Path) -> None:
    terminal.keys("R")
    terminal.wait_until(
        lambda _: any(path.stat().st_size for path in folder.glob("*.iotop.jsonl")), what="a first line"
    )


def closed(folder: Path) -> bool:
    (path,) = folder.glob("*.iotop.jsonl")
    return FileRecording(str(path)).closed()


def ended(child: int) -> None:
    """Wait for the process to be gone."""
    end = time.monotonic() + 20
    while os.path.exists(f"/proc/{child}"):
        assert time.monotonic() < end, "still running"
        time.sleep(0.05)


def usable(terminal: Terminal) -> None:
    terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0")
    mode = terminal.mode()
    assert (mode["cursor_flag"], mode["mouse_any_flag"], mode["keypad_cursor_flag"]) == ("1", "0", "0")
    terminal.type("echo back=$((40+2))\n")
    terminal.wait_for("back=42")


def test_sigterm_closes_the_recording(tmp_path: Path) -> None:
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path)
        record(terminal, tmp_path)
        (child,) = terminal.children()
        os.kill(child, signal.SIGTERM)
        text = terminal.wait_for("rc=143")
        assert "ended by SIGTERM" in text
        usable(terminal)
        assert closed(tmp_path)


@pytest.mark.parametrize(
    ("way", "begun"), [("R", True), ("q", True), ("SIGTERM", True), ("hang-up", True), ("R", False), ("q", False)]
)
def test_what_happened_just_before_the_end_is_in_the_recording(tmp_path: Path, way: str, begun: bool) -> None:
    """The next Snapshot, which would have carried the mark, is a minute away; also where it would be the first."""
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path, PROGRAM if begun else f"{PROGRAM} -d 60")
        terminal.keys("R")
        terminal.wait_for("recording to")
        (record,) = tmp_path.glob("*.iotop.jsonl")
        if begun:
            terminal.wait_until(lambda _: record.stat().st_size, what="a first line")
            terminal.keys(*["+"] * 8)
            terminal.wait_for("every 60 s")
        (child,) = terminal.children()
        if way == "R":
            terminal.keys("'", "R")
            terminal.wait_for_match(r"done: \d+ s, .* in ")
            terminal.keys("q")
        elif way == "q":
            terminal.keys("'", "q")
        else:
            terminal.keys("'")
            terminal.wait_for("mark set at")
        if way == "SIGTERM":
            os.kill(child, signal.SIGTERM)
        if way != "hang-up":
            terminal.wait_for("rc=")
    ended(child)
    recording = FileRecording(str(record))
    assert [(event.kind, event.text) for event in recording.events() if event.kind == "mark"] == [("mark", "by key")]
    assert recording.closed()


@pytest.mark.parametrize(
    ("question", "way"), [("D", "closed"), ("D", "SIGHUP"), ("C-t", "SIGTERM"), ("/", "closed"), ("?", "SIGHUP")]
)
def test_a_question_is_open_when_the_terminal_goes(tmp_path: Path, question: str, way: str) -> None:
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path)
        record(terminal, tmp_path)
        terminal.keys(question)
        shown = {"D": "DROP CACHES", "C-t": "DELAY ACCOUNTING", "/": "Esc:clear", "?": "── help"}
        terminal.wait_for(shown[question])
        terminal.type("dro" if question == "D" else "o")
        (child,) = terminal.children()
        if way != "closed":
            os.kill(child, getattr(signal, way))
            terminal.wait_for(f"ended by {way}")
            usable(terminal)
    ended(child)
    assert closed(tmp_path)
    assert not (tmp_path / "state" / "iotop-ai" / "audit.jsonl").exists()


def test_a_stop_with_a_recording_on_is_a_gap(tmp_path: Path) -> None:
    """While it is stopped nothing is read: the recording says so, and no rate reaches across."""
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path)
        record(terminal, tmp_path)
        terminal.keys("C-z")
        terminal.wait_for("Stopped")
        usable(terminal)
        (record_path,) = tmp_path.glob("*.iotop.jsonl")
        size = record_path.stat().st_size
        time.sleep(4)
        assert record_path.stat().st_size == size
        terminal.type("clear; fg; echo rc=$?\n")
        terminal.wait_until(lambda seen: {"path", "disk", "process"} <= set(TITLE.findall(seen)), what="the screen")
        terminal.wait_for("● REC")
        terminal.wait_until(lambda _: record_path.stat().st_size > size, what="more lines")
        terminal.keys("'")
        terminal.wait_for("mark set at")
        terminal.keys("q")
        terminal.wait_for("rc=0")
    recording = FileRecording(str(record_path))
    assert recording.closed()
    whole = list(frames(recording.items()))
    away = max(whole[1:], key=lambda frame: frame.sample.seconds or 0)
    assert away.sample.seconds is not None
    assert away.sample.seconds >= 3.9
    assert away.sample.gap
    assert [frame.sample.gap for frame in whole].count(True) == 1
    assert [event.text for event in recording.events() if event.kind == "mark"] == ["by key"]


def test_a_panel_that_breaks_is_one_line_with_its_log(tmp_path: Path) -> None:
    with opened(tmp_path, 120) as terminal:
        start(terminal, tmp_path, f"{shlex.quote(sys.executable)} -c {shlex.quote(BREAKING)}")
        record(terminal, tmp_path)
        terminal.keys("r")
        text = terminal.wait_for("rc=2")
        log = tmp_path / "state" / "iotop-ai" / "crash.log"
        assert "unknown: ZeroDivisionError" in text
        assert "Traceback" not in text
        assert str(log) in text.replace("\n", "")
        usable(terminal)
        assert closed(tmp_path)
        assert log.stat().st_mode & 0o777 == 0o600
        written = log.read_text()
        assert "iotop-ai " in written.splitlines()[0]
        assert "ZeroDivisionError" in written
        assert "in rows" in written


def test_a_storm_of_sizes(tmp_path: Path) -> None:
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path)
        for width, height in ((60, 15), (250, 70), (20, 5), (81, 23), (1, 1), (160, 48), (40, 60)) * 3:
            terminal.resize(width, height)
        terminal.resize(80, 24)
        # Pictures of the sizes before are still to come, so the last row is where all of it must be.
        text = terminal.wait_until(
            lambda seen: (
                seen.split("\n")[23].startswith(" q ?") and {"path", "disk", "process"} <= set(TITLE.findall(seen))
            ),
            what="the whole screen",
        )
        assert text.count("── path") == 1
        terminal.keys("q")
        terminal.wait_for("rc=0")
        usable(terminal)


def test_a_size_that_comes_and_goes_is_painted_over(tmp_path: Path) -> None:
    """A terminal that was smaller for a moment has lost its rows, although its size is what it was."""
    tmp_path.chmod(0o700)
    environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": str(tmp_path)}
    command = [*shlex.split(PROGRAM), "-d", "60"]
    with PtyPair(command, 80, 24, {**environment, "PYTHONPATH": str(TOP)}, tmp_path) as line:
        line.wait_for("\x1b[?2004h")  # the app has the terminal
        line.wait_for("process", line.wait_for("path"))
        line.type("r")
        at = line.wait_for("smallest first")
        while line.read(0.3):  # all that the start has to paint
            at = len(line.written)
        for _ in range(3):
            line.resize(1, 1)
            line.resize(80, 24)
            at = line.wait_for("path", at)
            at = line.wait_for("process", at)
            while line.read(0.3):
                at = len(line.written)
        line.type("q")
        assert line.ended() == 0


@pytest.mark.parametrize(
    ("environment", "most", "ascii_only"),
    [
        ({"TERM": "linux", "COLORTERM": ""}, 16, True),
        ({"TERM": "xterm", "COLORTERM": ""}, 16, False),
        ({"TERM": "xterm-256color", "COLORTERM": ""}, 256, False),
        ({"TERM": "screen", "COLORTERM": ""}, 16, False),
        ({"TERM": "vt220", "COLORTERM": ""}, 0, False),
        ({"NO_COLOR": "1"}, 0, False),
        ({"LC_ALL": "C"}, 2**24, True),
    ],
)
def test_no_more_colours_and_glyphs_than_the_terminal_has(
    tmp_path: Path, environment: dict[str, str], most: int, ascii_only: bool
) -> None:
    with opened(tmp_path, **environment) as terminal:
        written = tmp_path / "bytes"
        terminal.record(written)
        start(terminal, tmp_path)
        size = written.stat().st_size
        terminal.wait_until(lambda _: written.stat().st_size > size, what="a refresh")
        terminal.keys("L") if most == 2**24 else terminal.keys("r")
        terminal.wait_for("done:")
        text = terminal.text()
        terminal.keys("q")
        terminal.wait_for("rc=0")
        raw = written.read_bytes().decode("utf-8", "replace")
        codes = re.findall(r"\x1b\[([\d;]*)m", raw)
        if most < 2**24:
            assert not any("38;2" in code or "48;2" in code for code in codes)
        if most < 256:
            assert not any("38;5" in code or "48;5" in code for code in codes)
        if most == 0:
            colours = {part for code in codes for part in code.split(";") if re.fullmatch(r"(3|4|9|10)[0-7]", part)}
            assert colours == set()
        assert text.isascii() == ascii_only


@pytest.mark.skipif(shutil.which("screen") is None, reason="needs GNU screen")
def test_inside_gnu_screen(tmp_path: Path) -> None:
    rc = tmp_path / "screenrc"
    rc.write_text("startup_message off\ndefutf8 on\naltscreen on\n")
    sockets = tmp_path / "sockets"
    sockets.mkdir(mode=0o700)
    with opened(tmp_path, 80, 24, SCREENDIR=str(sockets), COLORTERM="") as terminal:
        terminal.type(f"screen -c {rc} -S rig-{os.getpid()} sh\n")
        try:
            time.sleep(0.5)
            start(terminal, tmp_path)
            terminal.keys("g")
            terminal.keys("Escape")
            terminal.keys(">")
            text = terminal.wait_for("sorted by read")
            assert len([line for line in text.splitlines() if line.strip()]) >= 20
            terminal.resize(120, 40)
            terminal.wait_until(lambda seen: any(len(line) > 100 for line in seen.splitlines()), what="the new width")
            terminal.keys("q")
            terminal.wait_for("rc=0")
            terminal.type("echo TERM=$TERM\n")
            assert "TERM=screen" in terminal.wait_for("TERM=screen")
        finally:
            environment = {**os.environ, "SCREENDIR": str(sockets)}
            subprocess.run(["screen", "-S", f"rig-{os.getpid()}", "-X", "quit"], env=environment, capture_output=True)


def test_the_screen_begins_as_it_was_left(tmp_path: Path) -> None:
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path)
        terminal.keys("r", "7")
        terminal.wait_for("by io reversed")
        terminal.wait_for("system hidden")
        terminal.keys("q")
        terminal.wait_for("rc=0")
        terminal.type("clear\n")
        terminal.type(f"{PROGRAM}; echo rc=$?\n")
        text = terminal.wait_for("by io reversed")
        assert " cpu " not in text.splitlines()[-2]
        terminal.keys("q")
        terminal.wait_for("rc=0")
        (tmp_path / "state" / "iotop-ai" / "screen.json").write_text("{")
        terminal.type("clear\n")
        terminal.type(f"{PROGRAM}; echo rc=$?\n")
        terminal.wait_for("what the screen remembered is unreadable")
        terminal.wait_gone("what the screen remembered")
        terminal.keys("q")
        terminal.wait_for("rc=0")
        terminal.type("clear\n")
        terminal.type(f"{PROGRAM}; echo rc=$?\n")
        assert "unreadable" not in terminal.wait_for(" q ?")
        terminal.keys("q")
        terminal.wait_for("rc=0")


def test_keys_of_the_settings_file_and_no_mouse(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "iotop-ai"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('mouse = false\n[keys]\n"sort.next" = ["F7", "ctrl+n"]\n"app.quit" = ["x"]\n')
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path, shows=" x ?")
        terminal.keys("F7")
        terminal.wait_for("sorted by read")
        assert terminal.mode()["mouse_any_flag"] == "0"
        terminal.keys("C-n")
        terminal.wait_for("sorted by write")
        terminal.keys("q", "?")
        assert "F7" in terminal.wait_for("── help")
        terminal.keys("Escape")
        terminal.wait_gone("── help")
        terminal.keys("x")
        terminal.wait_for("rc=0")


def test_bytes_of_a_refresh(tmp_path: Path) -> None:
    """On a slow link: most seconds take less than 6 KB. A new verdict may paint all of the screen, and is left out."""
    with opened(tmp_path) as terminal:
        written = tmp_path / "bytes"
        terminal.record(written)
        start(terminal, tmp_path, PROGRAM.replace("-d 0.5", "-d 1"))
        terminal.keys(">")
        terminal.wait_for("sorted by")  # by now the app has painted all of it
        seconds = []
        for _ in range(6):
            begin, size = time.monotonic(), written.stat().st_size
            time.sleep(1)
            seconds.append((written.stat().st_size - size) / (time.monotonic() - begin))
        terminal.keys("q")
        terminal.wait_for("rc=0")
        assert 0 < sorted(seconds)[3] < 6 * 1024
