"""A resumed copy whose source was replaced meanwhile, and the error message of an unreadable source."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from iotop_ai.actions.stage import copy
from iotop_ai.actions.stage.copy import copy_by_ourselves
from iotop_ai.actions.stage.ends import resolve_ends
from iotop_ai.actions.stage.partial_files import partial_name
from iotop_ai.collectors.machine.dataset_files import Entry
from iotop_ai.model.errors import UnknownError

CHUNK = 1000


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy, "CHUNK", CHUNK)


def copy_one(source: Path, folder: Path, on_bytes: Callable[[int], None] = lambda _: None) -> None:
    with resolve_ends(str(source), str(folder)) as ends:
        copy_by_ourselves(ends, on_bytes)


def interrupt_copy(source: Path, folder: Path) -> None:
    """Copy the first chunk of a file, or of the first file of a folder."""

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_one(source, folder, stop)


def test_a_partial_file_is_not_continued_with_another_file_of_the_same_name(tmp_path: Path) -> None:
    for version in ("v1", "v2", "fast"):
        (tmp_path / version).mkdir()
    for version in ("v1", "v2"):
        (tmp_path / version / "train.tar").write_bytes(version.encode() * CHUNK)
    interrupt_copy(tmp_path / "v1/train.tar", tmp_path / "fast")
    copy_one(tmp_path / "v2/train.tar", tmp_path / "fast")
    assert (tmp_path / "fast/train.tar").read_bytes() == b"v2" * CHUNK


def test_the_partial_file_of_an_interrupted_copy_is_continued(tmp_path: Path) -> None:
    (tmp_path / "fast").mkdir()
    (tmp_path / "train.tar").write_bytes(b"v1" * CHUNK)
    interrupt_copy(tmp_path / "train.tar", tmp_path / "fast")
    progress: list[int] = []
    copy_one(tmp_path / "train.tar", tmp_path / "fast", progress.append)
    assert progress == [CHUNK]
    assert (tmp_path / "fast/train.tar").read_bytes() == b"v1" * CHUNK


def test_a_partial_file_is_not_continued_when_an_older_file_replaced_the_source(tmp_path: Path) -> None:
    """tar, cp -p and rsync -t give a file the date of its original, so its mtime does not show when it got its name."""
    source, target = tmp_path / "data", tmp_path / "fast/data"
    source.mkdir()
    target.mkdir(parents=True)
    (source / "shard").write_bytes(b"old" * 1000)
    part = target / partial_name("shard", (source / "shard").stat())
    part.write_bytes(b"old" * 500)
    now_ns = part.stat().st_mtime_ns
    os.utime(part, ns=(now_ns, now_ns - 10**9))
    new = source / "new"
    new.write_bytes(b"new" * 1000)
    os.utime(new, ns=(now_ns, now_ns - 10**13))
    new.replace(source / "shard")
    with resolve_ends(str(source), str(tmp_path / "fast")) as ends:
        copy_by_ourselves(ends, lambda _: None)
    assert (target / "shard").read_bytes() == b"new" * 1000
    assert not part.exists()


def test_an_error_in_reading_the_original_names_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fast").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/shard").write_bytes(b"1")

    def denied(entry: Entry) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Entry, "open", denied)
    refusal = pytest.raises(UnknownError, match=f"^{tmp_path}/data/shard: Permission denied; the same command")
    with resolve_ends(str(tmp_path / "data"), str(tmp_path / "fast")) as ends, refusal:
        copy_by_ourselves(ends, lambda _: None)
