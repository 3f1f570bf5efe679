"""A PID that another process got while no descriptor was free to keep the files of the earlier process open."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.collector import COHORTS, ProcessCollector
from iotop_ai.model.process.records import ProcessKey
from tests.collectors.process.test_collector import IO, add_process

OLD, NEW, OTHER = ProcessKey(6, 60), ProcessKey(6, 600), ProcessKey(5, 50)
GREW = IO.replace("read_bytes: 5", "read_bytes: 900000000")


def replace_process(root: Path, io: str) -> None:
    shutil.rmtree(root / "proc/6")
    add_process(root, NEW.pid, NEW.start_ticks, "new", io)


def collector_of(root: Path, ticks: int) -> ProcessCollector:
    """A collector that has read two processes in several ticks."""
    add_process(root, OTHER.pid, OTHER.start_ticks)
    add_process(root, OLD.pid, OLD.start_ticks, "old")
    collector = ProcessCollector(Root(str(root)), Clock(), fd_cap=0)
    for _ in range(ticks):
        assert collector.read().io.keys() == {OTHER, OLD}
    return collector


@pytest.mark.parametrize("ticks", range(1, COHORTS + 4))
def test_the_io_of_a_new_process_is_never_shown_as_that_of_the_old_one(ticks: int, tmp_path: Path) -> None:
    collector = collector_of(tmp_path, ticks)
    replace_process(tmp_path, GREW)
    first, second = collector.read(), collector.read()
    assert (first.gone, set(first.io), set(first.stat), set(first.info)) == ((OLD,), {OTHER}, {OTHER}, {OTHER})
    assert (second.gone, set(second.io), second.denied) == ((), {OTHER, NEW}, frozenset())
    assert (second.io[NEW].read_bytes, second.info[NEW].name) == (900_000_000, "new")
    collector.close()


@pytest.mark.parametrize("ticks", range(1, COHORTS + 4))
def test_a_new_process_with_the_same_io_is_noticed_by_its_stat(ticks: int, tmp_path: Path) -> None:
    collector = collector_of(tmp_path, ticks)
    replace_process(tmp_path, IO)
    tables = [collector.read() for _ in range(COHORTS + 1)]
    assert [key for table in tables for key in table.gone] == [OLD]
    assert set(tables[-1].io) == set(tables[-1].stat) == {OTHER, NEW}
    assert tables[-1].info[NEW].name == "new"
    collector.close()


def test_a_process_that_is_replaced_right_after_it_was_found_ends(tmp_path: Path) -> None:
    class ReplacedMeanwhile(Root):
        def read_once(self, relative: str, size: int, offset: int = 0) -> bytes:
            if relative == "proc/6/io" and not (tmp_path / "replaced").exists():
                (tmp_path / "replaced").touch()
                replace_process(tmp_path, GREW)
            return super().read_once(relative, size, offset)

    add_process(tmp_path, OTHER.pid, OTHER.start_ticks)
    add_process(tmp_path, OLD.pid, OLD.start_ticks, "old")
    collector = ProcessCollector(ReplacedMeanwhile(str(tmp_path)), Clock(), fd_cap=0)
    first, second = collector.read(), collector.read()
    assert (set(first.io), set(first.stat), first.gone) == ({OTHER}, {OTHER}, ())
    assert set(second.io) == set(second.stat) == {OTHER, NEW}
    collector.close()


def test_the_io_is_stale_while_its_process_cannot_be_verified(tmp_path: Path) -> None:
    class NoStat(Root):
        fails = False

        def read_once(self, relative: str, size: int, offset: int = 0) -> bytes:
            if self.fails and relative.endswith("/stat"):
                raise OSError(errno.EMFILE, "Too many open files", relative)
            return super().read_once(relative, size, offset)

    root = NoStat(str(tmp_path))
    add_process(tmp_path, OLD.pid, OLD.start_ticks)
    collector = ProcessCollector(root, Clock(), fd_cap=0)
    collector.read()
    (tmp_path / "proc/6/io").write_text(GREW)
    root.fails = True
    table = collector.read()
    assert (table.io[OLD].read_bytes, set(table.io_stale), table.gone) == (5, {OLD}, ())
    root.fails = False
    table = collector.read()
    assert (table.io[OLD].read_bytes, set(table.io_stale)) == (900_000_000, set())
    collector.close()
