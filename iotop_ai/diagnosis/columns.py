"""What each process did over a window, summed column by column: a thousand processes in ten samples are many figures.

A sample is in ten windows or more, so its columns are made once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property
from itertools import chain
from operator import itemgetter

from iotop_ai.diagnosis.once import OfSample
from iotop_ai.diagnosis.window import Window
from iotop_ai.model.process import ProcessKey, ProcessRates
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample

_NAMES = ("read_bytes_per_s", "write_bytes_per_s", "cpu_ratio", "io_delay_ratio")
_FIELDS = tuple(itemgetter(ProcessRates._fields.index(name)) for name in _NAMES)
_FEW = 256
"""Of so few entries a column is summed one by one: to have it done in C takes more to prepare."""
READ, WRITE, CPU, DELAY, LOOKS = range(5)
"""Columns: bytes read and written, CPU, time blocked by delay accounting, looks in state D."""

Figures = tuple[tuple[float, ...], ...]


class Columns(NamedTuple):
    """One sample. keys: the processes that are listed or wait, in this order; place: of each.

    figures: the columns, each with one figure a process in the order of ``keys`` and a 0 at the end; 0 where unknown.
    no_io, no_cpu: of which that is so.
    """

    keys: tuple[ProcessKey, ...]
    place: Mapping[ProcessKey, int]
    figures: Figures
    no_io: tuple[ProcessKey, ...]
    no_cpu: tuple[ProcessKey, ...]


class Sums:
    """A window. keys: of the processes that did or waited for something, in the order of their first sample.

    known: samples. no_io, no_cpu: in how many samples a process's figures are not known; it is missing where that is
    none.
    """

    def __init__(self, parts: tuple[Columns, ...]) -> None:
        self.keys = _together(parts)
        self.known = len(parts)
        self.no_io = _times([part.no_io for part in parts if part.no_io])
        self.no_cpu = _times([part.no_cpu for part in parts if part.no_cpu])
        self._parts = parts
        self._entries = sum([len(part.keys) for part in parts])
        self._columns: dict[int, tuple[float, ...]] = {}

    @cached_property
    def _picks(self) -> list[itemgetter[tuple[float, ...]] | None]:
        """What brings each sample's figures into the order of ``keys``; None where they have it."""
        return [None if part.keys == self.keys else _in_order_of(part, self.keys) for part in self._parts]

    def column(self, number: int) -> tuple[float, ...]:
        """READ, WRITE, CPU, DELAY or LOOKS summed, one a process in the order of ``keys``, and a 0 at the end."""
        found = self._columns.get(number)
        if found is None:
            found = self._columns[number] = self._few(number) if self._entries <= _FEW else self._many(number)
        return found

    def _few(self, number: int) -> tuple[float, ...]:
        out: dict[ProcessKey, float] = dict.fromkeys(self.keys, 0)
        for part in self._parts:
            for key, figure in zip(part.keys, part.figures[number], strict=False):
                out[key] += figure
        return (*out.values(), 0)

    def _many(self, number: int) -> tuple[float, ...]:
        both = zip(self._parts, self._picks, strict=True)
        rows = [part.figures[number] if pick is None else pick(part.figures[number]) for part, pick in both]
        return tuple(map(sum, zip(*rows, strict=True)))

    def of(self, number: int, i: int) -> float:
        """``column(number)[i]``, for the i-th process alone where nobody has asked for all."""
        found = self._columns.get(number)
        if found is not None:
            return found[i]
        key = self.keys[i]
        # Who is missing in a sample gets the 0 at the end.
        return sum([part.figures[number][part.place.get(key, -1)] for part in self._parts])


def _times(lacking: list[tuple[ProcessKey, ...]]) -> Mapping[ProcessKey, int]:
    return Counter(chain.from_iterable(lacking)) if lacking else {}


_COLUMNS: OfSample[Columns] = OfSample()


def window_sums(look: Window, only: Collection[ProcessKey] | None = None) -> Sums:
    """The sums of a window; a process that is not listed in a sample did nothing in it. only: these; None all."""
    samples = tuple([s for s in look.samples if s.processes.value is not None])
    if only is not None:
        return Sums(tuple([_make(sample, only) for sample in samples]))
    return Sums(_COLUMNS.each(samples, (), _make))


def _together(parts: tuple[Columns, ...]) -> tuple[ProcessKey, ...]:
    """The processes of any sample, in the order of their first."""
    first = parts[0].keys if parts else ()
    if all(part.keys == first for part in parts):
        return first
    return tuple(dict.fromkeys(chain.from_iterable(part.keys for part in parts)))


def _in_order_of(part: Columns, keys: tuple[ProcessKey, ...]) -> itemgetter[tuple[float, ...]]:
    """Picks a column's figures in the order of ``keys``: who is missing gets the 0 at the end."""
    nobody, place = len(part.keys), part.place.get
    return itemgetter(*[place(key, nobody) for key in keys], nobody)


def _make(sample: Sample, only: Collection[ProcessKey] | None = None) -> Columns:
    listed = {} if sample.processes.value is None else sample.processes.value.rates
    waits = sample.waits
    if only is not None:
        listed = {key: listed[key] for key in only if key in listed}
        waits = {key: waits[key] for key in only if key in waits}
    keys = (*listed, *(key for key in waits if key not in listed))
    more = len(keys) - len(listed) + 1
    read, write, cpu, delay = (tuple(map(field, listed.values())) for field in _FIELDS)
    no_io: tuple[ProcessKey, ...] = ()
    no_cpu: tuple[ProcessKey, ...] = ()
    if None in read or None in write:
        lacks = [a is None or b is None for a, b in zip(read, write, strict=True)]
        no_io = tuple(key for key, lack in zip(listed, lacks, strict=True) if lack)
        read, write = (tuple(0.0 if lack else v for v, lack in zip(row, lacks, strict=True)) for row in (read, write))
    if None in cpu:
        no_cpu = tuple(key for key, v in zip(listed, cpu, strict=True) if v is None)
        cpu = tuple(v or 0.0 for v in cpu)
    if None in delay:
        delay = tuple(v or 0.0 for v in delay)
    zeros = (0.0,) * more
    looks = (*(1 if key in waits else 0 for key in keys), 0)
    figures = (*((*row, *zeros) for row in (read, write, cpu, delay)), looks)
    return Columns(keys, {key: i for i, key in enumerate(keys)}, figures, no_io, no_cpu)
