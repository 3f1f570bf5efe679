"""The graphs of the selected disk on the main screen: its rate and its await."""

from __future__ import annotations

from collections.abc import Iterator

from iotop_ai.model.block.counters import BlockKey, BlockRates
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample
from iotop_ai.present.block import devices
from iotop_ai.present.block.table import await_text
from iotop_ai.present.screen.graphs import Graph
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import SlidingSeries, nice_top
from iotop_ai.present.text.frame_cache import cache_part
from iotop_ai.present.text.units import brief, rate_unit

READ, WRITE, BOTH = _DIRECTIONS = ("read", "write", "both")
"""The directions that a graph can show. BOTH stands for the sum of the rates, or for the await of all requests."""


class _DeviceSeries:
    """The series of the selected disk's graphs, kept from one refresh to the next."""

    def __init__(self) -> None:
        self.rates = {direction: SlidingSeries() for direction in _DIRECTIONS}
        self.awaits = {direction: SlidingSeries() for direction in _DIRECTIONS}


def selected_graphs(
    frame: Frame, view: View, samples: tuple[Sample, ...], slots: int, *, apart: bool
) -> Iterator[list[Graph]]:
    """The graphs of the selected disk's rate, then those of its await; nothing if no disk is selected.

    For a disk that reads and writes, one graph shows the total rate and one the await of all requests; with ``apart``,
    each direction has graphs of its own, on the same scale. For any other disk, the graphs show only the direction with
    more bytes. slots: the number of intervals in a graph.
    """
    device = devices.selected_device(frame, view)
    if device is None:
        return
    sliding = cache_part(view, _DeviceSeries)
    directions: tuple[str, ...] = (device.totals.direction,)
    if device.totals.bidirectional:
        directions = (READ, WRITE) if apart else (BOTH,)
    yield _on_one_scale(
        [_rate(frame, samples, slots, sliding.rates[direction], device, direction) for direction in directions]
    )
    yield _on_one_scale(
        [_await(frame, samples, slots, sliding.awaits[direction], device, direction) for direction in directions]
    )


def _on_one_scale(graphs: list[Graph]) -> list[Graph]:
    """The graphs, all with the top, scale and unit of the graph with the largest top."""
    if len(graphs) == 1:
        return graphs
    largest = max(graphs, key=lambda graph: graph.top)
    out = []
    for graph in graphs:
        # The text of a rate depends on its scale; the text of an await depends on its direction instead.
        text = graph.text if graph.scale == largest.scale else largest.text
        out.append(graph._replace(top=largest.top, scale=largest.scale, unit=largest.unit, text=text))
    return out


def _rates_in(sample: Sample, key: BlockKey) -> BlockRates | None:
    return (sample.block.value or {}).get(key)


def _rate(
    frame: Frame,
    samples: tuple[Sample, ...],
    slots: int,
    sliding: SlidingSeries,
    device: devices.BlockDevice,
    direction: str,
) -> Graph:
    fields = [f"{one_way}_bytes_per_s" for one_way in ((READ, WRITE) if direction == BOTH else (direction,))]

    def value(sample: Sample) -> float | None:
        rates = _rates_in(sample, device.key)
        values: list[float | None] = [] if rates is None else [getattr(rates, field) for field in fields]
        return None if not values or None in values else sum(rate for rate in values if rate is not None)

    data = sliding.series((device.key, direction), samples, value, slots, frame.snapshot.interval_s)
    peak = data.peak or 0
    unit, scale = rate_unit(peak)
    top = nice_top(peak / scale) * scale
    label = _label(devices.short_name(device), direction)
    return Graph(label, unit, data, scale, top, lambda v: brief(_in_unit(v, scale)), strong=device.is_culprit)


def _await(
    frame: Frame,
    samples: tuple[Sample, ...],
    slots: int,
    sliding: SlidingSeries,
    device: devices.BlockDevice,
    direction: str,
) -> Graph:
    field = "await_ms" if direction == BOTH else f"{direction}_await_ms"

    def is_idle(rates: BlockRates) -> bool:
        return _requests_per_s(rates, direction) == 0

    def value(sample: Sample) -> float | None:
        rates = _rates_in(sample, device.key)
        if rates is None:
            return None
        await_ms: float | None = getattr(rates, field)
        # Without requests, the await is undefined: it is drawn blank, unlike an unknown value.
        return 0.0 if await_ms is None and is_idle(rates) else await_ms

    data = sliding.series((device.key, field), samples, value, slots, frame.snapshot.interval_s)
    now = _rates_in(frame.sample, device.key)
    idle = now is not None and getattr(now, field) is None and is_idle(now)
    limit = _limit(frame, device.name, direction) if device.is_culprit else None

    def text(v: float | None) -> str:
        if v == 0 and now is not None:  # as in the disk panel
            return "-" if idle else await_text(v, _requests_per_s(now, direction))
        return brief(v)

    hue = device.hue if device.is_culprit else ""
    label = "await" if direction == BOTH else f"{direction[0]}_await"
    return Graph(label, "ms", data, 1.0, nice_top(data.peak), text, limit, hue=hue)


def _requests_per_s(rates: BlockRates, direction: str) -> float | None:
    """The requests per second in this direction; None when unknown."""
    reads, writes = rates.reads_per_s, rates.writes_per_s
    if direction == READ:
        return reads
    if direction == WRITE:
        return writes
    return None if reads is None or writes is None else reads + writes


def _limit(frame: Frame, name: str, direction: str) -> float | None:
    """The await threshold of a finding about the disk; without one, the disk's typical await if the verdict names it as
    slow; otherwise None. For writes, it is always None, because both values are about reads.
    """
    if direction == WRITE:
        return None
    about = f"disks.{name}."
    for finding in frame.verdict.findings:
        for evidence in finding.evidence:
            if evidence.metric.startswith(about) and evidence.metric.endswith("await_ms") and evidence.threshold:
                return evidence.threshold
    slow = frame.verdict.slow_disk
    return slow.normal_ms if slow is not None and slow.device == name else None


def _in_unit(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale


def _label(name: str, direction: str) -> str:
    """The disk and the direction in 8 columns: "loop0 rw". A name of up to 6 characters is never cut, because names may
    differ only in the last character; so "loop10" leaves no room for the word "rw".
    """
    words = {READ: ("read", "rd", "r"), WRITE: ("write", "wr", "w"), BOTH: ("r+w", "rw")}[direction]
    for word in words:
        if len(name) + 1 + len(word) <= 8:
            return f"{name} {word}"
    if len(name) <= 6:
        return name
    return f"{name[: 7 - len(words[-1])]} {words[-1]}"
