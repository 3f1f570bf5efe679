from __future__ import annotations

from iotop_ai.model.process.blocked import Wait, waits_of
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessStat, ProcessTable, ThreadLook


def stat(state: str) -> ProcessStat:
    return ProcessStat(state, 1, 0, 0, 0, 0, 0, 1, 0, 0)


def test_without_a_table_nothing_is_known() -> None:
    assert waits_of(None) == {}


def test_state_d_is_that_of_the_sampled_threads_or_else_of_the_main_thread() -> None:
    reader, sleeper, loader, main, kernel_thread = (ProcessKey(pid, 7) for pid in (10, 11, 12, 13, 14))
    info = ProcessInfo("x", ("x",), "alice", 1000)
    table = ProcessTable(
        io={},
        stat={reader: stat("D"), sleeper: stat("S"), loader: stat("S"), main: stat("D"), kernel_thread: stat("D")},
        info={**dict.fromkeys((reader, sleeper, loader, main), info), kernel_thread: info._replace(kernel=True)},
        denied=frozenset(),
        io_at_ns=0,
        stat_at_ns=0,
        stat_at=(0,),
        stat_out={},
        io_stale={},
        threads={loader: ThreadLook((("S", 3), ("D", 5)), ()), main: ThreadLook((("S", 2),), ())},
        wchan={},
    )
    assert waits_of(table) == {reader: Wait(1, 1), loader: Wait(5, 8)}
