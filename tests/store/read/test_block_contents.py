"""A block has the events of all its Snapshots, however many, at each depth of reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.errors import InputError
from iotop_ai.model.snapshot import Event
from iotop_ai.pipeline import frames
from iotop_ai.store.format import size_limits
from iotop_ai.store.format.codec import FORMAT, Encoder, Header, header_line
from iotop_ai.store.read.block_contents import Depth, block_contents
from iotop_ai.store.read.file import FileRecording
from tests.store.scenario import Machine

SECOND = 1_000_000_000


def recording(folder: Path, snapshots: int, marks: int) -> FileRecording:
    """A recording whose Snapshots each have this many marks."""
    machine, encoder, lines = Machine(5), Encoder(), list[str]()
    begin_ns = 1_763_700_000 * SECOND
    made = [
        machine.snapshot()._replace(at_ns=i * SECOND, wall_ns=begin_ns + i * SECOND) for i in range(1, snapshots + 1)
    ]
    marked = (
        one._replace(events=tuple(Event(one.at_ns, one.wall_ns, "mark", f"step {i}") for i in range(marks)))
        for one in made
    )
    for frame in frames(marked):
        one = frame.snapshot
        if not lines:
            boot = one.host.boot_id
            lines.append(
                header_line(Header(FORMAT, "1", "h", boot, one.wall_ns, one.at_ns, 1.0, "names", stamp(), False))
            )
        lines += encoder.lines(frame)
    path = folder / "a.iotop.jsonl"
    path.write_text("".join(line + "\n" for line in lines))
    return FileRecording(str(path), allow_root=True)


@pytest.mark.parametrize("depth", Depth)
def test_a_block_of_many_events_is_read_at_every_depth(tmp_path: Path, depth: Depth) -> None:
    file = recording(tmp_path, 60, 70)
    assert size_limits.MOST_WAITING < 60 * 70
    assert len(block_contents(file, 0, depth).events) == (0 if depth is Depth.TOTALS else 4200)


@pytest.mark.parametrize("depth", [Depth.EVENTS, Depth.KEYFRAME, Depth.SNAPSHOTS])
def test_the_events_of_a_block_have_a_limit(tmp_path: Path, depth: Depth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_limits, "MOST_BLOCK_EVENTS", 100)
    with pytest.raises(InputError, match="more than 100 events from one keyframe to the next"):
        block_contents(recording(tmp_path, 10, 20), 0, depth)


@pytest.mark.parametrize("depth", [Depth.EVENTS, Depth.KEYFRAME])
def test_too_many_events_before_a_skipped_snapshot_are_refused(tmp_path: Path, depth: Depth) -> None:
    with pytest.raises(InputError, match="more than 4096 events before a Snapshot"):
        block_contents(recording(tmp_path, 2, 4097), 0, depth)
