"""Datasets on healthy storage that is slow: long reads of large files, and long listings of large folders."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.machine.dataset_files import Pinned
from iotop_ai.model.preflight.dataset import DATASET, Dataset
from iotop_ai.model.preflight.storage import MIB, Measured, Phase, is_uneven
from iotop_ai.preflight.storage import reader
from iotop_ai.preflight.storage.check import DatasetFacts, End, StorageCheck
from iotop_ai.preflight.storage.dataset import CHUNK, Files, Scanned, scan
from iotop_ai.preflight.storage.loops import InPieces
from iotop_ai.preflight.storage.reader import Bounds, Run, Stop
from iotop_ai.preflight.storage.session import Request
from tests.preflight.storage.places import mounted
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk


@pytest.mark.xdist_group("a slow disk")
@pytest.mark.skipif(bool(why_no_fuse_disk()), reason=why_no_fuse_disk() or "available")
def test_large_files_of_a_slow_disk_are_measured_in_time(tmp_path: Path) -> None:
    """Each of two readers would need 6.7 s for its file, which is longer than HANG_S."""
    phases = tuple(Phase(DATASET, 0, depth, seconds) for depth, seconds in ((0, 1.0), (1, 1.0), (2, 1.5)))
    (tmp_path / "rig").mkdir()
    with FuseDisk(tmp_path / "rig", 160) as disk:
        subprocess.run(["mkfs.ext4", "-q", "-F", disk.node], check=True)
        with mounted(tmp_path / "disk", disk.node) as place:
            for number in range(2):
                with (place / f"{number}.tar").open("wb") as file:
                    file.write(os.urandom(64 * MIB))
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            disk.set(bytes_per_s=20_000_000)
            begin = time.monotonic()
            check = StorageCheck(Request(str(place), phases, "own", write=False), Clock())
            try:
                messages = list(check.messages())
            finally:
                check.close()
                seconds = time.monotonic() - begin
                disk.set()
    assert messages[-1] == End()
    (dataset,) = (one.dataset for one in messages if isinstance(one, DatasetFacts))
    alone, together = (one for one in messages if isinstance(one, Measured))
    assert seconds < 9
    for read in (alone, together):
        assert read.bytes_per_s == pytest.approx(20e6, rel=0.4)
        assert read.size_bytes + read.unread_bytes == read.depth * 64 * MIB
        assert not is_uneven(read, dataset)


def test_each_read_of_a_file_shows_that_the_storage_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_slowly(_buffer: object, _number: int) -> Generator[tuple[int, int], None, None]:
        for left_bytes in reversed(range(100)):
            time.sleep(0.05)
            yield 1, left_bytes

    monkeypatch.setattr(reader, "HANG_S", 1.0)
    run = Run(Phase(DATASET, 1, 2, 1.5), InPieces(read_slowly), Bounds(Stop()), Clock())
    sizes: list[int] = []
    found = run.measure(lambda _ops, size, _seconds: sizes.append(size))
    assert found.ops == 2
    assert 6 < found.size_bytes < 100
    assert found.size_bytes + found.unread_bytes == 200
    assert 1.5 <= found.seconds < 4
    assert len(set(sizes)) > 5


def test_a_file_is_read_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * (2 * CHUNK + 1))
    (tmp_path / "empty").touch()
    top = Pinned(os.open(tmp_path, os.O_RDONLY), ".", str(tmp_path))
    names = (("one", False), ("empty", False), ("gone", False))
    files = Files(Scanned(Dataset(3, 2 * CHUNK + 1, True), top, names), names, 3)
    with mmap.mmap(-1, CHUNK) as buffer:
        pieces = [list(files.pieces(buffer, number)) for number in range(3)]
    os.close(top.folder)
    assert pieces == [[(CHUNK, CHUNK + 1), (CHUNK, 1), (1, 0)], [], []]


def test_the_listing_of_a_large_folder_shows_progress_before_its_first_file(tmp_path: Path) -> None:
    for number in range(5000):
        (tmp_path / str(number)).write_bytes(b"x")
    files: list[int] = []
    scanned = scan(str(tmp_path), 5.0, Clock(), lambda count, _size: files.append(count))
    os.close(scanned.top.folder)
    assert scanned.dataset.files == 5000
    assert files.count(0) >= 3  # the folder is listed once, then its first entry is shown once
