"""How a recording begun on the screen can end: nothing is lost, and the terminal stays usable."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import pytest

from iotop_ai.pipeline import frames
from iotop_ai.store.read.file import FileRecording
from tests.rigs.slowdisk import FailingFolder, why_no_fuse_disk
from tests.rigs.tmux import STOPS, why_no_tmux
from tests.tui.inside import PROGRAM, TITLE, assert_usable, closed, opened, record, start, wait_for_exit

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux() or "there")


def test_sigterm_closes_the_recording(tmp_path: Path) -> None:
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path)
        record(terminal, tmp_path)
        (child,) = terminal.children()
        os.kill(child, signal.SIGTERM)
        text = terminal.wait_for("rc=143")
        assert "ended by SIGTERM" in text
        (path,) = tmp_path.glob("*.iotop.jsonl")
        assert re.search(rf"recorded: \d+ s, \w+ in \./{re.escape(path.name)}\n", text)
        assert_usable(terminal)
        assert closed(tmp_path)


@pytest.mark.parametrize(
    ("way", "begun"), [("R", True), ("q", True), ("SIGTERM", True), ("hang-up", True), ("R", False), ("q", False)]
)
def test_events_just_before_the_end_are_in_the_recording(tmp_path: Path, way: str, begun: bool) -> None:
    """The next Snapshot, which would have had the mark, is a minute away. If not ``begun``, it would be the first."""
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path, PROGRAM if begun else f"{PROGRAM} -d 60")
        terminal.keys("R")
        terminal.wait_for("recording, R stops it")
        (record_path,) = tmp_path.glob("*.iotop.jsonl")
        if begun:
            terminal.wait_until(lambda _: record_path.stat().st_size, what="a first line")
            terminal.keys(*["+"] * 8)
            terminal.wait_for("every 60 s")
        (child,) = terminal.children()
        if way == "R":
            terminal.keys("'", "Enter", "R")
            terminal.wait_for_match(r"done: \d+ s, .* in ")
            terminal.keys("q")
        elif way == "q":
            terminal.keys("'", "Enter", "q")
        else:
            terminal.keys("'", "Enter")
            terminal.wait_for("mark set at")
        if way == "SIGTERM":
            os.kill(child, signal.SIGTERM)
        if way != "hang-up":
            terminal.wait_for_match(r"rc=\d")
        if way in ("q", "SIGTERM"):
            assert "recorded: " in terminal.text()
        elif way == "R":
            assert "recorded: " not in terminal.text()  # the screen has already reported the recording
    wait_for_exit(child)
    recording = FileRecording(str(record_path))
    assert [event.text for event in recording.events() if event.kind == "mark"].count("by key") == 1
    assert recording.closed()


@pytest.mark.parametrize("keys", [("R", "R"), ("R", "q"), ("R", "R", "R", "q")])
def test_a_recording_that_ends_as_soon_as_it_begins_is_whole(tmp_path: Path, keys: tuple[str, ...]) -> None:
    """Every file that was begun is complete, and has at least one Frame."""
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path, f"{PROGRAM} -d 60")
        terminal.keys(*keys)
        if keys[-1] != "q":
            terminal.wait_for_match(r"done: \d+ s, .* in ")
            terminal.keys("q")
        terminal.wait_for("rc=0")
    files = list(tmp_path.glob("*.iotop.jsonl"))
    assert files or keys[-1] == "q"
    for path in files:
        recording = FileRecording(str(path))
        assert recording.closed()
        assert list(frames(recording.items()))


@pytest.mark.parametrize(
    ("key", "way"), [("D", "closed"), ("D", "SIGHUP"), ("C-t", "SIGTERM"), ("/", "closed"), ("?", "SIGHUP")]
)
def test_the_terminal_can_close_while_a_dialog_or_the_help_is_open(tmp_path: Path, key: str, way: str) -> None:
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path)
        record(terminal, tmp_path)
        terminal.keys(key)
        shown = {"D": "DROP CACHES", "C-t": "DELAY ACCOUNTING", "/": "Esc:clear", "?": "── help"}
        terminal.wait_for(shown[key])
        terminal.type("dro" if key == "D" else "o")
        (child,) = terminal.children()
        if way != "closed":
            os.kill(child, getattr(signal, way))
            terminal.wait_for(f"ended by {way}")
            assert_usable(terminal)
    wait_for_exit(child)
    assert closed(tmp_path)
    assert not (tmp_path / "state" / "iotop-ai" / "audit.jsonl").exists()


@STOPS
def test_a_stop_of_the_process_is_a_gap_in_its_recording(tmp_path: Path) -> None:
    """Nothing is read while the program is stopped. The recording has a gap there, and no rate spans it."""
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path)
        record(terminal, tmp_path)
        terminal.keys("C-z")
        terminal.wait_for("Stopped")
        assert_usable(terminal)
        (record_path,) = tmp_path.glob("*.iotop.jsonl")
        size = record_path.stat().st_size
        time.sleep(4)
        assert record_path.stat().st_size == size
        terminal.type("clear; fg; echo rc=$?\n")
        terminal.wait_until(lambda seen: {"path", "disk", "process"} <= set(TITLE.findall(seen)), what="the screen")
        terminal.wait_for("● REC")
        terminal.wait_until(lambda _: record_path.stat().st_size > size, what="more lines")
        terminal.keys("'", "Enter")
        terminal.wait_for("mark set at")
        terminal.keys("q")
        terminal.wait_for("rc=0")
    recording = FileRecording(str(record_path))
    assert recording.closed()
    all_frames = list(frames(recording.items()))
    longest = max(all_frames[1:], key=lambda frame: frame.sample.seconds or 0)
    assert longest.sample.seconds is not None
    assert longest.sample.seconds >= 3.9
    assert longest.sample.gap
    # On a loaded machine, other intervals may also be more than three times as long as 0.5 s.
    assert [f.sample.gap for f in all_frames[1:]] == [(f.sample.seconds or 0) > 1.5 for f in all_frames[1:]]
    # Marks of other programs of this user are in the recording, too.
    assert [event.text for event in recording.events() if event.kind == "mark"].count("by key") == 1


@STOPS
@pytest.mark.skipif(bool(why_no_fuse_disk()), reason=why_no_fuse_disk() or "there")
def test_ctrl_z_is_refused_while_a_filesystem_does_not_answer(tmp_path: Path) -> None:
    """The thread that reads how full the filesystem is cannot be stopped, so the shell would not come back."""
    rig = tmp_path / "rig"
    rig.mkdir()
    with FailingFolder(rig) as server:
        server.stop()
        try:
            with opened(tmp_path) as terminal:
                start(terminal, tmp_path)
                (child,) = terminal.children()
                tasks = Path(f"/proc/{child}/task")
                terminal.wait_until(lambda _: "request_wait_answer" in waits(tasks), what="a blocked thread")
                terminal.keys("C-z")
                terminal.wait_for("cannot suspend")
                server.go_on()
                terminal.wait_until(lambda _: "request_wait_answer" not in waits(tasks), what="no blocked thread")
                terminal.keys("C-z")
                terminal.wait_for("Stopped")
                terminal.type("clear; fg; echo rc=$?\n")
                terminal.wait_gone("Stopped")
                terminal.keys("q")
                terminal.wait_for("rc=0")
        finally:
            server.go_on()


def waits(tasks: Path) -> str:
    """The kernel functions in which the threads sleep."""
    found = ""
    for task in tasks.iterdir():
        with contextlib.suppress(OSError):
            found += (task / "wchan").read_text() + " "
    return found
