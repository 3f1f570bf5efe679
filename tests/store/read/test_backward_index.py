"""The index read from the end of a recording equals the index from reading the whole file, whatever the damage."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.errors import InputError
from iotop_ai.store.read import backward_index
from iotop_ai.store.read.backward_index import block_starts
from iotop_ai.store.read.blocks import Block, PlainBlocks
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.recorder import Recorder, Rotation
from iotop_ai.store.write.sink import FileSink
from tests.store.read.test_file import wait
from tests.store.scenario import lived, rebooted

pytestmark = pytest.mark.xdist_group("read recordings")  # the tests share their Frames, so one worker runs them all
_BACK = re.compile(rb'"back":\d+,')


def write(path: Path, *lengths: int, preroll: tuple[str, ...] = ()) -> Recorder:
    """Write sessions with these numbers of Snapshots, one after the other."""
    for i, length in enumerate(lengths):
        recorder = Recorder(
            FileSink(str(path), append=True),
            Clock(),
            cmdline="full",
            min_free_bytes=0,
            preroll=preroll,
            keyframe_every=7,
        )
        for number, frame in enumerate(lived(1 + i, length), 1):
            recorder.put(frame)
            if number % 50 == 0:
                wait(recorder, number)
        assert recorder.close()
        assert recorder.state().dropped == 0
    return recorder


def indexes_of(path: Path) -> tuple[list[Block], list[Block], int]:
    """(the blocks found by opening, by reading the whole file, and the offset to which the backward index reaches)."""
    opened = PlainBlocks(os.open(path, os.O_RDONLY))
    data = path.read_bytes()
    head = data.index(b"\n") + 1
    grown = path.with_name("grown")
    grown.write_bytes(data[:head])
    through = PlainBlocks(os.open(grown, os.O_RDONLY))
    with grown.open("ab") as file:
        file.write(data[head:])
    through.refresh()
    found, expected = list(opened.index), list(through.index)
    reached, _ = block_starts(opened.fileno(), data.rindex(b"\n") + 1)
    opened.close()
    through.close()
    return found, expected, reached


@pytest.mark.parametrize("lengths", [(1,), (7,), (8,), (200,), (100, 100), (60, 1, 80), (1, 1, 1, 90)])
def test_the_backward_index_reaches_the_start_of_the_file(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    path = tmp_path / "a"
    write(path, *lengths)
    found, expected, reached = indexes_of(path)
    assert found == expected
    assert len({block.session for block in found}) == len(lengths)
    if lengths != (1, 1, 1, 90):
        assert reached == 0


def test_a_reboot_and_a_pre_roll_are_indexed(tmp_path: Path) -> None:
    first = write(tmp_path / "first", 150)
    recorder = Recorder(
        FileSink(str(tmp_path / "a")),
        Clock(),
        cmdline="full",
        min_free_bytes=0,
        preroll=first.preroll(),
        keyframe_every=9,
    )
    for number, frame in enumerate(rebooted(), 1):
        recorder.put(frame)
        if number % 50 == 0:
            wait(recorder, number)
    assert recorder.close()
    found, expected, reached = indexes_of(tmp_path / "a")
    assert found == expected
    # The pre-roll consists of a few blocks without lengths, which have to be read.
    assert found[0].pre
    assert reached <= next(block.offset for block in found if not block.pre)


def test_each_part_of_a_rotated_recording_has_its_own_blocks(tmp_path: Path) -> None:
    parts = [tmp_path / "0"]

    def next_file(sink: object) -> FileSink:
        sink.close()  # type: ignore[attr-defined]
        parts.append(tmp_path / f"{len(parts)}")
        return FileSink(str(parts[-1]))

    recorder = Recorder(
        FileSink(str(parts[0])), Clock(), cmdline="full", min_free_bytes=0, rotation=Rotation(bytes=40_000),
        rotate=next_file, keyframe_every=20,
    )  # fmt: skip
    for number, frame in enumerate(lived(1, 200), 1):
        recorder.put(frame)
        if number % 50 == 0:
            wait(recorder, number)
    assert recorder.close()
    assert len(parts) > 2
    for path in parts:
        found, expected, reached = indexes_of(path)
        assert found == expected
        assert reached <= next(block.offset for block in found if not block.pre)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_a_damaged_file_is_indexed_as_if_all_of_it_were_read(tmp_path: Path, seed: int) -> None:
    """The damage: removed lines, changed numbers, no lengths, a file appended to another, a cut end."""
    rng = random.Random(seed)
    write(tmp_path / "a", 90, 70)
    data = (tmp_path / "a").read_bytes()
    lines = data.splitlines(keepends=True)
    assert len(_BACK.findall(data)) > 20
    edited = {
        "lines removed": b"".join(line for line in lines if rng.random() < 0.9 or line.startswith(b'{"k":"hdr"')),
        "wrong": _BACK.sub(lambda _: b'"back":%d,' % rng.randrange(0, 50_000), data),
        "a few wrong": _BACK.sub(lambda m: m[0] if rng.random() < 0.8 else b'"back":1,', data),
        "no lengths": _BACK.sub(b"", data),
        "joined": data + data,
        "torn": data[: rng.randrange(len(data) // 2, len(data))],
    }
    for name, text in edited.items():
        (tmp_path / "b").write_bytes(text)
        found, expected, _ = indexes_of(tmp_path / "b")
        assert found == expected, name


def test_only_the_keyframes_of_a_long_file_are_read_when_it_is_opened(tmp_path: Path) -> None:
    write(tmp_path / "a", 200)
    recording = FileRecording(str(tmp_path / "a"))
    reached, found = block_starts(recording.fileno(), (tmp_path / "a").stat().st_size)
    assert reached == 0
    assert len(found) == len(recording.blocks) == -(-200 // 7)
    recording.close()


def test_a_header_before_its_keyframe_begins_a_session(tmp_path: Path) -> None:
    """A reader may open the file when the header of another session is written, but not yet its first keyframe."""
    path = tmp_path / "a"
    write(path, 30, 30)
    lines = path.read_bytes().splitlines(keepends=True)
    second = next(i for i, line in enumerate(lines) if i and line.startswith(b'{"k":"hdr"'))
    path.write_bytes(b"".join(lines[: second + 1]))
    early = PlainBlocks(os.open(path, os.O_RDONLY))
    with path.open("ab") as file:
        file.write(b"".join(lines[second + 1 :]))
    assert early.refresh()
    late = PlainBlocks(os.open(path, os.O_RDONLY))
    assert early.index == late.index
    assert early.index[-1].session == 2
    early.close()
    late.close()


def keyframe(back: int | None) -> bytes:
    """A line of 160 bytes that begins like a keyframe. back: the length of the block before it, or None."""
    head = b'{"k":"snap","m":1,"t":1,"key":true,' + (b"" if back is None else b'"back":%d,' % back)
    return (head + b'"seq":"').ljust(157, b"a") + b'"}\n'


def test_many_keyframes_without_a_usable_length_end_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search reads up to 2 MiB, so one for every second keyframe would take minutes."""
    searches = 0
    search = backward_index._last_start

    def counted(fd: int, end: int) -> backward_index.BlockStart | None:
        nonlocal searches
        searches += 1
        return search(fd, end)

    monkeypatch.setattr(backward_index, "_last_start", counted)
    path = tmp_path / "a"
    path.write_bytes(b'{"k":"hdr"}\n' + (keyframe(None) + keyframe(160)) * 400)
    found, expected, reached = indexes_of(path)
    assert found == expected
    assert len(found) == 800
    assert reached > 0
    assert searches <= 2 * 100 + 1  # the file is indexed twice, and a part of it once


def test_too_many_keyframes_are_refused_while_they_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotop_ai.store.format.size_limits.MOST_BLOCKS", 100)
    path = tmp_path / "a"
    path.write_bytes(b'{"k":"hdr"}\n' + keyframe(160) * 101)
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(InputError, match="more than 100 keyframes in one file"):
        block_starts(fd, path.stat().st_size)
    os.close(fd)
