"""The totals of each process over a window, summed column by column for speed.

A sample belongs to ten windows or more, so its columns are made once and kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property
from itertools import chain
from operator import itemgetter

from iotop_ai.diagnosis.facts.per_sample_cache import PerSampleCache
from iotop_ai.diagnosis.facts.window import Window
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.process.records import ProcessKey, ProcessRates
from iotop_ai.model.sample import Sample

_NAMES = ("read_bytes_per_s", "write_bytes_per_s", "cpu_ratio", "io_delay_ratio")
_FIELDS = tuple(itemgetter(ProcessRates._fields.index(name)) for name in _NAMES)
_FEW = 256
"""If the samples have up to this many entries together, a column is summed entry by entry: preparing the sum in C
would take longer."""
READ, WRITE, CPU, DELAY, STATE_D = range(5)
"""The numbers of the columns: bytes read, bytes written, CPU, blocked time (delay accounting), samples in state D."""

Figures = tuple[tuple[float, ...], ...]
"""The columns, in the order of READ, WRITE, CPU, DELAY and STATE_D."""


class SampleColumns(NamedTuple):
    """The processes of one sample, column by column."""

    keys: tuple[ProcessKey, ...]
    """The processes with rates, and the processes that wait."""
    index_of: Mapping[ProcessKey, int]
    """The index of each process in ``keys``."""
    figures: Figures
    """The columns. Each has one figure per process in the order of ``keys``, 0 if it is unknown, and ends with a 0."""
    no_io: tuple[ProcessKey, ...]
    """The processes whose I/O is unknown."""
    no_cpu: tuple[ProcessKey, ...]
    """The processes whose CPU time is unknown."""


class WindowTotals:
    """The sums of each process's figures over all samples of a window.

    keys: the processes that did or waited for something, in the order of their first sample. sample_count: the number
    of samples. no_io, no_cpu: for each process with unknown figures, the number of samples in which they are unknown.
    """

    def __init__(self, parts: tuple[SampleColumns, ...]) -> None:
        self.keys = _keys_of_all(parts)
        self.sample_count = len(parts)
        self.no_io = _counts([part.no_io for part in parts if part.no_io])
        self.no_cpu = _counts([part.no_cpu for part in parts if part.no_cpu])
        self._parts = parts
        self._entries = sum([len(part.keys) for part in parts])
        self._columns: dict[int, tuple[float, ...]] = {}

    @cached_property
    def _picks(self) -> list[itemgetter[tuple[float, ...]] | None]:
        """For each sample, a getter that puts its figures in the order of ``keys``; None if they are in it already."""
        return [None if part.keys == self.keys else _reordering(part, self.keys) for part in self._parts]

    def column(self, number: int) -> tuple[float, ...]:
        """The sums of column ``number``: one figure per process in the order of ``keys``, then a 0."""
        column = self._columns.get(number)
        if column is None:
            column = self._columns[number] = (
                self._sum_by_entry(number) if self._entries <= _FEW else self._sum_in_c(number)
            )
        return column

    def _sum_by_entry(self, number: int) -> tuple[float, ...]:
        out: dict[ProcessKey, float] = dict.fromkeys(self.keys, 0)
        for part in self._parts:
            for key, figure in zip(part.keys, part.figures[number], strict=False):
                out[key] += figure
        return (*out.values(), 0)

    def _sum_in_c(self, number: int) -> tuple[float, ...]:
        pairs = zip(self._parts, self._picks, strict=True)
        rows = [part.figures[number] if pick is None else pick(part.figures[number]) for part, pick in pairs]
        return tuple(map(sum, zip(*rows, strict=True)))

    def of(self, number: int, i: int) -> float:
        """The same as ``column(number)[i]``, without computing the whole column."""
        column = self._columns.get(number)
        if column is not None:
            return column[i]
        key = self.keys[i]
        # A process that a sample does not list gets the 0 at the end of the column.
        return sum([part.figures[number][part.index_of.get(key, -1)] for part in self._parts])


def _counts(keys: list[tuple[ProcessKey, ...]]) -> Mapping[ProcessKey, int]:
    return Counter(chain.from_iterable(keys)) if keys else {}


def window_totals(
    window: Window, cache: PerSampleCache[SampleColumns], only: Collection[ProcessKey] | None = None
) -> WindowTotals:
    """The sums of a window; a process that a sample does not list did nothing in that sample.

    cache: keeps the columns of all processes. only: the processes to include; None for all.
    """
    samples = tuple([s for s in window.samples if s.processes.value is not None])
    if only is not None:
        return WindowTotals(tuple([_sample_columns(sample, only) for sample in samples]))
    return WindowTotals(cache.each(samples, (), _sample_columns))


def _keys_of_all(parts: tuple[SampleColumns, ...]) -> tuple[ProcessKey, ...]:
    """The processes of all samples, in the order of their first sample."""
    first_keys = parts[0].keys if parts else ()
    if all(part.keys == first_keys for part in parts):
        return first_keys
    return tuple(dict.fromkeys(chain.from_iterable(part.keys for part in parts)))


def _reordering(part: SampleColumns, keys: tuple[ProcessKey, ...]) -> itemgetter[tuple[float, ...]]:
    """A getter that brings a column into the order of ``keys``; an unlisted process gets the 0 at the column's end."""
    last, index_of = len(part.keys), part.index_of.get
    return itemgetter(*[index_of(key, last) for key in keys], last)


def _sample_columns(sample: Sample, only: Collection[ProcessKey] | None = None) -> SampleColumns:
    listed = {} if sample.processes.value is None else sample.processes.value.rates
    waits = sample.waits
    if only is not None:
        listed = {key: listed[key] for key in only if key in listed}
        waits = {key: waits[key] for key in only if key in waits}
    keys = (*listed, *(key for key in waits if key not in listed))
    zero_count = len(keys) - len(listed) + 1
    read, write, cpu, delay = (tuple(map(field, listed.values())) for field in _FIELDS)
    no_io: tuple[ProcessKey, ...] = ()
    no_cpu: tuple[ProcessKey, ...] = ()
    if None in read or None in write:
        unknown = [a is None or b is None for a, b in zip(read, write, strict=True)]
        no_io = tuple(key for key, is_unknown in zip(listed, unknown, strict=True) if is_unknown)
        read, write = (
            tuple(0.0 if is_unknown else v for v, is_unknown in zip(row, unknown, strict=True)) for row in (read, write)
        )
    if None in cpu:
        no_cpu = tuple(key for key, v in zip(listed, cpu, strict=True) if v is None)
        cpu = tuple(v or 0.0 for v in cpu)
    if None in delay:
        delay = tuple(v or 0.0 for v in delay)
    zeros = (0.0,) * zero_count
    state_d = (*(1 if key in waits else 0 for key in keys), 0)
    figures = (*((*row, *zeros) for row in (read, write, cpu, delay)), state_d)
    return SampleColumns(keys, {key: i for i, key in enumerate(keys)}, figures, no_io, no_cpu)
