"""Graphs in braille: each cell shows two values, the newest on the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import compress
from math import ceil
from operator import is_not

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.sample import Sample
from iotop_ai.present.text.line import Span

GAP = "┄"
"""The glyph of a cell without known values. Its ASCII substitute is a blank, so that it does not outweigh
known values.
"""
_LEFT = (0x40, 0x04, 0x02, 0x01)
_RIGHT = (0x80, 0x20, 0x10, 0x08)
"""The bits of the dots in the left and the right half of a braille character, from the bottom up."""
_LARGEST_TOP = 1e300
"""The largest top of a scale. A larger value, even infinity, counts as this one."""


class Series(NamedTuple):
    """A series of values for a graph, one per slot, the oldest first; None is unknown. known: the number of slots,
    counted from the newest, that lie within the observed time.
    """

    values: tuple[float | None, ...]
    known: int

    @property
    def peak(self) -> float | None:
        """The largest known value; None when no value is known."""
        values = self.values
        unknown = values.count(None)
        if values[:unknown].count(None) == unknown:  # usually, all unknown values lie before the first sample
            return max(values[unknown:], default=None)  # type: ignore[type-var]
        return max([v for v in values if v is not None])


def series(samples: Sequence[Sample], value: Callable[[Sample], float | None], slots: int, interval_s: float) -> Series:
    """The newest ``slots`` intervals of a series; the slots before the first sample are unknown.

    A sample whose length differs from ``interval_s`` by at most a quarter takes exactly one slot, so that jitter does
    not shift the graph. A longer sample takes all slots that it covers; shorter samples share a slot, which shows the
    largest of their values. A gap in the samples is unknown.
    """
    return _series(samples, value, slots, interval_s)[0]


def _series(
    samples: Sequence[Sample], value: Callable[[Sample], float | None], slots: int, interval_s: float
) -> tuple[Series, int]:
    """Return (the series, the number of samples that it covers)."""
    used = 0
    out: list[float | None] = []
    position = 0.0
    for sample in reversed(samples):
        first = int(position + 1e-9)
        if first >= slots:
            break
        used += 1
        span = 1.0 if sample.seconds is None else sample.seconds / interval_s
        if 0.75 <= span <= 1.25:
            span = 1.0
            if first == len(out):
                out.append(None if sample.gap else value(sample))
                position = first + 1.0
                continue
        last = min(slots - 1, max(first, ceil(position + span - 1e-9) - 1))
        out.extend([None] * (last + 1 - len(out)))
        new = None if sample.gap else value(sample)
        if new is not None:
            for slot in range(first, last + 1):
                other = out[slot]
                out[slot] = new if other is None else max(other, new)
        position += span
    known = len(out)
    return Series((*[None] * (slots - known), *reversed(out)), known), used


def nice_top(value: float | None) -> float:
    """The top of a scale: the smallest number of the form 1, 2 or 5 times a power of ten that is at least the value; 1
    for no value or 0, and at most _LARGEST_TOP.
    """
    if not value or value <= 0:
        return 1.0
    value, top = min(value, _LARGEST_TOP), 1.0
    while top < value:
        top *= 10
    while top / 10 >= value:
        top /= 10
    for part in (0.2, 0.5):
        if top * part >= value:
            return top * part
    return top


def area(values: Sequence[float | None], top: float, rows: int = 1) -> list[str]:
    """The values as a filled area: rows of braille from top to bottom, ``len(values) / 2`` cells wide.

    One row uses 3 of its 4 rows of dots, two rows use 7 of 8, so that stacked graphs do not merge. 0 is blank,
    any value above 0 has at least one dot, and a cell whose two values are unknown shows GAP in the bottom row.
    """
    levels = [_level(v, top, 4 * rows - 1) for v in values]
    pairs = list(zip(levels[::2], levels[1::2], strict=True))
    return ["".join(map(_chars(base).__getitem__, pairs)) for base in _bases(rows)]


def _bases(rows: int) -> range:
    """For each row, from top to bottom: the number of rows of dots below it."""
    return range(4 * (rows - 1), -1, -4)


def _level(value: float | None, top: float, high: int) -> int | None:
    """The height of a value in dots, up to ``high``, which is the height of ``top``; None when unknown."""
    return None if value is None else 0 if value <= 0 else max(1, round(min(high, value / top * high)))


class _Chars(dict[tuple[int | None, int | None], str]):
    """For each pair of levels: the character in the row that has ``base`` rows of dots below it."""

    def __init__(self, base: int) -> None:
        super().__init__()
        self._base = base

    def __missing__(self, pair: tuple[int | None, int | None]) -> str:
        left, right = pair
        if left is None and right is None:
            char = GAP if self._base == 0 else " "
        else:
            bits = sum(bit for k, bit in enumerate(_LEFT) if left is not None and left > self._base + k)
            bits += sum(bit for k, bit in enumerate(_RIGHT) if right is not None and right > self._base + k)
            char = chr(0x2800 + bits) if bits else " "
        self[pair] = char
        return char


@lru_cache(maxsize=8)
def _chars(base: int) -> _Chars:
    return _Chars(base)


def series_spans(cells: str, data: Series, limit: float | None = None) -> list[Span]:
    """One row of ``area`` as spans: ``hot`` above the limit, ``graph`` up to it, ``faint`` before the observed time,
    ``dim`` in gaps.
    """
    return token_spans(cells, token_runs(data, limit))


def token_spans(cells: str, parts: Sequence[tuple[int, str]]) -> list[Span]:
    """One row of ``area`` in the tokens that ``token_runs`` returned for it."""
    out, start = [], 0
    for length, token in parts:
        text = cells[start : start + length]
        if text:
            out.append(Span(text, token))
        start += length
    return out


def token_runs(data: Series, limit: float | None = None) -> list[tuple[int, str]]:
    """The runs of cells with the same token, from left to right: (number of cells, token)."""
    values = data.values
    unobserved = (len(values) - data.known) // 2
    unknown = values.count(None)
    # If all unknown values come first and no value is above the limit, there are only three runs.
    if (
        values[:unknown].count(None) == unknown
        and unobserved <= unknown // 2
        and (limit is None or (data.peak or 0.0) <= limit)
    ):
        gap = unknown // 2
        return [(unobserved, "faint"), (gap - unobserved, "dim"), (len(values) // 2 - gap, "graph")]
    if limit is None:
        marks = "".join(["?" if v is None else "." for v in values])
    else:
        marks = "".join(["?" if v is None else "!" if v > limit else "." for v in values])
    kinds = "".join(map(_KINDS.__getitem__, zip(marks[::2], marks[1::2], strict=True)))
    kinds = kinds[:unobserved].replace("?", " ") + kinds[unobserved:]
    return [(run.end() - run.start(), _TOKENS[run[0][0]]) for run in _RUN.finditer(kinds)]


_KINDS = {(left, right): max(left, right, key="?.!".index) for left in "?.!" for right in "?.!"}
"""The kind of a cell by the kinds of its two values: "?" unknown, "." known, "!" above the limit."""
_TOKENS = {" ": "faint", "?": "dim", ".": "graph", "!": "hot"}
"""The token of each kind of cell; " " lies before the observed time."""
_RUN = pattern(r"(.)\1*")


class SlidingSeries:
    """Keeps the latest result of ``series``, and shifts it by one slot when only one sample is new."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._samples: tuple[Sample, ...] = ()
        self._newest = Series((), 0)
        self._used = 0
        """The number of samples that the series covers."""
        self._even = False
        """Whether each sample takes exactly one slot."""

    def series(
        self,
        key: tuple[object, ...],
        samples: tuple[Sample, ...],
        value: Callable[[Sample], float | None],
        slots: int,
        interval_s: float,
    ) -> Series:
        """Like the function ``series``. key: everything that ``value`` depends on besides the sample. Of the sample,
        ``value`` may read only block, cpu, gpu, jobs and seconds.
        """
        key = (*key, slots, interval_s)
        current, before = self._newest, self._samples
        if key != self._key or not self._follows(samples, interval_s, full=current.known == slots):
            if key != self._key or samples is not before:
                current, self._used = _series(samples, value, slots, interval_s)
                self._even = all(s.seconds is None or 0.75 <= s.seconds / interval_s <= 1.25 for s in samples)
        else:
            self._used += 1
            newest = None if samples[-1].gap else value(samples[-1])
            current = Series((*current.values[1:], newest), min(slots, current.known + 1))
        self._key, self._samples, self._newest = key, samples, current
        return current

    def _follows(self, samples: tuple[Sample, ...], interval_s: float, *, full: bool) -> bool:
        """Whether these are the samples of the last call and one new sample that takes exactly one slot.

        full: whether the series fills all slots. Old samples then lie beyond the left edge and may be missing.
        """
        before = self._samples
        if len(before) < 2 or len(samples) < 2:
            return False
        newest = samples[-1]
        if newest.seconds is None or not 0.75 <= newest.seconds / interval_s <= 1.25:
            return False
        dropped = len(before) + 1 - len(samples)
        beyond_edge = full and (self._used < len(samples) or (dropped == 1 and self._even))
        if dropped < 0 or (dropped and not beyond_edge):
            return False
        pairs = zip(before[dropped:], samples, strict=False)
        others = compress(pairs, map(is_not, before[dropped:], samples))
        return all(_look_alike(old, new) for old, new in others)


def _look_alike(old: Sample, new: Sample) -> bool:
    """Whether two samples look the same in every graph. Equal samples can be different objects, because a sample that
    leaves the history loses its processes.
    """
    return (
        old.block is new.block
        and old.cpu is new.cpu
        and old.gpu is new.gpu
        and old.jobs is new.jobs
        and old.seconds == new.seconds
        and old.gap == new.gap
    )
