"""A recording that is rotated while it is replayed goes on in the next file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iotop_ai.cli.commands.replay import Chain
from iotop_ai.playback.player import FrameCursor
from iotop_ai.store.last_hour import Ring
from tests.cli.forked import Run
from tests.cli.program import PLAIN, TOP, command
from tests.rigs.tmux import Terminal, why_no_tmux
from tests.tui.recorded import record, stalling

LONG_S = 60.0
TIMELINE = re.compile(r"^ (\d\d:\d\d:\d\d) .* (\d\d:\d\d:\d\d)$", re.MULTILINE)


def test_the_replay_continues_when_the_file_of_its_name_is_replaced(tmp_path: Path) -> None:
    live = stalling()
    path = tmp_path / "a.iotop.jsonl"
    record(path, live[:80])
    chain = Chain(str(path))
    chain.follows = True
    cursor = FrameCursor(chain.parts, chain.next_part)
    assert cursor.seek(2**62) == live[79]
    assert cursor.forward() is None
    ring = Ring()
    for frame in live[:80]:
        ring.put(frame)
    preroll = ring.preroll("full", live[80].snapshot.at_ns)
    ring.close()
    path.rename(tmp_path / "a.20251009T085440.iotop.jsonl")
    assert cursor.forward() is None
    record(path, live[80:], preroll=preroll)
    assert [cursor.forward() for _ in live[80:]] == live[80:]
    assert cursor.seek(live[70].snapshot.wall_ns) == live[70]
    chain.close()


@pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux())
def test_a_replay_follows_the_recorder_through_its_rotations(tmp_path: Path) -> None:
    """The recorder fills a file every 2 s. The screen follows it, goes to the first file, and back to the newest."""
    path = tmp_path / "a.iotop.jsonl"
    recorder = Run(("record", "--no-smart", "-d", "0.25", "--rotate", "2s", "-o", str(path)), PLAIN)

    def parts() -> int:
        return len(list(tmp_path.glob("a.2*.jsonl*")))

    def wait_for_a_later_moment(terminal: Terminal) -> None:
        now = terminal.wait_for_match(r"(\d\d:\d\d:\d\d)  ► REPLAY 1x", LONG_S)[1]
        terminal.wait_until(lambda text: "► REPLAY 1x" in text and f"{now}  ►" not in text, LONG_S, "a later moment")

    try:
        with Terminal(80, 24) as terminal:
            terminal.wait_until(lambda _: path.exists() and b'"k":"snap"' in path.read_bytes(), LONG_S, "a Snapshot")
            terminal.type(f"cd {TOP}; {' '.join(command('replay', '--allow-root', str(path)))}; echo rc=$?\n")
            wait_for_a_later_moment(terminal)
            parts_before = parts()
            terminal.wait_until(lambda _: parts() >= parts_before + 2, LONG_S, "two rotations")
            wait_for_a_later_moment(terminal)
            # Another thread reads the appended lines, so they may arrive late.
            terminal.wait_until(
                lambda text: (line := TIMELINE.search(text)) and line[1] < line[2],
                LONG_S,
                "a timeline from one time to a later one",
            )
            first = terminal.wait_for_match(TIMELINE.pattern)[1]
            terminal.keys("Space", "@")
            terminal.type("0%\n")
            terminal.wait_for(f"{first}  REPLAY paused", LONG_S)
            terminal.keys("]")
            terminal.keys("@")
            terminal.type("100%\n")
            terminal.wait_for_match(r"  REPLAY paused", LONG_S)
            terminal.keys("Space")
            wait_for_a_later_moment(terminal)
            terminal.keys("q")
            terminal.wait_for("rc=0", LONG_S)
    finally:
        recorder.terminate()
        assert recorder.wait(20) == 0
