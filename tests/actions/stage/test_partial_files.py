"""The partial files that interrupted copies left in the target: removed when no later run can continue them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.actions.stage import copy
from iotop_ai.actions.stage.partial_files import partial_name
from iotop_ai.model.errors import UnknownError
from tests.actions.stage.test_resume import CHUNK, copy_one, interrupt_copy
from tests.actions.stage.test_stage import verified


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of three chunks. The folder for the copy exists too."""
    monkeypatch.setattr(copy, "CHUNK", CHUNK)
    (tmp_path / "fast").mkdir()
    (tmp_path / "data/sub").mkdir(parents=True)
    (tmp_path / "data/sub/shard").write_bytes(bytes(3 * CHUNK))
    return tmp_path / "data"


def test_the_partial_file_of_a_renamed_original_is_removed(source: Path, tmp_path: Path) -> None:
    copied = tmp_path / "fast/data/sub"
    interrupt_copy(source, tmp_path / "fast")
    assert os.listdir(copied) == [partial_name("shard", (source / "sub/shard").stat())]
    (source / "sub/shard").rename(source / "sub/renamed")
    copy_one(source, tmp_path / "fast")
    assert os.listdir(copied) == ["renamed"]
    assert copied.stat().st_mtime_ns == (source / "sub").stat().st_mtime_ns


def test_a_file_of_the_source_that_is_named_like_a_partial_file_is_kept(source: Path, tmp_path: Path) -> None:
    name = partial_name("shard")
    (source / "sub/shard").rename(source / "sub" / name)
    copy_one(source, tmp_path / "fast")
    assert os.listdir(tmp_path / "fast/data/sub") == [name]
    assert verified(source, tmp_path / "fast").wrong == 0


def test_a_partial_file_that_another_run_writes_is_kept(source: Path, tmp_path: Path) -> None:
    interrupt_copy(source, tmp_path / "fast")
    part = tmp_path / "fast/data/sub" / partial_name("shard", (source / "sub/shard").stat())
    with part.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UnknownError, match="sub/shard: another run is copying this file"):
            copy_one(source, tmp_path / "fast")
        (source / "sub/shard").rename(source / "sub/renamed")
        copy_one(source, tmp_path / "fast")
        assert part.exists()
    copy_one(source, tmp_path / "fast")
    assert not part.exists()


def test_a_partial_file_that_another_run_finishes_meanwhile_does_not_end_the_copy(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_copy(source, tmp_path / "fast")
    copied = tmp_path / "fast/data/sub/shard"
    part = copied.with_name(partial_name("shard", (source / "sub/shard").stat()))
    status_of = os.stat

    def stat_after_rename(path: Any, **options: Any) -> os.stat_result:
        if path == part.name and not copied.exists():
            part.rename(copied)
        return status_of(path, **options)

    monkeypatch.setattr(os, "stat", stat_after_rename)
    copy_one(source, tmp_path / "fast")
    assert copied.read_bytes() == bytes(3 * CHUNK)
    assert not part.exists()


def test_a_partial_file_is_locked_while_it_is_written(source: Path, tmp_path: Path) -> None:
    part = tmp_path / "fast/data/sub" / partial_name("shard", (source / "sub/shard").stat())
    refusals = 0

    def fail_to_lock(_: int) -> None:
        nonlocal refusals
        with part.open("r+b") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        refusals += 1

    copy_one(source, tmp_path / "fast", fail_to_lock)
    assert refusals == 3


def test_beside_a_single_file_only_its_own_partial_files_are_removed(source: Path, tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "train.tar").write_bytes(bytes(2 * CHUNK))
    interrupt_copy(source / "sub/shard", tmp_path / "fast")
    interrupt_copy(tmp_path / "v1/train.tar", tmp_path / "fast")
    copy_one(tmp_path / "v2/train.tar", tmp_path / "fast")
    kept = partial_name("shard", (source / "sub/shard").stat())
    assert sorted(os.listdir(tmp_path / "fast")) == [kept, "train.tar"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file to another user")
def test_a_partial_file_of_another_user_is_kept(source: Path, tmp_path: Path) -> None:
    copy_one(source, tmp_path / "fast")
    other = tmp_path / "fast/data/sub" / partial_name("other")
    other.touch()
    os.chown(other, 65534, 65534)
    copy_one(source, tmp_path / "fast")
    assert other.exists()
