"""Series to braille: two samples a cell, newest at the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import compress
from math import ceil
from operator import is_not

from iotop_ai.model.pattern import pattern
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample
from iotop_ai.present.line import Span

GAP = "╌"
_LEFT = (0x40, 0x04, 0x02, 0x01)
_RIGHT = (0x80, 0x20, 0x10, 0x08)


class Series(NamedTuple):
    """One value a slot, oldest first. None: unknown. known: slots that lie within the time that was watched."""

    values: tuple[float | None, ...]
    known: int

    @property
    def peak(self) -> float | None:
        """The largest known value; None when none is known."""
        values = self.values
        unknown = values.count(None)
        if values[:unknown].count(None) == unknown:  # what is unknown is mostly what was before the start
            return max(values[unknown:], default=None)  # type: ignore[type-var]
        return max([v for v in values if v is not None])


def series(samples: Sequence[Sample], value: Callable[[Sample], float | None], slots: int, interval_s: float) -> Series:
    """The newest ``slots`` intervals of a series, padded with unknown before the first sample.

    A sample whose own interval is within a quarter of ``interval_s`` takes one slot, so that jitter moves nothing; a
    longer one is the mean of as many slots, a shorter one shares a slot of which the largest value is kept. A gap in
    the watching is unknown.
    """
    return _series(samples, value, slots, interval_s)[0]


def _series(
    samples: Sequence[Sample], value: Callable[[Sample], float | None], slots: int, interval_s: float
) -> tuple[Series, int]:
    """(the series, how many of the newest samples it needed)."""
    used = 0
    out: list[float | None] = []
    place = 0.0
    for sample in reversed(samples):
        first = int(place + 1e-9)
        if first >= slots:
            break
        used += 1
        span = 1.0 if sample.seconds is None else sample.seconds / interval_s
        if 0.75 <= span <= 1.25:
            span = 1.0
            if first == len(out):
                out.append(None if sample.gap else value(sample))
                place = first + 1.0
                continue
        last = min(slots - 1, max(first, ceil(place + span - 1e-9) - 1))
        out.extend([None] * (last + 1 - len(out)))
        this = None if sample.gap else value(sample)
        if this is not None:
            for slot in range(first, last + 1):
                held = out[slot]
                out[slot] = this if held is None else max(held, this)
        place += span
    known = len(out)
    return Series((*[None] * (slots - known), *reversed(out)), known), used


def nice_top(value: float | None) -> float:
    """The scale's top: the next of 1, 2, 5 times a power of ten; 1 for nothing."""
    if not value or value <= 0:
        return 1.0
    top = 1.0
    while top < value:
        top *= 10
    while top / 10 >= value:
        top /= 10
    for part in (0.2, 0.5):
        if top * part >= value:
            return top * part
    return top


def area(values: Sequence[float | None], top: float, rows: int = 1) -> list[str]:
    """Rows of braille from top to bottom, ``len(values) / 2`` cells wide.

    One row fills 3 of its 4 dot rows, two rows 7 of 8, so that stacked graphs do not merge. 0 is blank, any value
    above 0 has a dot, a cell with both samples unknown is a gap on the bottom row.
    """
    values = tuple(values)
    if len(_DRAWN) > _MOST_SCALES:
        _DRAWN.clear()
    kept = _DRAWN.setdefault((top, rows, len(values)), [])
    at, before = -1, None
    older = values[:-1]
    for i, shown in enumerate(kept):
        if shown.values == values:
            return list(shown.rows)
        if shown.rest == older:
            at, before = i, shown
            break
    high = 4 * rows - 1
    if before is not None and before.back:
        last = _level(values[-1], top, high)
        pair = before.last, last
        made = [text[1:] + chars[pair] for text, chars in zip(before.back, map(_chars, _bases(rows)), strict=True)]
    else:
        levels = [_level(v, top, high) for v in values]
        last = levels[-1] if levels else None
        pairs = list(zip(levels[::2], levels[1::2], strict=True))
        made = ["".join(map(_chars(base).__getitem__, pairs)) for base in _bases(rows)]
    picture = _Picture(values, values[1:], last, tuple(made), before.rows if before is not None else ())
    if at >= 0:
        kept[at] = picture
    else:
        kept[:0] = [picture]
        del kept[_MOST_DRAWN:]
    return made


def _bases(rows: int) -> range:
    """The lowest dot of each row, top to bottom."""
    return range(4 * (rows - 1), -1, -4)


def _level(value: float | None, top: float, high: int) -> int | None:
    return None if value is None else 0 if value <= 0 else max(1, min(high, round(value / top * high)))


class _Picture(NamedTuple):
    """What ``area`` made last. rest: the values without the first. last: the newest's height in dots.

    back: the rows of the picture before, () when there was none. A cell holds two values, so the next picture of the
    same graph is that one moved on by a cell.
    """

    values: tuple[float | None, ...]
    rest: tuple[float | None, ...]
    last: int | None
    rows: tuple[str, ...]
    back: tuple[str, ...]


_DRAWN: dict[tuple[float, int, int], list[_Picture]] = {}
"""The newest pictures by top, rows and values."""
_MOST_SCALES, _MOST_DRAWN = 16, 20


class _Chars(dict[tuple[int | None, int | None], str]):
    """The character for a pair of levels in the row of dots from ``base`` up."""

    def __init__(self, base: int) -> None:
        super().__init__()
        self._base = base

    def __missing__(self, pair: tuple[int | None, int | None]) -> str:
        left, right = pair
        if left is None and right is None:
            made = GAP if self._base == 0 else " "
        else:
            bits = sum(bit for k, bit in enumerate(_LEFT) if left is not None and left > self._base + k)
            bits += sum(bit for k, bit in enumerate(_RIGHT) if right is not None and right > self._base + k)
            made = chr(0x2800 + bits) if bits else " "
        self[pair] = made
        return made


@lru_cache(maxsize=8)
def _chars(base: int) -> _Chars:
    return _Chars(base)


def coloured(cells: str, data: Series, limit: float | None = None) -> list[Span]:
    """One row of ``area`` as spans: ``hot`` past the limit, ``faint`` before anything was watched, ``dim`` gaps."""
    return painted(cells, stretches(data, limit))


def painted(cells: str, parts: Sequence[tuple[int, str]]) -> list[Span]:
    """One row of ``area`` in the tokens of ``stretches``."""
    out, start = [], 0
    for length, token in parts:
        text = cells[start : start + length]
        if text:
            out.append(Span(text, token))
        start += length
    return out


def stretches(data: Series, limit: float | None = None) -> list[tuple[int, str]]:
    """How many cells of which token, from left to right."""
    values = data.values
    unwatched = (len(values) - data.known) // 2
    unknown = values.count(None)
    if (
        values[:unknown].count(None) == unknown
        and unwatched <= unknown // 2
        and (limit is None or (data.peak or 0.0) <= limit)
    ):
        gap = unknown // 2
        return [(unwatched, "faint"), (gap - unwatched, "dim"), (len(values) // 2 - gap, "graph")]
    if limit is None:
        marks = "".join(["?" if v is None else "." for v in values])
    else:
        marks = "".join(["?" if v is None else "!" if v > limit else "." for v in values])
    kinds = "".join(map(_KINDS.__getitem__, zip(marks[::2], marks[1::2], strict=True)))
    kinds = kinds[:unwatched].replace("?", " ") + kinds[unwatched:]
    return [(found.end() - found.start(), _TOKENS[found[0][0]]) for found in _RUN.finditer(kinds)]


_KINDS = {(left, right): max(left, right, key="?.!".index) for left in "?.!" for right in "?.!"}
_TOKENS = {" ": "faint", "?": "dim", ".": "graph", "!": "hot"}
_RUN = pattern(r"(.)\1*")


class Shifted:
    """Series that are moved on by one slot where only one sample has come, instead of being made again.

    A cache: what it answers is what ``series`` answers. One for each kind of value.
    """

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._samples: tuple[Sample, ...] = ()
        self._made = Series((), 0)
        self._used = 0
        self._even = False
        """Whether each of the samples took just one slot."""

    def series(
        self,
        key: tuple[object, ...],
        samples: tuple[Sample, ...],
        value: Callable[[Sample], float | None],
        slots: int,
        interval_s: float,
    ) -> Series:
        """As ``series``. key: what ``value`` depends on beside the sample's block, cpu, gpu and length."""
        key = (*key, slots, interval_s)
        made, before = self._made, self._samples
        if key != self._key or not self._follows(samples, interval_s, full=made.known == slots):
            if key != self._key or samples is not before:
                made, self._used = _series(samples, value, slots, interval_s)
                self._even = all(s.seconds is None or 0.75 <= s.seconds / interval_s <= 1.25 for s in samples)
        else:
            self._used += 1
            newest = None if samples[-1].gap else value(samples[-1])
            made = Series((*made.values[1:], newest), min(slots, made.known + 1))
        self._key, self._samples, self._made = key, samples, made
        return made

    def _follows(self, samples: tuple[Sample, ...], interval_s: float, *, full: bool) -> bool:
        """Whether these are the samples of last time and one more that takes just one slot.

        full: the oldest are beyond the left edge, so that those may be missing which are no longer kept.
        """
        before = self._samples
        if len(before) < 2 or len(samples) < 2:
            return False
        newest = samples[-1]
        if newest.seconds is None or not 0.75 <= newest.seconds / interval_s <= 1.25:
            return False
        gone = len(before) + 1 - len(samples)
        if gone < 0 or (gone and (not full or (self._used >= len(samples) and not (gone == 1 and self._even)))):
            return False
        pairs = zip(before[gone:], samples, strict=False)
        others = compress(pairs, map(is_not, before[gone:], samples))
        return all(_alike(was, now) for was, now in others)


def _alike(was: Sample, now: Sample) -> bool:
    """Whether two samples give every graph the same; one that leaves the history loses its processes."""
    return (
        was.block is now.block
        and was.cpu is now.cpu
        and was.gpu is now.gpu
        and was.seconds == now.seconds
        and was.gap == now.gap
    )
