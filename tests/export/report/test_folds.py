"""The sums of a run are the growth of its counters, in whatever rhythm they are read."""

from __future__ import annotations

import pytest

from iotop_ai.export.report.folds import ProcessFold
from iotop_ai.export.report.story import ProcessStory
from iotop_ai.model.process.records import ProcessIo, ProcessTable
from iotop_ai.pipeline import samples
from tests.export.make import PYTHON, S, io, ok, process_table, snapshot


def processes(at_s: int, moved: ProcessIo, **stat: int) -> ProcessTable:
    """A table of one process with these counters."""
    table = process_table(at_s * S, [(100, PYTHON, moved, "S")])
    return table._replace(delayacct=True, stat={key: one._replace(**stat) for key, one in table.stat.items()})


def program(tables: list[ProcessTable]) -> ProcessStory:
    """The program of tables that are read once a second."""
    fold = ProcessFold()
    snapshots = [snapshot(i, i * S, processes=ok(table, i * S)) for i, table in enumerate(tables, 1)]
    for one, sample in samples(snapshots):
        fold.add(one, sample)
    (found,) = fold.stories()
    return found


@pytest.mark.parametrize("period", [1, 4, 5, 7])
def test_cpu_read_every_fifth_second_is_counted_once(period: int) -> None:
    """0.8 s of CPU and 0.5 s of delay in one second of ``period``; the stat is read every 5 s, the io every second."""
    tables, bursts = [], 0
    for at_s in range(1, 102):
        bursts += at_s % period == 0
        read_s = at_s - (at_s - 1) % 5
        done = sum(second % period == 0 for second in range(1, read_s + 1))
        now = processes(at_s, io(4096 * bursts), utime_ticks=80 * done, blkio_ticks=50 * done)
        tables.append(now._replace(stat_at_ns=read_s * S, stat_at=(read_s * S,)))
    counted = sum(second % period == 0 for second in range(2, 102))
    found = program(tables)
    assert found.cpu_s == pytest.approx(0.8 * counted)
    assert found.blocked_s == pytest.approx(0.5 * counted)
    assert found.read_bytes == pytest.approx(4096 * counted)


def test_io_of_a_process_that_was_not_read_for_20_s_is_counted_in_full() -> None:
    """An adaptive sweep reads an idle process in its cohort's turn, and then every second."""
    tables = []
    for at_s in range(1, 31):
        read_s = 1 if at_s < 21 else at_s
        now = processes(at_s, io(0, 0 if at_s < 21 else 4 << 20))
        tables.append(now._replace(adaptive=True, io_at=(read_s * S,)))
    assert program(tables).written_bytes == pytest.approx(4 << 20)
