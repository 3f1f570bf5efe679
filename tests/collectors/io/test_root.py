"""Reading files through Root, and reading folders of symbolic links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.collectors.io.root import Root, absolute_path
from tests.rigs.descriptors import too_many_open_files
from tests.rigs.unreadable import unreadable


def test_links_of_a_folder_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "7" / "fd"
    folder.mkdir(parents=True)
    for number, target in ((0, "/dev/null"), (1, "pipe:[9]"), (2, "socket:[10]")):
        (folder / str(number)).symlink_to(target)
    (folder / "3").write_text("not a link")
    root = Root(str(tmp_path))
    everything = {"0": "/dev/null", "1": "pipe:[9]", "2": "socket:[10]"}
    assert root.links("proc/7/fd", 100) == everything
    some = root.links("proc/7/fd", 2)
    assert some is not None
    assert some.items() <= everything.items()
    assert len(some) <= 2


def test_a_missing_folder_and_a_file_have_no_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Root(str(tmp_path)).links("missing", 9) is None
    assert Root(str(tmp_path)).links("file", 9) is None


def test_links_of_open_descriptors_are_read() -> None:
    reader, writer = os.pipe()
    try:
        links = Root().links("proc/self/fd", 512)
        assert links is not None
        assert links[str(reader)] == links[str(writer)] == f"pipe:[{os.fstat(reader).st_ino}]"
    finally:
        os.close(reader)
        os.close(writer)


class SeqFile:
    """Reads like those of a seq_file: whole records, as many as fit in its buffer of one page, from the offset on.

    Source: fs/seq_file.c, seq_read_iter.
    """

    def __init__(self, *records: bytes) -> None:
        self.records = records
        self.reads = 0

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self.reads += 1
        out, at = b"", 0
        for record in self.records:
            rest = record[max(0, offset - at) :]
            if out and len(out) + len(rest) > 4096:
                break
            out += rest
            at += len(record)
        return out[:size]


@pytest.mark.parametrize("sizes", [(300, 900, 3200, 40), (2000, 3000, 3000), (100,), (5000, 50), ()])
def test_a_file_of_several_records_is_read_to_its_end(
    sizes: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mountstats").write_bytes(b"")
    file = SeqFile(*(b"%c" % (65 + number) * size for number, size in enumerate(sizes)))
    root = Root(str(tmp_path))
    monkeypatch.setattr("iotop_ai.collectors.io.root.os.pread", file.pread)
    assert root.read("mountstats") == b"".join(file.records)
    with root.keep("mountstats") as kept:
        assert [kept.read(), kept.read()] == [b"".join(file.records)] * 2


def test_a_record_that_fits_the_buffer_takes_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "size").write_bytes(b"")
    root = Root(str(tmp_path))
    for record, reads in ((b"4096\n", 1), (b"x" * 5000, 3)):
        file = SeqFile(record)
        monkeypatch.setattr("iotop_ai.collectors.io.root.os.pread", file.pread)
        with root.keep("size", 4096) as kept:
            assert (kept.read_record(), file.reads) == (record, reads)


def test_an_absolute_path_leads_to_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "runs").mkdir(parents=True)
    (tmp_path / "data" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "data" / "runs")
    monkeypatch.chdir(tmp_path)
    assert os.path.samefile(absolute_path("link/../file"), tmp_path / "data" / "file")
    assert absolute_path("data/./runs/") == str(tmp_path / "data" / "runs")
    assert absolute_path("data/../data/runs/") == f"{tmp_path}/data/../data/runs"


def test_only_a_missing_folder_has_no_entries(tmp_path: Path) -> None:
    (tmp_path / "sys/block/sda").mkdir(parents=True)
    root = Root(str(tmp_path))
    assert (root.entries("sys/block"), root.entries("sys/class")) == (["sda"], [])
    with unreadable(tmp_path / "sys/block"), pytest.raises(PermissionError):
        root.entries("sys/block")
    with too_many_open_files(), pytest.raises(OSError, match="Too many open files"):
        root.entries("sys/block")
