"""Recordings of every format number that was ever released are read to the same values."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from iotop_ai.pipeline import frames
from iotop_ai.store.format.codec import FORMAT, SnapLine, record_fields
from iotop_ai.store.read.file import FileRecording
from tests.store.golden import FOLDER, TICKS, values

FORMATS = range(1, FORMAT + 1)


@pytest.mark.parametrize("number", FORMATS)
@pytest.mark.parametrize("packed", [True, False])
def test_a_golden_recording_is_read_to_the_same_values(tmp_path: Path, number: int, packed: bool) -> None:
    path = FOLDER / f"format-{number}.iotop.jsonl.gz"
    if not packed:
        plain = tmp_path / "plain"
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        path = plain
    recording = FileRecording(str(path))
    snapshots = [item.snapshot for item in recording.lines() if isinstance(item, SnapLine)]
    assert len(snapshots) == TICKS
    found = values(snapshots)
    kept = json.loads((FOLDER / f"format-{number}.values.json").read_text())
    assert {name: found.get(name, "missing") for name in kept} == kept
    assert [(e.kind, e.text) for e in recording.events()] == [
        ("mark", "epoch 1"), ("device_added", "sdz"), ("process_ended", "python3 (pid 1000): SIGKILL"),
    ]  # fmt: skip
    assert recording.closed()
    shown = list(frames(recording.items()))
    assert len(shown) == TICKS
    assert shown[-1].sample.block.value


@pytest.mark.parametrize("number", FORMATS)
def test_fields_are_only_appended_to_the_records_of_a_released_format(number: int) -> None:
    with gzip.open(FOLDER / f"format-{number}.iotop.jsonl.gz", "rt") as file:
        then = json.loads(file.readline())["fields"]
    now = record_fields()
    assert {name: now.get(name, [])[: len(fields)] for name, fields in then.items()} == then
