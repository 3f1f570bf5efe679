from __future__ import annotations

import re

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.present.process.groups import groups, selected_group
from iotop_ai.present.process.table import SHOWN, column_state, process_rows
from iotop_ai.present.screen.view import View
from tests.present.make import KIB, MIB, START_NS, Machine, Proc, frame, snapshots

UTC = View(utc_offset_s=0)
PROCS = (
    *(Proc(100 + n, "worker", read=2 * MIB, cpu=0.5 + 0.1 * n, blocked=0.25 * n, state="DS"[n > 1]) for n in range(4)),
    Proc(200, "writer", "bob", write=5 * MIB, cpu=0.1),
    Proc(201, "spinner", "bob", cpu=1.0, state="R"),
    Proc(300, "sleeper", "root"),
    Proc(301, "secret", "eve", denied=True),
    Proc(302, "kworker", "root", kernel=True),
    Proc(4242, "iotop-ai", "alice"),
)


def made(*procs: Proc, count: int = 5, **more: object) -> Frame:
    machine = Machine(procs=procs or PROCS, **more)  # type: ignore[arg-type]
    return frame(snapshots(lambda i: machine, count))


def labels(one: Frame, view: View = UTC) -> list[str]:
    return [group.label for group in groups(one, view)]


def test_processes_of_one_name_are_one_row_with_the_sum_of_their_bytes() -> None:
    first = groups(made(), UTC)[0]
    assert first.label == "worker x4"
    assert first.rates.read_bytes_per_s == pytest.approx(8 * MIB)
    assert first.rates.cpu_ratio == pytest.approx(0.8)
    assert first.rates.io_delay_ratio == pytest.approx(0.75)


def test_a_row_is_a_group_or_in_the_tree_a_process() -> None:
    workers = (Proc(100, "worker"), Proc(200, "worker", read=MIB), Proc(300, "worker", read=MIB))
    fewer, more = made(*workers), made(workers[0]._replace(read=MIB), *workers[1:])
    assert [g.row_key for g in groups(fewer, UTC)] == ["process:active:alice:worker", "process:idle:alice:worker"]
    assert [g.row_key for g in groups(more, UTC)] == ["process:active:alice:worker"]
    tree = groups(fewer, UTC._replace(tree=True))
    assert sorted(g.row_key for g in tree) == ["process:100", "process:200", "process:300"]


@pytest.mark.parametrize("tree", [False, True])
def test_the_monitor_itself_is_listed_while_it_is_active(tree: bool) -> None:
    shown = made()
    for name, listed in (("spinner", True), ("sleeper", False)):
        pid = next(key.pid for key, info in shown.snapshot.processes.value.info.items() if info.name == name)  # type: ignore[union-attr]
        own = shown._replace(snapshot=shown.snapshot._replace(own=shown.snapshot.own._replace(pid=pid)))
        assert (name in {group.name for group in groups(own, UTC._replace(tree=tree))}) is listed


def test_idle_kernel_threads_and_the_idle_monitor_are_not_listed() -> None:
    assert labels(made()) == ["worker x4", "writer", "spinner", "sleeper", "secret"]
    assert labels(made(), UTC._replace(only_active=True)) == ["worker x4", "writer", "spinner"]


def test_a_list_that_has_the_whole_screen_shows_idle_kernel_threads_too() -> None:
    threads = [Proc(900 + number, f"kworker/{number}", "root", kernel=True) for number in range(60)]
    shown, zoomed = made(Proc(1, "reader", read=MIB), Proc(2, "bash"), *threads), UTC._replace(zoom="process")
    assert labels(shown) == ["reader", "bash"]
    assert labels(shown, zoomed) == ["reader", "bash", *(f"kworker/{number}" for number in range(60))]
    assert labels(shown, zoomed._replace(only_active=True)) == ["reader"]
    lines = process_rows(shown, zoomed, 160, 46)
    assert len(lines) == 46
    assert lines[-1].text.startswith(" 18 more, none with I/O")
    tree = process_rows(shown, zoomed._replace(tree=True), 160, 46)
    assert (len(tree), tree[-1].text.strip()) == (46, "18 more, none with I/O")


@pytest.mark.parametrize(
    ("sort", "first"),
    [("io", "worker x4"), ("write", "writer"), ("cpu", "spinner"), ("delay", "worker x4"), ("read", "worker x4")],
)
def test_rows_are_sorted(sort: str, first: str) -> None:
    assert labels(made(), UTC._replace(sort=sort))[0] == first


def test_rows_are_sorted_by_name_or_reversed() -> None:
    names = [label.split()[0] for label in labels(made(), UTC._replace(sort="name", only_active=True))]
    assert names == sorted(names)
    reversed_labels = labels(made(), UTC._replace(sort="name", only_active=True, reverse=True))
    assert [label.split()[0] for label in reversed_labels] == names[::-1]


@pytest.mark.parametrize(
    ("typed", "found"),
    [("WORK", ["worker x4", "kworker"]), ("^w", ["worker x4", "writer"]), ("bob", ["writer", "spinner"]), ("[", [])],
)
def test_a_filter_is_a_regular_expression_or_plain_text(typed: str, found: list[str]) -> None:
    assert labels(made(), UTC._replace(pattern=typed)) == found


def test_a_filter_searches_the_command_line() -> None:
    one = made(Proc(1, "python", cmdline=("python", "train.py", "--lr[0]")), Proc(2, "bash"))
    assert labels(one, UTC._replace(pattern="lr[")) == ["python train.py"]


def test_a_row_shows_known_and_unknown_figures() -> None:
    lines = process_rows(made(), UTC, 80, 8)
    assert lines[1].text.split() == ["worker", "x4", "alice", "8.0", "M", "0", "75", "80", "D", "2/4", "100", "+3"]
    assert lines[5].text.split() == ["secret", "eve", "?", "?", "?", "0", "S", "301"]
    assert [line.key for line in lines[1:6]] == [group.row_key for group in groups(made(), UTC)]


def test_delay_accounting_that_is_off_is_reported_once_with_its_remedy() -> None:
    lines = process_rows(made(delayacct=False), UTC, 80, 6)
    assert "IO-wait" not in lines[0].text
    assert "IO-wait" in process_rows(made(), UTC, 80, 6)[0].text
    assert "sysctl kernel.task_delayacct=1" in lines[-1].text
    assert "? 1 unreadable" in lines[-1].text
    wide = process_rows(made(delayacct=False), UTC, 160, 6)[-1].text
    assert "1 of other users unreadable (sudo shows them); IO-wait off: sysctl" in wide


def test_a_recording_gives_no_advice_about_the_machine_that_replays_it() -> None:
    replay = UTC._replace(mode="replay")
    for width in (80, 160):
        text = process_rows(made(delayacct=False), replay, width, 6)[-1].text
        assert "unreadable; IO-wait off " in text
        assert "sudo" not in text


def test_the_footer_counts_the_processes_without_a_row() -> None:
    assert process_rows(made(), UTC, 80, 3)[-1].text.startswith(" 6 more, none over 5 MB/s; ? 1 of other")
    assert process_rows(made(), UTC, 80, 4)[-1].text.startswith(" 5 more, none with I/O;")
    assert process_rows(made(), UTC._replace(pattern="bob"), 80, 4)[-1].text.startswith(" 2 of 10 match bob")


@pytest.mark.parametrize(
    ("most", "limit"),
    [
        (1, "10 KB/s"),
        (301.5 * KIB, "310 KB/s"),
        (8.31 * MIB, "8.4 MB/s"),
        (309 * MIB, "310 MB/s"),
        (990 * MIB, "990 MB/s"),
        (991 * MIB, "0.97 GB/s"),
        (1536 * MIB, "1.5 GB/s"),
        (21.5 * KIB * MIB, "22 GB/s"),
    ],
)
def test_the_footer_gives_the_largest_hidden_rate_rounded_up(most: float, limit: str) -> None:
    rates = (2 * most, most, most / 2)
    shown = made(*(Proc(pid, f"reader{pid}", read=rate) for pid, rate in enumerate(rates, 1)))
    assert process_rows(shown, UTC, 120, 3)[-1].text.strip() == f"2 more, none over {limit}"


def test_the_footer_of_a_scrolled_list_counts_the_processes_above_its_rows() -> None:
    scrolled = UTC._replace(focus="process", scroll=1)
    assert process_rows(made(), UTC, 80, 4)[1].text.startswith(" worker x4")
    assert process_rows(made(), scrolled, 80, 4)[-1].text.startswith(" 4 above, 4 below; ")
    wide = process_rows(made(), scrolled, 160, 4)[-1].text
    assert wide.startswith(" 4 above, 4 below, none over 8 MB/s; "), wide
    filtered = process_rows(made(), scrolled._replace(pattern="user != x"), 80, 4)[-1].text
    assert " match user != x; 4 above; " in filtered, filtered


@pytest.mark.parametrize("at", [0, 1, -1])
def test_the_row_under_the_cursor_is_shown_although_the_order_changed(at: int) -> None:
    shown = made()
    cursor = groups(shown, UTC)[at].row_key
    for scroll in (0, 99):
        rows = process_rows(shown, UTC._replace(focus="process", cursor=cursor, scroll=scroll), 80, 4)
        assert [line.key for line in rows if line.background == "sel"] == [cursor]


def test_before_the_first_rate_no_row_claims_that_there_is_no_io() -> None:
    first = made(count=1)
    assert process_rows(first, UTC, 80, 1)[0].text.strip() == "10 processes"
    footer = process_rows(first, UTC._replace(only_active=True), 80, 6)[-1].text
    assert footer.startswith(" 10 more; ")


def test_a_large_number_of_threads_is_not_cut() -> None:
    shown = made(*(Proc(100 + n, "worker", read=MIB, threads=200) for n in range(64)))
    head, row = (line.text for line in process_rows(shown, UTC, 240, 5)[:2])
    end = head.index(" thr ") + 4
    assert row[:end].split()[-1] == "13k"


def test_sums_since_the_base_are_shown() -> None:
    machine = Machine(procs=PROCS)
    taken = snapshots(lambda i: machine, 11)
    lines = process_rows(frame(taken), UTC._replace(base=taken[0]), 80, 5)
    assert "sum of 10 s" in lines[0].text
    assert "read/s" not in lines[0].text
    assert lines[1].text.split()[3:5] == ["80.0", "M"]


def test_a_sum_is_the_growth_of_the_counters_even_if_they_were_read_earlier() -> None:
    machine = Machine(procs=(Proc(1, "python", read=MIB),))
    taken = snapshots(lambda i: machine, 11)
    table = taken[-1].processes.value
    assert table is not None
    (key,) = table.io
    earlier = table._replace(io_stale={key: table.io_at_ns - 4 * 10**9})
    taken[-1] = taken[-1]._replace(processes=taken[-1].processes._replace(value=earlier))
    lines = process_rows(frame(taken), UTC._replace(base=taken[0]), 80, 5)
    assert lines[1].text.split()[2:4] == ["10.0", "M"]


def test_faults_since_the_base_are_summed() -> None:
    machine = Machine(procs=(Proc(1, "python", read=KIB, faults=7),))
    taken = snapshots(lambda i: machine, 11)
    for view, title, value in ((UTC, "majflt/s", "7"), (UTC._replace(base=taken[0]), "majflt", "70")):
        head, row = (line.text for line in process_rows(frame(taken), view, 240, 5)[:2])
        end = head.index(f"{title} ") + len(title)
        assert row[:end].split()[-1] == value


def test_a_sum_of_faults_is_the_growth_of_the_counter_even_if_it_was_read_earlier() -> None:
    machine = Machine(procs=(Proc(1, "python", read=KIB, faults=7),))
    taken = snapshots(lambda i: machine, 11)
    table = taken[-1].processes.value
    assert table is not None
    earlier_ns = table.stat_at_ns - 4 * 10**9
    earlier = table._replace(stat_at_ns=earlier_ns, stat_at=(earlier_ns,) * len(table.stat_at))
    taken[-1] = taken[-1]._replace(processes=taken[-1].processes._replace(value=earlier))
    head, row = (line.text for line in process_rows(frame(taken), UTC._replace(base=taken[0]), 240, 5)[:2])
    assert row[: head.index("majflt ") + len("majflt")].split()[-1] == "70"


def test_a_panel_of_one_row_names_the_busiest_process() -> None:
    (line,) = process_rows(made(), UTC, 60, 1)
    assert line.text.rstrip() == " worker x4  read 8.0 M/s  IO-wait 75 %  state D"
    (quiet,) = process_rows(made(Proc(1, "bash")), UTC, 60, 1)
    assert quiet.text.strip() == "1 process, none with I/O"
    (hidden,) = process_rows(made(Proc(1, "bash"), Proc(2, "secret", "eve", denied=True)), UTC, 60, 1)
    assert hidden.text.strip() == "2 processes, none with I/O, 1 unreadable"


@pytest.mark.parametrize("height", [1, 2])
@pytest.mark.parametrize("sort", ["io", "cpu", "name"])
def test_a_low_panel_shows_the_process_that_the_keys_act_on(height: int, sort: str) -> None:
    shown, focused = made(), UTC._replace(focus="process", sort=sort)
    for view in (focused, *(focused._replace(cursor=group.row_key) for group in groups(shown, focused))):
        lines, acted = process_rows(shown, view, 80, height), selected_group(shown, view)
        assert acted is not None
        assert len(lines) == height
        assert (lines[-1].key, lines[-1].background) == (acted.row_key, "sel" if view.cursor else "")
        assert lines[-1].text.startswith(f" {acted.label} ")


def test_a_panel_of_one_row_says_that_the_bytes_of_the_process_at_the_cursor_are_unknown() -> None:
    shown, focused = made(), UTC._replace(focus="process", cursor="process:idle:eve:secret")
    assert process_rows(shown, focused, 60, 1)[0].text.rstrip() == " secret  I/O ?  state S"


def test_a_panel_of_two_rows_has_no_footer_but_shows_that_nothing_matches() -> None:
    assert process_rows(made(), UTC, 80, 2)[1].text.startswith(" worker x4 ")
    assert process_rows(made(), UTC._replace(pattern="nowhere"), 80, 2)[1].text.startswith(" 0 of 10 match")


def test_a_new_process_has_an_exact_rate_but_not_in_the_first_reading() -> None:
    one = made(count=1)
    assert all(g.rates.read_bytes_per_s is None for g in groups(one, UTC))
    # a process of these machines starts at the clock tick of its pid
    young = Proc(START_NS // 10**7 + 50, "writer", write=5 * MIB)
    grown = snapshots(lambda i: Machine(procs=(*PROCS[:1], *[young] * i)), 2)
    rates = {g.name: g.rates for g in groups(frame(grown), UTC)}
    assert rates["writer"].write_bytes_per_s == pytest.approx(5 * MIB)


def test_wait_channels_and_commands_are_shown_only_if_there_is_room() -> None:
    one = made(Proc(1, "python", read=KIB, cmdline=("python", "train.py", "--lr"), wchan="folio_wait_bit"))
    assert "folio_wait_bit" in process_rows(one, UTC, 160, 3)[1].text
    assert "python train.py --lr" in process_rows(one, UTC, 160, 3)[1].text
    assert "train.py --lr" not in process_rows(one, UTC, 80, 3)[1].text


def test_scrolling_moves_only_the_focused_panel() -> None:
    keys = [group.row_key for group in groups(made(), UTC)]
    view = UTC._replace(focus="process", scroll=2, cursor=keys[2])
    lines = process_rows(made(), view, 80, 4)
    assert [line.key for line in lines[1:3]] == keys[2:4]
    assert [line.background for line in lines[1:3]] == ["sel", ""]
    unfocused = process_rows(made(), view._replace(focus="disk"), 80, 4)[1]
    assert (unfocused.key, unfocused.background) == (keys[0], "")


def test_adaptive_reading_is_named() -> None:
    one = made(Proc(101, "dd"))
    table = one.snapshot.processes.value
    assert table is not None
    reading = one.snapshot.processes._replace(value=table._replace(adaptive=True))
    adaptive = one._replace(snapshot=one.snapshot._replace(processes=reading))
    for width in (80, 120, 160):
        assert "adaptive" in process_rows(adaptive, UTC, width, 6)[0].text
        assert "adaptive" not in process_rows(one, UTC, width, 6)[0].text


def aged(one: Frame, seconds: float) -> Frame:
    """The Frame, with every stat read this long before the newest sweep."""
    table = one.snapshot.processes.value
    assert table is not None
    old = table._replace(stat_at=(table.stat_at_ns - int(seconds * 1e9),) * 5, stat_out={})
    return one._replace(snapshot=one.snapshot._replace(processes=one.snapshot.processes._replace(value=old)))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "R"), (1.0, "R"), (2.1, "R"), (2.9, "R 3s"), (4.0, "R 4s"), (19.0, "R 19s")],
)
@pytest.mark.parametrize("width", [80, 120, 160, 220])
def test_a_row_older_than_two_intervals_shows_its_age(seconds: float, shown: str, width: int) -> None:
    lines = [line.text for line in process_rows(aged(made(), seconds), UTC, width, 9)]
    at = lines[0].index("state")
    (spinner,) = [line for line in lines if "spinner" in line]
    assert re.sub(r"\((\d+) ?s( old)?\)", r"\1s", spinner[at : at + 16]).split("  ")[0].strip() == shown
    # Idle processes are read in turn, but their rows do not change.
    (sleeper,) = [line for line in lines if "sleeper" in line]
    assert sleeper[at : at + 6].strip() == "S"
    if width == 220 and shown == "R 4s":
        assert "R (4 s" in spinner


def test_in_a_group_the_number_of_blocked_members_is_shown_instead_of_the_age() -> None:
    lines = [line.text for line in process_rows(aged(made(), 4.0), UTC, 80, 9)]
    (workers,) = [line for line in lines if "worker x4" in line]
    assert "D 2/4" in workers
    assert "4s" not in workers


def test_the_age_is_not_shown_with_a_longer_interval() -> None:
    slow = aged(made(), 12.0)
    slow = slow._replace(snapshot=slow.snapshot._replace(interval_s=10.0))
    lines = [line.text for line in process_rows(slow, UTC, 120, 9)]
    assert not any("12s" in line for line in lines)


def test_the_reason_why_a_column_is_not_shown_is_given() -> None:
    on, off = made(), made(delayacct=False)
    assert column_state("delay", on, UTC, 80) == SHOWN
    assert column_state("delay", off, UTC, 80) == "delay accounting is off"
    assert column_state("delay", off, UTC._replace(no_columns=frozenset({"delay"})), 80) == "left out"
    assert column_state("command", off, UTC, 80) == "shown on a wider screen"
