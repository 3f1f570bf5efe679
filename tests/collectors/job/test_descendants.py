"""The descendants of training processes, followed from one process table to the next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.collectors.job.descendants import Descendants
from iotop_ai.model.process.change_tracking import TrackedDictBuilder
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessStat, ProcessTable

INFO = ProcessInfo("x", ("x",), "a", 0)


def table_of(parents: dict[ProcessKey, int], builder: TrackedDictBuilder[ProcessKey, ProcessInfo]) -> ProcessTable:
    builder.mark_published()
    for key in [key for key in builder.now if key not in parents]:
        builder.drop(key)
    for key in parents:
        if key not in builder.now:
            builder.put(key, INFO)
    stat = {key: ProcessStat("S", ppid, 0, 0, 0, 0, 0, 1, 0, 0) for key, ppid in parents.items()}
    return ProcessTable({}, stat, builder.now, frozenset(), 0, 0, (0,), {}, {}, {}, {})


def key(pid: int) -> ProcessKey:
    return ProcessKey(pid, pid)


def test_a_child_whose_parent_exits_stays_a_descendant() -> None:
    followed, builder = Descendants(), TrackedDictBuilder[ProcessKey, ProcessInfo]()
    tree = {key(1): 0, key(10): 1, key(11): 10, key(12): 11, key(20): 1}
    assert followed.update(table_of(tree, builder), [key(10)]) == {key(10): {key(11), key(12)}}
    orphaned = {key(1): 0, key(10): 1, key(12): 1, key(20): 1}
    assert followed.update(table_of(orphaned, builder), [key(10)]) == {key(10): {key(12)}}


def test_an_orphan_stays_a_descendant_when_another_training_process_starts() -> None:
    followed, builder = Descendants(), TrackedDictBuilder[ProcessKey, ProcessInfo]()
    tree = {key(1): 0, key(10): 1, key(11): 10, key(12): 11, key(20): 1}
    followed.update(table_of(tree, builder), [key(10)])
    orphaned = {key(1): 0, key(10): 1, key(12): 1, key(20): 1}
    table = table_of(orphaned, builder)
    assert followed.update(table, [key(10), key(20)]) == {key(10): {key(12)}, key(20): frozenset()}
    assert followed.update(table, [key(20)]) == {key(20): frozenset()}


def test_descendants_of_an_inner_training_process_belong_to_that_process() -> None:
    tree = {key(1): 0, key(10): 1, key(11): 10, key(12): 11}
    found = Descendants().update(table_of(tree, TrackedDictBuilder()), [key(10), key(11)])
    assert found == {key(10): frozenset(), key(11): {key(12)}}


@given(st.lists(st.dictionaries(st.integers(2, 30), st.integers(1, 30), max_size=29), min_size=1, max_size=6))
def test_the_followed_descendants_include_those_of_a_full_search(turns: list[dict[int, int]]) -> None:
    followed, builder = Descendants(), TrackedDictBuilder[ProcessKey, ProcessInfo]()
    seen: dict[int, int] = {}
    ended: set[int] = set()
    for turn in turns:
        # A child is born to a process that exists. If its parent ends, process 1 adopts it. No process returns.
        alive = {*turn, 1, 2} - ended
        born = {pid: ppid if ppid in alive and ppid < pid else 1 for pid, ppid in turn.items() if pid in alive}
        ended |= seen.keys() - alive
        parents = {pid: seen.get(pid, ppid) for pid, ppid in born.items()}
        seen = {pid: ppid if ppid in alive else 1 for pid, ppid in parents.items()} | {2: 1}
        tree = {key(1): 0, **{key(pid): ppid for pid, ppid in seen.items()}}
        found = followed.update(table_of(tree, builder), [key(2)])[key(2)]
        full = {pid for pid in seen if pid != 2 and 2 in _above(pid, seen)}
        assert full <= {one.pid for one in found} <= set(seen) - {2}


def _above(pid: int, parents: dict[int, int]) -> list[int]:
    out = []
    while pid in parents:
        pid = parents[pid]
        out.append(pid)
    return out
