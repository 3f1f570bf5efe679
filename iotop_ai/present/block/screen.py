"""The screen of one disk: its state and the reason for it, its graphs, awaits, figures, facts, mounts and processes."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import UNKNOWN_BLOCK_RATES
from iotop_ai.model.frame import Frame
from iotop_ai.present.block import devices
from iotop_ai.present.block.await_histogram import await_rows
from iotop_ai.present.block.devices import BlockDevice
from iotop_ai.present.block.facts import fullness, mount_rows, peak_fields, settings
from iotop_ai.present.block.figures import (
    JOB_FILES,
    ONLY_DISK,
    DeviceWindow,
    device_or_selected,
    device_window,
    process_attribution,
    slowness,
)
from iotop_ai.present.block.graphs import AwaitLimits, device_graph_rows
from iotop_ai.present.block.table import await_text, device_rows
from iotop_ai.present.health.summary import health, temperature
from iotop_ai.present.process.table import process_rows
from iotop_ai.present.screen.graphs import time_shown
from iotop_ai.present.screen.key_row import above_rows, keys_text, mode_spans, words_above
from iotop_ai.present.screen.keymap import first_key
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.fields import field_rows
from iotop_ai.present.text.fit import fit
from iotop_ai.present.text.line import Line, Span, blank, row, spans_cells
from iotop_ai.present.text.panel import missing_row
from iotop_ai.present.text.phrases import first_parts
from iotop_ai.present.text.table import rule
from iotop_ai.present.text.units import brief, capacity, duration, figure, percent
from iotop_ai.present.verdict.banner import verdict_row

KEYS = (
    "disk.back",
    "disk.previous",
    "disk.tab",
    "disk.log",
    "disk.health",
    "disk.check",
    "disk.pause",
    "disk.longer",
    "detail.back",
    "disk.help",
    "app.quit",
)
"""The actions shown in the last row."""
TALL, _ROOMY, _SHORT = 40, 29, 20
"""Numbers of rows between the verdict and the keys, for the tab "all". From TALL on, blank rows separate its sections;
from _ROOMY on, the peaks, the mounts and the settings may take several rows each; below _SHORT, no row is kept for the
processes.
"""
_STATE_CELLS = 9
"""The width in columns of the words on the left (the state, "because", "latency" and "health"), without the blank after
them.
"""
_MOST_STACK_ROWS = 6
"""The maximum number of rows of the disk's stack on the tab "all", if the screen has at least _ROOMY rows."""

TABS = ("all", "latency", "processes", "facts")


class DevicePage(NamedTuple):
    """The user's choices on the screen. tab: one of TABS. log: whether the chart has a logarithmic scale."""

    tab: str = TABS[0]
    log: bool = False


def device_screen_rows(
    frame: Frame,
    view: View,
    width: int,
    height: int,
    name: str,
    page: DevicePage = DevicePage(),  # noqa: B008 - a frozen record
) -> list[Line]:
    """The screen as exactly ``height`` lines of ``width`` columns. name: the disk; "" for the selected disk."""
    device = device_or_selected(frame, view, name)
    if device is None:
        out = [rule(width, "disk", mode_spans(frame, view)), missing_row(width, name, frame.snapshot.block, view)]
    else:
        plain = view._replace(device=device.name, focus="", cursor="", scroll=0, tree=False)
        out = _body(frame, plain, width, height - 2, device, page)
    out = [verdict_row(frame, view, width), *out]
    return above_rows(out, words_above(KEYS, view), view, width, height)


def _body(frame: Frame, view: View, width: int, height: int, device: BlockDevice, page: DevicePage) -> list[Line]:
    recent = device_window(frame, device)
    top = _top(frame, view, width, device, recent, page.tab)
    tabs = {"latency": _latency, "processes": _processes_tab, "facts": _facts_tab}
    tab = tabs.get(page.tab, _overview)
    return [*top, *tab(frame, view, width, height - len(top), device, recent, page)]


def _overview(
    frame: Frame, view: View, width: int, height: int, device: BlockDevice, recent: DeviceWindow, page: DevicePage
) -> list[Line]:
    """The tab "all". A part that does not fit is left out. The parts that best answer "is this disk slow?" get their
    rows first.
    """
    tall, roomy = height >= TALL - _TOP_ROWS, height >= _ROOMY - _TOP_ROWS
    table = _device_rows(frame, view, width, _stack(frame, view, device)[: _MOST_STACK_ROWS if roomy else 2])
    awaits = await_rows(frame, device.key, width, 3 if tall else 0)
    facts = settings(frame, device)
    if roomy:
        rest = [
            field_rows(peak_fields(frame, view, device), width),
            mount_rows(frame, device, width, 4),
            field_rows(facts, width),
        ]
    else:
        # One row for the peaks, and one for the usage of filesystems and as many settings as fit.
        short = [*fullness(frame, device), *facts]
        rest = [field_rows(peak_fields(frame, view, device), width)[:1], [], field_rows(short, width)[:1]]
    gaps = 5 if tall else 0
    # The last rows are kept for the processes.
    rows_left = height - len(table) - gaps - (4 if roomy else 3 if height >= _SHORT - _TOP_ROWS else 0)
    parts: list[list[Line]] = []
    # A part is shown only if enough rows remain for the graphs: 4 for the histogram to be shown (the axis, both awaits
    # and the read rate), 7 for any other part (the axis and all six graphs).
    for part, graph_rows in ((awaits, 4), *((lines, 7) for lines in rest)):
        fits = rows_left - len(part) >= graph_rows
        parts.append(part if fits else [])
        rows_left -= len(part) if fits else 0
    awaits, peaks, mounts, fields = parts
    # The graphs take up to 13 rows (the axis, a chart of 8 rows and four graphs), and more only if the processes get
    # four rows in addition to those kept for them.
    most_graph_rows = max(13, rows_left - 4)
    graphs = device_graph_rows(
        frame, view, device.key, width, max(0, min(rows_left, most_graph_rows)), _limits(recent), log=page.log
    )
    out: list[Line] = []
    for section in (graphs, awaits, [*table, *peaks, *fields], mounts):
        out += section
        if tall and section:
            out.append(blank(width))
    return out + _processes(frame, view, width, height - len(out), device)


_TOP_ROWS = 3
"""The number of rows above a tab's content if the reason takes one row: the state, the reason or the latency, the
health.
"""


def _latency(
    frame: Frame, view: View, width: int, height: int, device: BlockDevice, recent: DeviceWindow, page: DevicePage
) -> list[Line]:
    """The tab "latency": the chart of awaits over most of the screen, then their distribution and the current
    figures.
    """
    table = _device_rows(frame, view, width, _stack(frame, view, device)[:2])
    awaits = await_rows(frame, device.key, width, 4 if height >= TALL else 2 if height >= 24 else 0)
    rows_left = height - len(table) - len(awaits)
    graphs = device_graph_rows(frame, view, device.key, width, rows_left, _limits(recent), log=page.log, alone=True)
    return [*graphs, *awaits, *table]


def _processes_tab(
    frame: Frame, view: View, width: int, height: int, device: BlockDevice, recent: DeviceWindow, page: DevicePage
) -> list[Line]:
    return _processes(frame, view, width, height, device)


def _facts_tab(
    frame: Frame, view: View, width: int, height: int, device: BlockDevice, recent: DeviceWindow, page: DevicePage
) -> list[Line]:
    """The tab "facts": the disk's stack, its peaks and settings, and as many filesystems on it as fit."""
    table = _device_rows(frame, view, width, _stack(frame, view, device))
    peaks, fields = field_rows(peak_fields(frame, view, device), width), field_rows(settings(frame, device), width)
    out = [*table, *([rule(width, "peaks"), *peaks] if peaks else [])]
    out += [rule(width, "settings"), *fields] if fields else []
    return [*out, *mount_rows(frame, device, width, max(0, height - len(out) - 1))]


def _device_rows(frame: Frame, view: View, width: int, stack: list[tuple[BlockDevice, bool]]) -> list[Line]:
    """The rows of the disk's stack. Their title says which time the figures cover: the latest interval, or a sum since
    the start of accumulation.
    """
    if view.base is None:
        return device_rows(frame, view, width, time_shown(frame, view), stack)
    length = duration(devices.rates_of(frame, view)[1])
    short_length = " ".join(length.split()[:2])  # "2 h" of "2 h 5 min", for a narrow screen
    return device_rows(frame, view, width, "sum", stack, (f"of {length}", length, f"of {short_length}"))


def _limits(recent: DeviceWindow) -> AwaitLimits:
    return AwaitLimits(_hot_ms(recent), None if recent.facts is None else recent.facts.normal_ms)


def _hot_ms(recent: DeviceWindow) -> float | None:
    """The read await in ms above which the graph is drawn in the colour "hot"; None when unknown."""
    if recent.facts is None:
        return None
    return LIMITS.disk_await_ms if recent.facts.serves_serially else LIMITS.inflation_slow * recent.facts.normal_ms


def _top(frame: Frame, view: View, width: int, device: BlockDevice, recent: DeviceWindow, tab: str) -> list[Line]:
    """The disk's state and identity, the reason for the state, and its health beside the tabs. If the health decides
    the state, the reason is beside the health, and the row above it only shows the latency.
    """
    word, hue = _state(frame, device, recent)
    own_health, degrees = health(frame, device.name), temperature(frame, device.name)
    health_decides = own_health.token in ("bad", "warn") and word == own_health.word.upper()
    info = device.info
    names = [d.name for d in devices.panel_devices(frame, view)]
    row_name = device.name if device.name in names else devices.top_row_of(device.name, frame)
    keys = keys_text("disk.previous", view)
    position = f"{names.index(row_name) + 1} of {len(names)}  {keys} " if row_name in names else f"{keys} "
    left = [Span(f" {word}".ljust(_STATE_CELLS), hue), Span(f" {devices.title_of(device, frame)}", "strong")]
    right = [*mode_spans(frame, view), Span(position, "dim")]
    if info is not None:
        if info.detail:
            left.append(Span(f"  {info.detail}"))
        rest = [info.model, capacity(info.size_bytes) if info.size_bytes else "", info.serial and f"sn {info.serial}"]
        room = width - spans_cells(left) - spans_cells(right) - 1
        left.append(Span(first_parts(["", *filter(None, rest)], "  ", room), "dim"))
    out = [row(width, left, right)]
    # Only the word for the state is in the state's colour; the reason for a bad state is strong.
    token = "strong" if hue in ("bad", "warn") and not health_decides else "text"
    label = " latency" if health_decides else " because"
    for line in wrap(_reason_text(device, recent, word), max(20, width - _STATE_CELLS - 2)):
        out.append(row(width, [Span(label.ljust(_STATE_CELLS + 1), "dim"), Span(line, token)]))
        label = ""
    spans = [Span(" health".ljust(_STATE_CELLS + 1), "dim"), Span(own_health.word, own_health.token)]
    if own_health.reason:
        spans.append(Span(f"  {own_health.reason}", "strong" if health_decides else "dim"))
    if degrees is not None:
        spans += [Span("  temp ", "dim"), Span(f"{degrees:.0f}"), Span(" C", "dim")]
    room = width - spans_cells(spans) - 2
    tabs = next((one for one in (_tabs(tab, view), _tabs_short(tab, view)) if spans_cells(one) <= room), [])
    return [*out, row(width, spans, tabs)]


def _tabs(active: str, view: View) -> list[Span]:
    """The names of the tabs, the active one in brackets, so that it stands out without colours."""
    names = [Span(f"[{tab}]", "strong") if tab == active else Span(f" {tab} ", "dim") for tab in TABS]
    return [*_tab_key(view), *names]


def _tabs_short(active: str, view: View) -> list[Span]:
    position = f" {TABS.index(active) + 1}/{len(TABS)} "
    return [*_tab_key(view), Span(f"[{active}]", "strong"), Span(position, "dim")]


def _tab_key(view: View) -> list[Span]:
    """The key that shows the next tab; [] if it has none."""
    key = first_key("disk.tab", view.keymap)
    return [Span(f"{key} ", "key")] if key else []


def _state(frame: Frame, device: BlockDevice, recent: DeviceWindow) -> tuple[str, str]:
    """(the word for the disk's current state, its token); current even in accumulation mode."""
    own_health = health(frame, device.name)
    if own_health.token == "bad":
        return own_health.word.upper(), "bad"
    now = (frame.sample.block.value or {}).get(device.key, UNKNOWN_BLOCK_RATES)
    if recent.facts is None or now.reads_per_s is None:
        return "UNSURE", "unsure"
    slow = slowness(recent.facts)
    if slow or device.is_culprit:
        return "SLOW", device.hue if device.is_culprit else "bad" if slow == 2 else "warn"
    if own_health.token == "warn":
        return own_health.word.upper(), "warn"
    return ("OK", "ok") if device.totals.active else ("IDLE", "dim")


def _reason_text(device: BlockDevice, recent: DeviceWindow, word: str) -> str:
    """The reason for the state: the read await compared with the normal one, over the verdict's window. word: the
    state's word. A disk with a normal await is SLOW only if the verdict names it.
    """
    facts = recent.facts
    if facts is None:
        return "nothing is known about this disk yet" if device.info is not None else "its identity is unknown"
    when = f"in {recent.seconds:.0f} s"
    if facts.reads_per_s is None:
        return "the kernel does not count its requests" if facts.info.stats_off else "its requests are unknown"
    if facts.read_await_ms is None or not facts.reads_per_s:
        text = f"nothing was read {when}"
        if facts.await_ms is not None:
            text += f", a write took {figure(facts.await_ms) if facts.await_ms else '<1'} ms"
    else:
        inflation = facts.read_await_ms / facts.normal_ms
        against = "within the typical" if inflation <= 1 else f"{brief(inflation)} x the typical"
        text = f"a read took {await_text(facts.read_await_ms, facts.reads_per_s)} ms {when}, "
        text += f"{against} {figure(facts.normal_ms)} ms of {'this disk' if recent.learned else 'its kind'}"
    if facts.serves_serially:
        text += f"; it seeks, so {percent(facts.busy_ratio)} %util is its load"
    if word == "SLOW" and not slowness(facts):
        text = f"the verdict names it; {text}"
    return text


def _stack(frame: Frame, view: View, device: BlockDevice) -> list[tuple[BlockDevice, bool]]:
    """(disk, whether it is nested) for each of these: the disk under which this one is nested, this disk, and the disks
    nested under it.
    """
    nested = devices.nested_devices(device.name, frame, view)
    top = devices.top_row_of(device.name, frame)
    above = [d for d in devices.all_devices(frame, view) if d.name == top and top != device.name]
    return [*((d, False) for d in above), (device, bool(above)), *((d, True) for d in nested)]


def _processes(frame: Frame, view: View, width: int, height: int, device: BlockDevice) -> list[Line]:
    """The active processes, with a note on how far their I/O can be attributed to this disk."""
    if height < 3:
        return []
    basis, job = process_attribution(frame, view, device)
    if basis == ONLY_DISK:
        note = "no other disk moved a byte: all their disk I/O was here"
    elif basis == JOB_FILES:
        note = f"the files of {job} are on this disk; for other processes, see the column disk"
    else:
        note = "the kernel does not say which of them use this disk; these are the busiest"
    # On a short screen, a second process replaces the last row of ``process_rows``, which counts the other processes.
    more = 1 if height <= 4 else 0
    lines = process_rows(frame, view._replace(only_active=True), width, height - 1 + more)[: height - 1]
    clause, separator, rest = note.partition("; ")
    words = fit([Span(f" {clause}", "dim"), Span(separator, "dim"), Span(rest, "dim")], width)
    return [*lines[:1], row(width, words), *lines[1:]]
