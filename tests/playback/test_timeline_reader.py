"""The timeline: a recording that was made with other rules is judged again, and bursts are not separated by gaps."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from iotop_ai.playback.timeline_reader import TimelineReader
from iotop_ai.store.read.file import FileRecording
from tests.store.scenario import SECOND, Machine
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


@pytest.mark.parametrize("dropped", [False, True])
def test_the_interval_between_bursts_is_a_gap_only_if_snapshots_were_dropped(tmp_path: Path, dropped: bool) -> None:
    machine, snapshots = Machine(5), []
    begin_ns, wall_ns = machine.now, machine.wall
    for seconds, interval_s in ((0, 60.0), (60, 60.0), (61, 1.0), (62, 1.0), (122, 60.0), (123, 1.0), (124, 1.0)):
        machine.now = begin_ns + seconds * SECOND
        times = {"at_ns": begin_ns + seconds * SECOND, "wall_ns": wall_ns + seconds * SECOND}
        snapshots.append(machine.snapshot()._replace(**times, interval_s=interval_s, events=()))
    path = tmp_path / "bursts"
    record(path, list(frames(snapshots)))
    last = snapshots[4]
    head = b'{"k":"snap","m":%d,"t":%d,' % (last.at_ns, last.wall_ns)
    assert head in path.read_bytes()
    if dropped:
        path.write_bytes(path.read_bytes().replace(head, head + b'"gap":true,'))
    reader = TimelineReader([FileRecording(str(path))], snapshots[0].wall_ns)
    read(reader)
    gap = (snapshots[3].wall_ns, last.wall_ns)
    assert reader.timeline(0).gaps == ((gap,) if dropped else ())


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
