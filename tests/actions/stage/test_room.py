"""Whether a copy of many small files fits: they take whole blocks and inodes."""

from __future__ import annotations

import os
from pathlib import Path

from iotop_ai.present.machine.staging import plan_text
from tests.actions.stage.test_stage import copy, mounted, needs_root, planned


@needs_root
def test_small_files_need_whole_blocks_of_the_target(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    for i in range(200):
        (source / str(i)).write_bytes(b"x" * 100)
    with mounted(tmp_path / "half", "-t", "tmpfs", "-o", "size=400k", "none") as half:
        found = planned(source, half)
        assert (found.left_bytes, found.new_space_bytes) == (20_000, 200 * os.sysconf("SC_PAGE_SIZE"))
        assert found.fits is False
        assert "does not fit: needs 800 KB in whole blocks, " in "\n".join(plan_text(found))
    with mounted(tmp_path / "enough", "-t", "tmpfs", "-o", "size=2m", "none") as enough:
        assert planned(source, enough).fits
        copy("own", source, enough)
        assert planned(source, enough).new_space_bytes == 0


@needs_root
def test_a_filesystem_with_too_few_inodes_does_not_fit(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    for i in range(40):
        (source / str(i)).touch()
    with mounted(tmp_path / "few", "-t", "tmpfs", "-o", "size=8m,nr_inodes=20", "none") as few:
        assert planned(source, few).fits is False


def test_what_the_target_already_has_needs_no_more_inodes(tmp_path: Path) -> None:
    source, fast = tmp_path / "data", tmp_path / "fast"
    (source / "sub").mkdir(parents=True)
    (source / "sub/a").touch()
    (source / "link").symlink_to("sub/a")
    fast.mkdir()
    assert planned(source, fast)._replace(room_bytes=1000, inodes=2).fits is False
    copy("own", source, fast)
    assert planned(source, fast)._replace(room_bytes=1000, inodes=0).fits
