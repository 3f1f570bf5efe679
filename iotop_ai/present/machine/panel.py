"""The machine in a few rows: network links, filesystem usage, CPU, memory, pressure, and the monitor's cost."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.model.frame import Frame
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.machine.network import UNKNOWN_LINK, LinkCounters, LinkRates
from iotop_ai.model.reading import Reading
from iotop_ai.present.block.devices import natural_key
from iotop_ai.present.machine.trouble import host_problems, zfs_cache
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Cell, Line, Span, cut, place, row, spans_cells
from iotop_ai.present.text.panel import panel, reason_row, reason_spans
from iotop_ai.present.text.table import Column, ColumnSlot, fit_columns, head, place_columns
from iotop_ai.present.text.units import (
    GIB,
    MIB,
    UNKNOWN,
    brief,
    count,
    figure,
    link_speed,
    mib,
    percent,
    size,
    token_of,
)
from iotop_ai.present.verdict.culprit import Culprit, culprit_of

_FULL, _LATE_S = 0.9, 0.5
"""_FULL: the share of used space from which a filesystem counts as full. _LATE_S: the delay in seconds from which the
monitor's readings count as late.
"""
LINKS = (
    Column("link", "speed", 8, 0),
    Column("rx", "rx MB/s", 11, 0),
    Column("tx", "tx MB/s", 9, 0),
    Column("busy", "busy%", 9, 0),
    Column("errors", "errors", 8, 5),
    Column("drops", "drops", 8, 5),
    Column("state", "state", 10, 6, left=True, gap=3),
)


@panel
def system_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The rows of the panel. The last one is the CPU row.

    If ``height`` is at least 2, the usage of the filesystems stands above it, with the busiest links on the right. If
    ``height`` is at least 4, the network table comes first and replaces the busiest links; if the panel is zoomed, the
    cores follow the table.
    """
    culprit = culprit_of(frame, view)
    out = [_cpu_row(frame, view, width, culprit)]
    if height >= 2:
        out.insert(0, _fullness(frame, view, width, culprit, with_net=height < 4))
    if height >= 4:
        room = height - 2
        cores: list[Line] = []
        if view.zoom == "system":
            from iotop_ai.present.machine.cores import core_rows

            network_height = min(1 + link_count(frame), max(2, room // 2))
            hue = culprit.hue if culprit.cores else ""
            cores, room = core_rows(frame, view, width, room - network_height, hue), network_height
        table = network_rows(frame, view, width, room)
        out = [*table, *cores, *out]
    return out


def network_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """A row for each link. If not all fit, the busiest links have rows, and the last row names the others."""
    reading = frame.snapshot.network
    slots = place_columns(fit_columns(LINKS, width - 14), 14, width)
    out = [head(width, "network", slots, focus=view.focus == "system")]
    if reading.value is None:
        return [*out, reason_row(width, reading, view)]
    rates = frame.sample.network.value or {}
    names = sorted(reading.value, key=natural_key)
    room = height - 1
    if len(names) > room:
        names = sorted(names, key=lambda n: -_bytes_per_s(rates.get(n)))[: max(0, room - 1)]
        names.sort(key=natural_key)
    out += [_link_row(width, name, reading.value[name], rates.get(name), slots) for name in names]
    rest = [n for n in sorted(reading.value, key=natural_key) if n not in names]
    if rest:
        out.append(row(width, [Span(f" {len(rest)} more: {' '.join(rest)}", "dim")]))
    return out[:height]


def link_count(frame: Frame) -> int:
    """The number of network links."""
    return len(frame.snapshot.network.value or {})


def _bytes_per_s(rates: LinkRates | None) -> float:
    """The bytes per second in both directions together; unknown rates count as 0."""
    return 0.0 if rates is None else (rates.rx_bytes_per_s or 0.0) + (rates.tx_bytes_per_s or 0.0)


def _link_row(width: int, name: str, link: LinkCounters, rates: LinkRates | None, slots: list[ColumnSlot]) -> Line:
    texts = {
        "link": link_speed(link.bits_per_s),
        "rx": mib(rates and rates.rx_bytes_per_s),
        "tx": mib(rates and rates.tx_bytes_per_s),
        "busy": percent(rates and rates.busy_ratio),
        "errors": count(rates and rates.errors_per_s),
        "drops": count(rates and rates.drops_per_s),
        "state": link.state,
    }
    if link.bits_per_s is None:
        texts["busy"] = UNKNOWN
    first = slots[0].first if slots else width
    figures = [slot.cell(texts[slot.column.id], "dim" if slot.column.id == "state" else "") for slot in slots]
    return place(width, Cell(1, cut(name, first - 2)), *figures)


def _fullness(frame: Frame, view: View, width: int, culprit: Culprit, *, with_net: bool) -> Line:
    right = _net(frame, width) if with_net else []
    room = width - 2 - spans_cells(right)
    reading = frame.snapshot.filesystems
    if reading.value is None:
        return row(width, [Span(" used: ", "dim"), *reason_spans(reading, view)], right)
    mounts = sorted(reading.value.items(), key=_urgency)
    out = [Span(" used:", "dim")] if mounts else []
    for path, usage in mounts:
        spans = _mount(path, usage, culprit)
        if spans_cells(out) + spans_cells(spans) > room:
            break
        out += spans
    return row(width, out, right)


def _urgency(item: tuple[str, Reading[FilesystemUsage]]) -> tuple[int, float]:
    """The sort key of a filesystem: full ones come first, then the largest."""
    usage = item[1].value
    if usage is None:
        return 1, 0.0
    ratio = usage.used_ratio
    return (0 if ratio is not None and ratio >= _FULL else 1), -float(usage.total_bytes)


def _mount(path: str, reading: Reading[FilesystemUsage], culprit: Culprit) -> list[Span]:
    name = "shm" if path == "/dev/shm" else path
    ratio = None if reading.value is None else reading.value.used_ratio
    text = percent(ratio)
    full = ratio is not None and ratio >= _FULL
    token = culprit.hue if path == culprit.mount else ""
    figure_token = token or ("warn" if full else token_of(text))
    return [Span("  "), Span(f"{name} ", token or "text"), Span(text, figure_token), Span(" %", "dim")]


def _net(frame: Frame, width: int) -> list[Span]:
    """The two busiest links, or four on a wide screen. All RDMA ports together count as one of them, which is always
    shown.
    """
    table, rates = frame.snapshot.network.value, frame.sample.network.value or {}
    if not table:
        return []
    ports = [name for name, link in table.items() if link.kind == "ib" and link.bits_per_s]
    most_links = (2 if width < 120 else 4) - bool(ports)
    # The bytes of a bond are counted in its interfaces already.
    physical = [name for name, link in table.items() if link.place != "" and link.kind != "ib"]
    names = sorted(sorted(physical, key=natural_key), key=lambda n: -_bytes_per_s(rates.get(n)))[:most_links]
    out = [Span("net", "dim")]
    for name in sorted(names, key=natural_key):
        out += _traffic(name, table[name].bits_per_s, rates.get(name))
    if ports:
        speed = sum(table[name].bits_per_s or 0 for name in ports)
        out += _traffic(f"rdma x{len(ports)}" if len(ports) > 1 else "rdma", speed, _sum_traffic(ports, rates))
    return out


def _sum_traffic(names: list[str], rates: Mapping[str, LinkRates]) -> LinkRates | None:
    """The total traffic of several links; None if the traffic of any link is unknown."""
    received, sent = 0.0, 0.0
    for name in names:
        link_rates = rates.get(name)
        if link_rates is None or link_rates.rx_bytes_per_s is None or link_rates.tx_bytes_per_s is None:
            return None
        received, sent = received + link_rates.rx_bytes_per_s, sent + link_rates.tx_bytes_per_s
    return UNKNOWN_LINK._replace(rx_bytes_per_s=received, tx_bytes_per_s=sent)


def _traffic(name: str, bits_per_s: int | None, rates: LinkRates | None) -> list[Span]:
    """The traffic in the busier direction, in the unit of the link's speed; if the speed is unknown, the traffic in
    both directions together in MB/s; "?" if the traffic in either direction is unknown.
    """
    received, sent = (None, None) if rates is None else (rates.rx_bytes_per_s, rates.tx_bytes_per_s)
    both = None if received is None or sent is None else (received, sent)
    if bits_per_s:
        unit = 1e9 if bits_per_s >= 1e9 else 1e6
        text = figure(None if both is None else max(both) * 8 / unit)
        tail = f"/{link_speed(bits_per_s)} "
    else:
        text, tail = mib(None if both is None else sum(both)), " MB/s "
    return [Span(f" {name} ", "dim"), Span(text, token_of(text)), Span(tail, "dim")]


def _cpu_row(frame: Frame, view: View, width: int, culprit: Culprit) -> Line:
    """CPU, problems, memory, swap, pressure and caches, as far as they fit; on the right, the monitor's own cost."""
    out: list[Span] = []
    right = _own_cost(frame)
    room, used = width - 2 - spans_cells(right), 0
    for part in (
        _colour(_cores(frame, view), culprit.hue if culprit.cores else ""),
        *host_problems(frame),
        _colour(_memory(frame), culprit.hue if culprit.memory else ""),
        _swap(frame),
        *_pressure(frame),
        _cached(frame),
        zfs_cache(frame),
        _dirty(frame),
    ):
        if part and used + (part_cells := spans_cells(part)) + 2 <= room:
            used += part_cells + (2 if out else 1)
            out += [Span("  " if out else " "), *part]
    return row(width, out, right)


def _colour(spans: list[Span], hue: str) -> list[Span]:
    """The spans in the colour of the verdict that names them; unchanged if hue is ""."""
    return [span._replace(token=hue) for span in spans] if hue else spans


def _cores(frame: Frame, view: View) -> list[Span]:
    table = frame.snapshot.cpu.value
    if table is None:
        return [Span("cpu ", "dim"), *reason_spans(frame.snapshot.cpu, view)]
    busy = None if frame.sample.cpu.value is None else frame.sample.cpu.value.all.busy_ratio
    cores = len(table.cores)
    text = brief(None if busy is None else busy * cores).removesuffix(".0")
    allowed = f" ({table.allowed} allowed)" if table.allowed < cores else ""
    return [Span("cpu ", "dim"), Span(text, token_of(text)), Span(f"/{cores}{allowed}", "dim")]


def _memory(frame: Frame) -> list[Span]:
    state = frame.snapshot.memory.value
    if state is None or state.total_bytes is None:
        return [Span("mem ", "dim"), Span(UNKNOWN, "unsure")]
    total = size(state.total_bytes)
    if state.available_bytes is None:
        return [Span("mem ", "dim"), Span(UNKNOWN, "unsure"), Span(f"/{total}", "dim")]
    unit = GIB if total.endswith(("G", "T")) else MIB
    scale = unit * (1024 if total.endswith("T") else 1)
    text = figure((state.total_bytes - state.available_bytes) / scale)
    return [Span("mem ", "dim"), Span(text, token_of(text)), Span(f"/{total}", "dim")]


def _swap(frame: Frame) -> list[Span]:
    state = frame.snapshot.memory.value
    if state is None or state.swap_total_bytes is None or state.swap_free_bytes is None:
        return []
    text = size(state.swap_total_bytes - state.swap_free_bytes) if state.swap_total_bytes else "none"
    return [Span("swap ", "dim"), Span(text, "dim" if text == "none" else token_of(text))]


def _pressure(frame: Frame) -> list[list[Span]]:
    out: list[list[Span]] = []
    if frame.snapshot.pressure.value is None and frame.snapshot.pressure.reason:
        return [[Span(frame.snapshot.pressure.reason, "dim")]]
    table = frame.sample.pressure.value or {}
    for name, word in (("io", "psi io "), ("cpu", "psi cpu "), ("memory", "psi mem ")):
        stall = table.get(name)
        text = percent(None if stall is None else stall.some_ratio)
        high = stall is not None and (stall.some_ratio or 0) >= 0.5
        out.append([Span(word, "dim"), Span(text, "strong" if high else token_of(text)), Span(" %", "dim")])
    return out


def _cached(frame: Frame) -> list[Span]:
    state = frame.snapshot.memory.value
    if state is None or state.cached_bytes is None:
        return []
    return [Span("cache ", "dim"), Span(size(state.cached_bytes))]


def _dirty(frame: Frame) -> list[Span]:
    state = frame.snapshot.memory.value
    if state is None or state.dirty_bytes is None:
        return []
    text = size(state.dirty_bytes)
    return [Span("dirty ", "dim"), Span(text, token_of(text))]


def _own_cost(frame: Frame) -> list[Span]:
    """The CPU and memory that the monitor itself uses; if its readings are late, also by how much."""
    own = frame.sample.own
    share = UNKNOWN if own.cpu_ratio is None else f"{own.cpu_ratio * 100:.1f}"
    out = [Span(f"self {share} %", "dim")]
    if own.rss_bytes is not None:
        out.append(Span(f" {own.rss_bytes / MIB:.0f} MB", "dim"))
    if own.late_s is not None and own.late_s >= _LATE_S:
        out.append(Span(f" late {own.late_s:.1f} s", "warn"))
    out.append(Span(" ", "dim"))
    return out
