"""The process panel: a row for each group of processes, and a footer that counts what the rows do not show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import takewhile

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessKey, ProcessTable, delay_remedy
from iotop_ai.present.block import devices
from iotop_ai.present.process.disk_column import disk_of
from iotop_ai.present.process.filter import hint_for, parse_filter
from iotop_ai.present.process.group_stats import GroupStatsCache, any_in_group
from iotop_ai.present.process.groups import Group, group_at_cursor, groups, process_list, rates_of, ungrouped
from iotop_ai.present.process.sentence import sentence_row
from iotop_ai.present.process.sort_value import order_arrow
from iotop_ai.present.process.tags import tag_sign, tagged_note
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cache_part
from iotop_ai.present.text.line import Line, Span, cells, cut, row, spans_cells
from iotop_ai.present.text.panel import panel, reason_row, scroll_to
from iotop_ai.present.text.table import (
    CellText,
    Column,
    ColumnSlot,
    fit_columns,
    head,
    layout_row,
    note_room,
    place_columns,
)
from iotop_ai.present.text.units import (
    UNDEFINED,
    UNKNOWN,
    count,
    duration,
    percent,
    rate_bytes,
    scaled,
    size,
    token_of,
)
from iotop_ai.present.verdict.culprit import culprit_of

COLUMNS = (
    Column("user", "user", 8, 10, 10, left=True, gap=1),
    Column("read", "read/s", 7, 0, 9),
    Column("write", "write/s", 9, 0),
    Column("cancel", "cancel/s", 10, 85),
    Column("rchar", "rchar/s", 9, 90),
    Column("wchar", "wchar/s", 9, 90),
    Column("majflt", "majflt/s", 9, 95),
    Column("delay", "IO-wait%", 9, 5),
    Column("cpu", "cpu%", 6, 0),
    Column("state", "state", 7, 4, 17, left=True, gap=1),
    Column("threads", "thr", 5, 75),
    Column("rss", "mem", 7, 76),
    Column("wchan", "wait channel", 22, 80, left=True, gap=2),
    Column("disk", "disk", 8, 11, 10, left=True, gap=2),
    Column("pid", "pid", 9, 6, 10, gap=1),
    Column("command", "command", 28, 87, left=True, gap=2),
)
"""For a group, a column of bytes shows the sum of its members; cpu% and IO-wait% show the largest value among them."""

SHOWN = "shown"
"""The ``column_state`` of a column that is on the screen."""
_NAME, _NARROW_NAME = 24, 20
"""The width of the name in cells, and its width on a narrow screen."""
_ALWAYS = ("read", "write", "pid")
"""The columns that cannot be left out."""
_BYTES: dict[str, Callable[[Group], float | None]] = {
    "read": lambda g: g.rates.read_bytes_per_s,
    "write": lambda g: g.rates.write_bytes_per_s,
    "cancel": lambda g: g.rates.cancelled_bytes_per_s,
    "rchar": lambda g: g.rates.rchar_bytes_per_s,
    "wchar": lambda g: g.rates.wchar_bytes_per_s,
}
"""The figures of the columns of bytes."""
_MARKED = {"io": ("read", "write"), "read": ("read",), "write": ("write",), "delay": ("delay",), "cpu": ("cpu",)}
"""The columns whose titles are marked, by sort order. Any other sort order marks the column of the same name."""
_RECENT_INTERVALS = 2
"""A row shows the age of its cpu% and state if they are more than this number of intervals old: processes without I/O
are not all read in every interval.
"""


@panel
def process_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The line with the titles, a row for each process group, and a footer.

    Two lines hold the titles and the first row, or the footer if no process is listed. One line holds a sentence. Keys
    act only on the group that is shown.
    """
    if height == 1:
        return [sentence_row(frame, view, width)]
    table = frame.snapshot.processes.value
    every = groups(frame, view)
    without = _left_out(table, view.no_columns)
    slots = _columns(width, without)
    out = [_head(frame, view, width, slots)]
    if table is None:
        return [*out, reason_row(width, frame.snapshot.processes, view)]
    room = max(1, height - 2)
    selected = group_at_cursor(frame, view)
    cursor_key = "" if selected is None else selected.row_key
    start = _first_row(every, view, room, cursor_key)
    part = every[start : start + room]
    seconds = rates_of(frame, view)[1]
    command = bool(slots) and slots[-1].column.id == "command"
    for group in part:
        facts = _facts(group, frame, table, view, command=command)
        tag = tag_sign(group.keys, view.tagged)
        background = "sel" if group.row_key == cursor_key else ""
        out.append(_row(width, group.first_only, facts, seconds, background, without, tag))
    hidden = every[:start], every[start + room :]
    if height > 2 or not part:
        out.append(_footer(frame, view, width, part, hidden, table))
    return out


def _first_row(every: tuple[Group, ...], view: View, room: int, cursor_key: str) -> int:
    """The index of the first row shown. The row under the cursor is among the rows shown, because the keys act
    on it.
    """
    start = max(0, min(view.scroll, len(every) - room)) if view.focus == "process" else 0
    if not cursor_key or any(group.row_key == cursor_key for group in every[start : start + room]):
        return start
    at = next(i for i, group in enumerate(every) if group.row_key == cursor_key)
    return scroll_to(at, start, len(every), room)


def _left_out(table: ProcessTable | None, by_user: frozenset[str]) -> frozenset[str]:
    """The ids of the columns that are not shown: those that the user left out, and IO-wait% if the kernel does not
    count it.
    """
    return by_user | {"delay"} if table is not None and table.delayacct is False else by_user


@lru_cache(maxsize=8)
def _columns(width: int, without: frozenset[str]) -> tuple[ColumnSlot, ...]:
    wanted = [column for column in COLUMNS if column.id not in without]
    return tuple(place_columns(fit_columns(wanted, width - 1 - _name_room(width)), _name_room(width), width - 1))


def optional_columns() -> tuple[Column, ...]:
    """The columns that may be left out."""
    return tuple(column for column in COLUMNS if column.id not in _ALWAYS)


def column_state(column: str, frame: Frame, view: View, width: int) -> str:
    """Whether this column is shown on a screen of this width: "shown", or why it is not."""
    without = _left_out(frame.snapshot.processes.value, view.no_columns)
    if any(slot.column.id == column for slot in _columns(width, without)):
        return SHOWN
    if column in view.no_columns:
        return "left out"
    return "delay accounting is off" if column in without else "shown on a wider screen"


def _name_room(width: int) -> int:
    """The width of the name in cells, on a screen of this width."""
    return _NAME if width >= 72 else _NARROW_NAME


def process_text(frame: Frame, view: View, keys: Collection[ProcessKey], width: int = 120) -> list[str]:
    """The titles and a row for each of these processes, in the order that the user chose, as text for pasting.

    Command lines are left out, so that no secret in them is copied.
    """
    table = frame.snapshot.processes.value
    if table is None:
        return []
    without = _left_out(table, view.no_columns) | {"command"}
    head_ = _head(frame, view._replace(focus="", tagged=frozenset()), width, _columns(width, without)).text
    out = [head_.replace("─", " ").rstrip()]
    seconds = rates_of(frame, view)[1]
    rows = [(group, _facts(group, frame, table, view, command=False)) for group in ungrouped(frame, view, keys)]
    return out + [_row(width, group.first_only, facts, seconds, "", without).text.rstrip() for group, facts in rows]


def _order_note(view: View, room: int) -> str:
    """The user's choices for the list (order, tree, only active, filter), shortened to ``room`` columns if possible."""
    order = f"{view.sort} {order_arrow(view.sort, view.reverse)}"
    first = f"{'tree ' if view.tree else ''}by {order}"
    more = [*(["active only"] if view.only_active else []), *([f"/{view.pattern}"] if view.pattern else [])]
    short = f"{order} active" if view.only_active else first
    texts = (", ".join([first, *more]), ", ".join([first, *more[:1]]), short, first)
    return next((text for text in texts if cells(text) <= room), first)


def _head(frame: Frame, view: View, width: int, slots: tuple[ColumnSlot, ...]) -> Line:
    seconds = rates_of(frame, view)[1]
    room, table = note_room(width, "process", slots), frame.snapshot.processes.value
    note = _order_note(view, room)
    if view.base is not None:
        slots = tuple(p._replace(column=p.column._replace(title=p.column.title.removesuffix("/s"))) for p in slots)
        note = f"sum of {duration(seconds)}"
    marked = _MARKED.get(view.sort, (view.sort,))
    if table is not None and table.adaptive:
        # "adaptive" is shown rather than the order, because the marked title shows the order too.
        note = f"adaptive, {note}" if len(f"adaptive, {note}") <= room else "adaptive"
    note = tagged_note(view.tagged, note, room)
    return head(width, "process", slots, focus=view.focus == "process", marked=marked, note=note)


class _Facts(NamedTuple):
    """The content of a row besides its rates.

    members: the number of processes. state, in_state, sums: as in GroupStats. wchan: the wait channel; "" when
    unknown. command: the command line; "" without that column. delayacct: whether delay accounting is on; None when
    unknown.
    """

    members: int
    state: str
    in_state: int
    sums: tuple[int, int] | None
    page_bytes: int
    wchan: str
    command: str
    delayacct: bool | None
    loud_wait: float
    """An IO-wait is highlighted if it is at least this share of the time; 0 for never."""
    age_s: int
    """The age of cpu% and state in seconds if it is more than ``_RECENT_INTERVALS`` intervals; otherwise 0."""
    hue: str = ""
    """The verdict's colour if the verdict names a process of the group; otherwise ""."""
    named_column: str = ""
    """The column that shows why the verdict names that process; "" if it names none."""
    disk: str = ""
    disk_hue: str = ""
    units: str = ""
    """The unit system of rates, so that a row cached with other units is not used."""


def _facts(group: Group, frame: Frame, table: ProcessTable, view: View, *, command: bool) -> _Facts:
    stats = cache_part(view, GroupStatsCache).stats(group.group_id, group.keys, table)
    info = table.info.get(group.keys[0]) if command else None
    line = "" if info is None else " ".join(info.cmdline)
    loud_wait = view.marks.io_wait / 100
    wchan, age_s = _wchan(group, table), _age_s(group, table, frame.snapshot.interval_s)
    culprit = culprit_of(frame, view)
    disk = disk_of(group, frame, view)
    names_culprit = culprit.disk and disk.partition(" ")[0] == devices.without_namespace(culprit.disk)
    disk_hue = culprit.disk_hue if names_culprit else ""
    named = culprit.pids and any(key.pid in culprit.pids for key in group.keys)
    hue, cell = (culprit.hue, culprit.process_cell) if named else ("", "")
    rest = (hue, cell, disk, disk_hue, view.units)
    return _Facts(len(group.keys), *stats, table.page_bytes, wchan, line, table.delayacct, loud_wait, age_s, *rest)


def _age_s(group: Group, table: ProcessTable, interval_s: float) -> int:
    """The age in seconds of the oldest reading of a member; 0 if it is from the last few intervals.

    It is also 0 for an idle group. Idle processes are read in turns, so the age would be the only part of their rows
    that changes in every interval.
    """
    if group.idle or not table.stat_at:
        return 0
    keys = group.keys
    age_s = (table.stat_at_ns - (table.stat_time(keys[0]) if len(keys) == 1 else min(map(table.stat_time, keys)))) / 1e9
    # Three intervals can be as short as two and a half, because their length varies.
    return round(age_s) if age_s >= (_RECENT_INTERVALS + 0.5) * interval_s else 0


@lru_cache(maxsize=256)
def _row(
    width: int,
    group: Group,
    facts: _Facts,
    seconds: float | None,
    background: str,
    without: frozenset[str],
    tag: str = "",
) -> Line:
    """One row, cached because most rows do not change from Frame to Frame. group: ``first_only``, so that the cache
    compares only one process key.
    """
    slots = _columns(width, without)
    room = slots[0].first - 2 if slots else width - 1
    tail = "" if facts.members == 1 else f" x{facts.members}"
    mark = group.mark
    name = cut(group.name, room - len(mark) - len(tail)) + tail
    if facts.hue:
        spans = [Span(tag or ">", "strong" if tag else facts.hue), Span(mark, "dim"), Span(name, facts.hue)]
    else:
        spans = [Span(tag or " ", "strong"), Span(mark, "dim"), Span(name)] if tag or mark else [Span(" " + name)]
    texts = [_cell_text(group, facts, slot, seconds) for slot in slots]
    if facts.hue:
        ids = [slot.column.id for slot in slots]
        texts = [(t[0], facts.hue, t[2]) if id_ == facts.named_column else t for id_, t in zip(ids, texts, strict=True)]
    return Line(layout_row(spans, 1 + len(mark) + cells(name), slots, texts, width), background, group.row_key)


def _cell_text(group: Group, facts: _Facts, slot: ColumnSlot, seconds: float | None) -> CellText:
    id_ = slot.column.id
    value_of = _BYTES.get(id_)
    if value_of is not None:
        value = value_of(group)
        text, letter = scaled(value if seconds is None or value is None else value * seconds)
        # A blank takes the place of a missing unit letter, so that the figures align.
        return text, token_of(text), f" {letter}" if letter else "  "
    if id_ == "user":
        return group.user, "dim", ""
    if id_ == "delay":
        return _delay(group, facts)
    if id_ == "cpu":
        text = percent(group.rates.cpu_ratio)
        return text, token_of(text), ""
    if id_ == "state":
        state, count_ = facts.state, facts.in_state
        room = slot.last - slot.first
        many = _of_members(state, count_, facts.members, room)
        ages = (
            (f" ({facts.age_s} s old)", f" ({facts.age_s} s)", f" ({facts.age_s}s)", f" {facts.age_s}s")
            if facts.age_s
            else ()
        )
        age = next((one for one in ages if len(many + one) <= room), "")
        return state, "strong" if state == "D" else token_of(state), many + age
    if id_ == "pid":
        pid = str(group.keys[0].pid)
        room = slot.last + 1 - slot.first
        others = (f" +{facts.members - 1}", f"+{facts.members - 1}") if facts.members > 1 else ()
        return pid + next((one for one in others if len(pid + one) <= room), ""), "dim", ""
    if id_ == "command":
        return facts.command, "dim", ""
    if id_ == "disk":
        return facts.disk, facts.disk_hue or ("dim" if facts.disk == UNDEFINED else token_of(facts.disk)), ""
    text = _faults(group, seconds) if id_ == "majflt" else _stat_text(facts, id_)
    return text, token_of(text), ""


_STATES = {"D": "blocked", "R": "running"}
"""The words for the states of which a row counts the members."""


def _of_members(state: str, count_: int, members: int, room: int) -> str:
    """How many members of a group are blocked or running: " 5 of 8 blocked", shorter " 5/8"; "" if all are, or if the
    state shown is another one.
    """
    if count_ >= members or state not in _STATES:
        return ""
    words = (f" {count_} of {members} {_STATES[state]}", f" {count_}/{members}", f" {count_}")
    return next((one for one in words if len(one) <= room), "")


def _faults(group: Group, seconds: float | None) -> str:
    rate = group.rates.major_faults_per_s
    return count(rate if seconds is None or rate is None else rate * seconds)


def _stat_text(facts: _Facts, id_: str) -> str:
    if id_ == "wchan":
        return facts.wchan
    if facts.sums is None:
        return UNKNOWN
    threads, pages = facts.sums
    return {"threads": count(threads), "rss": size(pages * facts.page_bytes)}[id_]


def _wchan(group: Group, table: ProcessTable) -> str:
    """The most common wait channel of the members and, for a group, how many wait in it; "" when unknown."""
    if len(group.keys) == 1:
        return table.wchan.get(group.keys[0]) or ""
    if not any_in_group(group.group_id, table.wchan, table):
        return ""
    counts = Counter(filter(None, map(table.wchan.get, group.keys)))
    if not counts:
        return ""
    most = max(counts, key=lambda w: counts[w])
    return f"{most} x{counts[most]}"


def _delay(group: Group, facts: _Facts) -> CellText:
    if facts.delayacct is False:
        return "off", "dim", ""
    ratio = group.rates.io_delay_ratio
    text = percent(ratio)
    return text, "strong" if ratio is not None and 0 < facts.loud_wait <= ratio else token_of(text), ""


class _Clause(NamedTuple):
    """A clause of the footer. short: its form for a narrow screen."""

    full: list[Span]
    short: list[Span]


def _footer(
    frame: Frame,
    view: View,
    width: int,
    part: tuple[Group, ...],
    hidden: tuple[tuple[Group, ...], tuple[Group, ...]],
    table: ProcessTable,
) -> Line:
    """The matches of the filter or the number of processes without a row, the number of unreadable processes,
    whether processes are hidden (hidepid), and whether IO-wait is off. The last clauses are left out if they do not
    fit.

    part: the groups with a row. hidden: the groups above these rows, and those below.
    """
    more = len(table.info) - sum(len(g.keys) for g in part)
    above = sum(len(g.keys) for g in hidden[0])
    clauses: list[_Clause] = []
    if view.pattern:
        trouble = parse_filter(view.pattern).trouble
        _, matching, active = process_list(frame, view)
        also = "" if active is None else f", {active} active:"
        match = [Span(f"{matching} of {len(table.info)} match{also} ", "dim"), Span(view.pattern)]
        if trouble:
            match = [Span("filter ", "dim"), Span(trouble, "unsure")]
        elif matching == 0 and (hint := hint_for(view.pattern)):
            match = [Span(f"0 of {len(table.info)} match; ", "dim"), Span(hint)]
        clauses.append(_Clause(match, match))
        if above:
            clauses.append(_Clause(*([Span(f"{above} above", "dim")],) * 2))
    elif more > 0:
        number = f"{above} above, {more - above} below" if above else f"{more} more"
        limit = "" if rates_of(frame, view)[0] is None else _most_io_text((*hidden[0], *hidden[1]), view.tree)
        clauses.append(_Clause([Span(f"{number}{limit}", "dim")], [Span(number, "dim")]))
    recorded = view.mode == "replay"
    if table.denied:
        denied, root = len(table.denied), frame.snapshot.host.euid == 0
        owners = "" if root else " of other users"
        # Changes on this machine cannot make a recording show more, so a replay names no remedy.
        note, short_note = ("", "") if root or recorded else (" (sudo shows them)", " (sudo)")
        clauses.append(
            _Clause(
                [Span("?", "unsure"), Span(f" {denied}{owners} unreadable{note}", "dim")],
                [Span("?", "unsure"), Span(f" {denied} unreadable{short_note}", "dim")],
            )
        )
    if not table.complete:
        unseen = [Span("?", "unsure"), Span(" others are hidden (hidepid)", "dim")]
        clauses.append(_Clause(unseen, unseen))
    if table.delayacct is False:
        remedy = delay_remedy(frame.snapshot.host.kernel)
        texts = ("IO-wait off",) * 2 if recorded else (f"IO-wait off: {remedy}", f"IO-wait: {remedy}")
        clauses.append(_Clause(*([Span(text, "dim")] for text in texts)))
    full = _joined([c.full for c in clauses])
    if spans_cells(full) <= width - 2:
        return row(width, [Span(" "), *full])
    short = [c.short for c in clauses]
    while len(short) > 1 and spans_cells(_joined(short)) > width - 2:
        short.pop()
    return row(width, [Span(" "), *_joined(short)])


def _joined(clauses: list[list[Span]]) -> list[Span]:
    return [span for i, spans in enumerate(clauses) for span in ([Span("; ", "dim")] if i else []) + spans]


def _most_io_text(hidden: tuple[Group, ...], tree: bool) -> str:
    """An upper limit on the I/O of each hidden group, in words; "" if it is unknown for all.

    The limit is the largest of their rates, rounded up to two digits of its unit, and at least 10 KB/s. If only some
    are unknown, the limit is for the others: another clause counts the unreadable processes.
    ``groups`` puts the idle groups last.
    """
    if hidden and all(g.io is None for g in hidden):
        return ""
    # In a tree, idle groups are between active ones.
    busy = hidden if tree else takewhile(lambda g: not g.idle, hidden)
    most = max((g.io or 0.0 for g in busy), default=0.0)
    if most <= 0:
        return ", none with I/O"
    limit = max(most, 10 * rate_bytes(1))
    power = next((power for power in (1, 2) if limit <= 990 * rate_bytes(power)), 3)
    number = limit / rate_bytes(power)
    step = 10.0 ** (math.floor(math.log10(number)) - 1)
    return f", none over {math.ceil(round(number / step, 6)) * step:.12g} {'KMG'[power - 1]}B/s"
