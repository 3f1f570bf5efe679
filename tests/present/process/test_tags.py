"""Tags belong to processes and not to rows: how they are shown, when they end, and what is copied."""

from __future__ import annotations

import pytest

from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading
from iotop_ai.present.process.dialog import process_body, tagged_target
from iotop_ai.present.process.groups import groups
from iotop_ai.present.process.table import process_rows, process_text
from iotop_ai.present.process.tags import existing_tags, tag_sign, tagged_note, toggle_tags
from iotop_ai.present.screen.dialog import inner_width
from iotop_ai.present.text.typed_text import TypedText
from tests.present.make import Proc
from tests.present.process.test_table import PROCS, UTC, labels, made

FRAME = made()
KEYS = {key.pid: key for key in FRAME.snapshot.processes.value.info}  # type: ignore[union-attr]
WORKERS = frozenset(KEYS[pid] for pid in range(100, 104))
SOME = frozenset((KEYS[100], KEYS[201]))


def test_all_processes_of_a_row_are_tagged_and_untagged() -> None:
    workers = sorted(WORKERS)
    assert toggle_tags(frozenset(), workers) == WORKERS
    assert toggle_tags(SOME, workers) == WORKERS | SOME
    assert toggle_tags(WORKERS | SOME, workers) == {KEYS[201]}
    assert [tag_sign(workers, tags) for tags in (frozenset(), SOME, WORKERS)] == ["", "+", "*"]


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("width", [60, 80, 160])
def test_tagged_rows_are_visible_without_colour_and_are_counted(width: int, ascii_only: bool) -> None:
    view = UTC._replace(tagged=SOME, ascii_only=ascii_only)
    rows = [line.text for line in process_rows(FRAME, view, width, 9)]
    assert " process 2 tagged" in rows[0]
    assert {len(row) for row in rows} == {width}
    assert [row[0] for row in rows[1:4]] == ["+", " ", "*"]
    assert rows[1][1:].startswith("worker x4")
    plain = [line.text for line in process_rows(FRAME, UTC, width, 9)]
    assert [row[1:] for row in rows[1:]] == [row[1:].replace("─", "-" if ascii_only else "─") for row in plain[1:]]


def test_the_count_of_tags_is_cut_last() -> None:
    assert tagged_note(frozenset(), "by io", 5) == "by io"
    assert [tagged_note(SOME, "by io", room) for room in (20, 15, 9, 3)] == ["2 tagged, by io"] * 2 + ["2 tagged", "2*"]
    assert tagged_note(SOME, "/\u8a13\u7df4", 14) == "2 tagged"


@pytest.mark.parametrize("changes", [{"sort": "name"}, {"pattern": "spin"}, {"tree": True}, {"reverse": True}])
def test_sorting_filtering_and_the_tree_keep_tags(changes: dict[str, object]) -> None:
    view = UTC._replace(tagged=SOME, **changes)
    rows = [line.text for line in process_rows(FRAME, view, 100, 20)]
    assert [row[0] for row in rows if "spinner" in row] == ["*"]


def test_the_filter_finds_tagged_processes() -> None:
    view = UTC._replace(tagged=SOME, pattern="tagged")
    assert labels(FRAME, view) == ["worker", "spinner"]
    assert "2 of 10 match tagged" in process_rows(FRAME, view, 80, 9)[-1].text
    assert labels(FRAME, view._replace(pattern="tagged and read > 1M")) == ["worker"]
    assert labels(FRAME, view._replace(pattern="not tagged and user = bob")) == ["writer"]
    assert labels(FRAME, view._replace(tagged=frozenset())) == []
    assert {group.name for group in groups(FRAME, view._replace(tree=True))} >= {"worker", "spinner"}


def test_a_tag_ends_with_its_process_and_is_not_inherited_with_its_pid() -> None:
    now = FRAME.snapshot
    later = made(*(proc for proc in PROCS if proc.pid != 201)).snapshot
    assert existing_tags(SOME, now) is SOME
    assert existing_tags(SOME, later) == {KEYS[100]}
    # the process still exists at the earlier moment that is shown
    assert existing_tags(SOME, later, now) is SOME
    reused_pid = ProcessKey(100, KEYS[100].start_ticks + 1)
    assert existing_tags(frozenset((reused_pid,)), now) == frozenset()
    unread = now._replace(processes=Reading())
    assert existing_tags(SOME, unread) is SOME


def test_tagged_processes_are_copied_one_per_row_in_screen_order() -> None:
    lines = process_text(FRAME, UTC._replace(tagged=WORKERS, sort="cpu"), WORKERS | {KEYS[300]}, 120)
    assert lines[0].split()[:2] == ["process", "by"]
    assert "─" not in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["worker"] * 4 + ["sleeper"]
    assert lines[0].index("read/s") < lines[0].index("pid")
    assert [line.split()[-1] for line in lines[1:5]] == ["103", "102", "101", "100"]


def test_a_command_line_is_not_copied() -> None:
    one = made(Proc(5, "x", cmdline=("x", "--token=s3cret")))
    table = one.snapshot.processes.value
    assert table is not None
    assert "s3cret" in process_rows(one, UTC, 250, 9)[1].text
    (_, row) = process_text(one, UTC, [key for key in table.info if key.pid == 5], 250)
    assert "s3cret" not in row


def test_the_dialog_lists_some_processes_and_counts_the_rest() -> None:
    target = tagged_target(FRAME.snapshot, WORKERS | SOME | {ProcessKey(9, 9)})
    assert target is not None
    assert (target.label, len(target.keys)) == ("5 tagged", 5)
    width = inner_width(80)
    head, tail = process_body(FRAME.snapshot, target, TypedText(), "", width)
    lines = ["".join(span.text for span in spans) for spans in (*head, *tail)]
    assert [line.split() for line in lines[:2]] == [
        ["tagged", "100", "worker", "of", "alice"],
        ["101", "worker", "of", "alice"],
    ]
    assert lines[4].strip() == "+1 more"
    assert any("it applies to all 5 of them" in line for line in lines)
    assert any(" ".join(line.split()) == "logged in the recording and the audit log" for line in lines)
    one = tagged_target(FRAME.snapshot, {KEYS[201]})
    assert one is not None
    assert one.label == "1 tagged"
    assert tagged_target(FRAME.snapshot, {ProcessKey(9, 9)}) is None
    assert tagged_target(FRAME.snapshot._replace(processes=Reading()), WORKERS) is None


def test_the_dialog_reports_processes_of_another_user() -> None:
    target = tagged_target(FRAME.snapshot, WORKERS)
    assert target is not None
    table = FRAME.snapshot.processes.value
    assert table is not None
    owner = table.info[next(iter(WORKERS))].uid
    for euid, refused in ((0, False), (owner, False), (owner + 1, True), (None, False)):
        now = FRAME.snapshot._replace(host=FRAME.snapshot.host._replace(euid=euid))
        head, _ = process_body(now, target, TypedText(), "", inner_width(80))
        text = " ".join(span.text for spans in head for span in spans)
        assert ("belongs to another user" in text) is refused
