from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.process.records import ProcessKey
from iotop_ai.present.process.groups import groups
from iotop_ai.present.process.table import process_rows
from iotop_ai.present.process.tree import MOST_INDENTS, branches, with_ancestors
from tests.present.make import MIB, Proc
from tests.present.process.test_table import UTC, made

TREE = UTC._replace(tree=True)
PROCS = (
    Proc(1, "init", "root", ppid=0),
    Proc(10, "shell", ppid=1),
    Proc(11, "train", ppid=10, cpu=0.5),
    Proc(12, "worker", ppid=11, read=4 * MIB),
    Proc(13, "worker", ppid=11, read=8 * MIB),
    Proc(20, "cron", "root", ppid=1, write=MIB),
    Proc(21, "idle", "root", ppid=20),
)


def shown(pattern: str = "", **more: object) -> list[str]:
    return [g.mark + g.name for g in groups(made(*PROCS), TREE._replace(pattern=pattern, **more))]  # type: ignore[arg-type]


def test_each_process_is_below_its_parent_and_the_busiest_branch_is_first() -> None:
    assert shown() == [
        "init", "├ shell", "│ └ train", "│   ├ worker", "│   └ worker", "└ cron", "  └ idle",
    ]  # fmt: skip
    pids = [g.keys[0].pid for g in groups(made(*PROCS), TREE)]
    assert pids == [1, 10, 11, 13, 12, 20, 21]


def test_a_filter_keeps_ancestors() -> None:
    assert shown("idle") == ["init", "└ cron", "  └ idle"]
    assert shown("read > 5M") == ["init", "└ shell", "  └ train", "    └ worker"]
    assert shown("nobody here") == []


def test_showing_only_active_processes_keeps_ancestors() -> None:
    assert "  └ idle" not in shown(only_active=True)
    assert len(shown(only_active=True)) == 6


def test_a_kernel_thread_is_listed_while_it_is_active_or_if_it_matches_the_filter() -> None:
    active = made(Proc(2, "kthreadd", ppid=0, kernel=True), Proc(3, "kworker", ppid=2, kernel=True, write=MIB), *PROCS)
    for only_active in (False, True):
        names = {g.mark + g.name for g in groups(active, TREE._replace(only_active=only_active))}
        assert {"kthreadd", "└ kworker"} <= names
    idle = made(Proc(2, "kthreadd", ppid=0, kernel=True), Proc(3, "kworker", ppid=2, kernel=True), *PROCS)
    assert "kworker" not in {g.name for g in groups(idle, TREE)}
    assert "kworker" in {g.name for g in groups(idle, TREE._replace(pattern="kworker"))}


def test_the_tree_is_sorted_by_name_or_reversed() -> None:
    assert shown(sort="name")[:2] == ["init", "├ cron"]
    assert shown(sort="write")[:2] == ["init", "├ cron"]
    assert shown(sort="write", reverse=True)[:2] == ["init", "├ shell"]


def test_rows_fit_80_columns() -> None:
    lines = process_rows(made(*PROCS), TREE, 80, 9)
    assert "tree by io" in lines[0].text
    assert lines[4].text.startswith(" │   ├ worker ")
    assert all(len(line.text) == 80 for line in lines)


@given(st.dictionaries(st.integers(1, 40), st.integers(0, 40), max_size=30))
def test_every_process_has_one_row_after_its_parent(ppids: dict[int, int]) -> None:
    # A parent is older than its child, so there can be no cycle.
    parent_of = {ProcessKey(p, 0): ProcessKey(q, 0) for p, q in ppids.items() if q in ppids and q < p}
    order = branches({ProcessKey(p, 0): (float(p),) for p in ppids}, parent_of)
    place = {key: i for i, (key, _) in enumerate(order)}
    assert len(order) == len(place) == len(ppids)
    for key, parent in parent_of.items():
        assert place[parent] < place[key]
    assert all(len(mark) <= 2 * MOST_INDENTS + 2 for _, mark in order)


def test_each_ancestor_is_listed_once() -> None:
    a, b, c = (ProcessKey(n, 0) for n in (1, 2, 3))
    assert with_ancestors([c, b], {c: b, b: a}) == {a, b, c}


def test_a_younger_process_that_now_has_the_pid_of_the_parent_is_not_the_parent() -> None:
    stale = made(Proc(1, "init", ppid=0), Proc(11, "train", ppid=12), Proc(12, "worker", ppid=11))
    assert [g.mark + g.name for g in groups(stale, TREE)] == ["init", "train", "└ worker"]
