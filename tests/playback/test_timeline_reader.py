"""The timeline of a recording that was made with other rules: this program's rules judge all its Snapshots again."""

from __future__ import annotations

from pathlib import Path

from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.frame import Frame
from iotop_ai.playback.timeline_reader import TimelineReader
from iotop_ai.store.read.file import FileRecording
from tests.tui.recorded import record, stalling


def by_other_rules(path: Path, live: list[Frame]) -> bytes:
    """Record these Frames with the stamp of other rules, and return the content of the file."""
    record(path, live)
    path.write_bytes(path.read_bytes().replace(stamp().encode(), b"x" * len(stamp())))
    return path.read_bytes()


def changes_of(live: list[Frame]) -> tuple[tuple[int, str], ...]:
    """The times and names of the states, where they change."""
    states = [(frame.snapshot.wall_ns, str(frame.verdict.state)) for frame in live]
    return tuple(state for i, state in enumerate(states) if i == 0 or state[1] != states[i - 1][1])


def read(reader: TimelineReader) -> tuple[tuple[int, str], ...]:
    """Read all that is there, and return the changes of the verdict."""
    while reader.step():
        pass
    return reader.timeline(0).changes


def test_a_change_in_the_last_block_of_a_part_is_at_its_own_time(tmp_path: Path) -> None:
    live = stalling()
    by_other_rules(tmp_path / "1", live[:95])
    by_other_rules(tmp_path / "2", live[95:])
    parts = [FileRecording(str(tmp_path / name)) for name in ("1", "2")]
    wanted = changes_of(live[:95])
    assert wanted[-1][0] > parts[0].blocks[-1].wall_ns
    assert read(TimelineReader(parts, live[0].snapshot.wall_ns))[: len(wanted)] == wanted


def test_changes_in_lines_that_are_appended_reach_the_timeline(tmp_path: Path) -> None:
    live = stalling()
    lines = by_other_rules(tmp_path / "whole", live).splitlines(keepends=True)
    cut = [i for i, line in enumerate(lines) if line.startswith(b'{"k":"snap"')][50]
    path = tmp_path / "growing"
    path.write_bytes(b"".join(lines[:cut]))
    part = FileRecording(str(path))
    reader = TimelineReader([part], live[0].snapshot.wall_ns)
    assert read(reader) == changes_of(live[:50])
    with path.open("ab") as file:
        file.write(b"".join(lines[cut:]))
    assert part.refresh()
    assert read(reader) == changes_of(live)
