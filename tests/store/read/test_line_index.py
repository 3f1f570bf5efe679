"""The index of an uncompressed recording is right for any lines, however the file grew."""

from __future__ import annotations

import os
import random
from itertools import pairwise
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.store.format.line_head import KEY_WITHIN
from iotop_ai.store.read.blocks import PlainBlocks
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.read.line_index import indexed_lines
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.store.scenario import lived

pytestmark = pytest.mark.xdist_group("read recordings")  # the tests share their Frames, so one worker runs them all


def recorded(path: Path, *seeds: int) -> bytes:
    """Write several sessions, one after the other, and return the bytes of the file."""
    for seed in seeds:
        recorder = Recorder(FileSink(str(path), append=True), Clock(), cmdline="full", min_free_bytes=0)
        for frame in lived(seed, 70):
            recorder.put(frame)
        assert recorder.close()
    return path.read_bytes()


@pytest.fixture(scope="module")
def two_sessions(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return recorded(tmp_path_factory.mktemp("two") / "a", 1, 2)


def by_hand(data: bytes) -> list[tuple[int, bytes]]:
    """The offset and the text of each header, event and keyframe."""
    out, at = [], 0
    for line in data.split(b"\n")[:-1]:
        if line.startswith((b'{"k":"hdr"', b'{"k":"ev"')) or (
            line.startswith(b'{"k":"snap",') and b',"key":true,' in line[:KEY_WITHIN]
        ):
            out.append((at, line))
        at += len(line) + 1
    return out


@pytest.mark.parametrize("step", [KEY_WITHIN, 1000, 5000, 1 << 20])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_the_same_lines_are_found_for_any_size_of_reads(
    tmp_path: Path, two_sessions: bytes, step: int, ends: bytes
) -> None:
    data = two_sessions.replace(b"\n", ends)
    (tmp_path / "b").write_bytes(data)
    fd = os.open(tmp_path / "b", os.O_RDONLY)
    try:
        found = list(indexed_lines(fd, 0, len(data), step))
    finally:
        os.close(fd)
    expected = by_hand(data)
    assert len(expected) > 6
    assert [line.offset for line in found] == [at for at, _ in expected]
    assert [line.end - line.offset - 1 for line in found] == [len(line) for _, line in expected]
    assert all(line.startswith(one.head) for one, (_, line) in zip(found, expected, strict=True))


def test_the_search_ends_where_the_file_was_truncated_during_the_search(tmp_path: Path) -> None:
    data = recorded(tmp_path / "a", 3)
    fd = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        assert [line.offset for line in indexed_lines(fd, 0, len(data) + 10**6)] == [at for at, _ in by_hand(data)]
        assert list(indexed_lines(fd, len(data), len(data) + 10)) == []
        truncated = tmp_path / "truncated"
        truncated.write_bytes(data[:100])
        other = os.open(truncated, os.O_RDONLY)
        assert list(indexed_lines(other, 0, 10**6, KEY_WITHIN)) == []
        os.close(other)
    finally:
        os.close(fd)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_a_file_that_grew_has_the_index_of_the_whole_file(tmp_path: Path, seed: int) -> None:
    """This holds even if the file was indexed right after a header or an event, before the next keyframe."""
    rng = random.Random(seed)
    whole = recorded(tmp_path / "whole", 1, 2, 3)
    expected = FileRecording(str(tmp_path / "whole"))
    assert {block.session for block in expected.blocks} == {1, 2, 3}
    ends = [at + len(line) + 1 for at, line in by_hand(whole)]
    cuts = sorted({*ends, *(rng.randrange(1000, len(whole)) for _ in range(20)), len(whole)})
    grown = tmp_path / "grown"
    grown.write_bytes(whole[: cuts[0]])
    fd = os.open(grown, os.O_RDONLY)
    blocks = PlainBlocks(fd)
    for before, cut in pairwise(cuts):
        with grown.open("ab") as file:
            file.write(whole[before:cut])
        blocks.refresh()
    assert blocks.index == expected.blocks
    blocks.close()
    expected.close()
