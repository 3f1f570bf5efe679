"""What the verification does to a file of the copy with other content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.actions.stage.test_stage import planned, verified


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with one file, whose copy has the same size and time, but other content."""
    for folder, text in (("data", b"right"), ("fast/data", b"wrong")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "shard").write_bytes(text)
        os.utime(tmp_path / folder / "shard", ns=(10**18, 10**18))
    return tmp_path / "data"


def test_a_file_with_different_content_no_longer_counts_as_copied(source: Path, tmp_path: Path) -> None:
    assert planned(source, tmp_path / "fast").there_files == 1
    assert verified(source, tmp_path / "fast").first_wrong == "shard: different content; --update copies it again"
    found = planned(source, tmp_path / "fast")
    assert (found.there_files, found.differing) == (0, 1)
    assert (tmp_path / "fast/data/shard").read_bytes() == b"wrong"


def test_a_file_with_a_second_name_keeps_its_time(source: Path, tmp_path: Path) -> None:
    """That name may be outside the copy."""
    (tmp_path / "second").hardlink_to(tmp_path / "fast/data/shard")
    assert verified(source, tmp_path / "fast").first_wrong == "shard: different content"
    assert (tmp_path / "second").stat().st_mtime_ns == 10**18
