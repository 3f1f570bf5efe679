"""Exact rates of each process between two readings.

The io and the stat of a process (/proc/PID/io and /proc/PID/stat) are not read in every tick, nor always at the same
time, so each has a separate time. A record that was not read again keeps the rate of the previous Sample; a record that
was read and did not change has the rate 0. A sweep is one pass over the io or the stat of many processes.

A process may inherit the I/O of its ended children. The Settlement of two tables (inherited_io.py) has the I/O to
subtract from each process for this reason.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, per_second
from iotop_ai.model.process.change_tracking import changed
from iotop_ai.model.process.records import (
    ProcessIo,
    ProcessKey,
    ProcessRates,
    ProcessSample,
    ProcessTable,
)
from iotop_ai.model.reading import Rated, Reading

if TYPE_CHECKING:
    from iotop_ai.model.process.inherited_io import Settlement

NO_IO = ProcessIo(0, 0, 0, 0, 0, 0, 0)
"""The counters that a process starts with."""


_Rate = float | None
_IoRates = tuple[_Rate, _Rate, _Rate, _Rate, _Rate, _Rate, _Rate]
"""The first seven fields of ProcessRates: bytes read, written and cancelled, then bytes and calls of read and write."""
_StatRates = tuple[_Rate, _Rate, _Rate, bool, int | None, float]
"""Fields of ProcessRates: cpu_ratio, io_delay_ratio, major_faults_per_s, main_thread_only, threads_looked, stat_s."""
_UNKNOWN_IO: _IoRates = (None, None, None, None, None, None, None)
_IDLE_IO: _IoRates = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
_UNKNOWN_STAT: _StatRates = (None, None, None, False, None, 0.0)


class _Pair(NamedTuple):
    """Two tables, and the ProcessSample of the first.

    unlisted_idle: whether the processes that ``last`` does not list were idle; False if ``last`` has no rates
    """

    before: ProcessTable
    after: ProcessTable
    last: ProcessSample | None
    unlisted_idle: bool


def process_rates(
    before: Reading[ProcessTable] | None, after: Reading[ProcessTable], last: Rated[ProcessSample] | None
) -> Rated[ProcessSample]:
    """The rates of the processes that were active, are blocked, or have an unknown rate.

    Without a usable earlier table there are no rates, and ``seconds`` is None.
    """
    table = after.value
    if table is None:
        return Rated(None, after.at_ns, None, renewed=False)
    if before is not None and before.at_ns == after.at_ns and last is not None:
        return last._replace(renewed=False)
    older = before.value if before is not None else None
    if older is None or table.io_at_ns <= older.io_at_ns:
        return Rated(ProcessSample({}), after.at_ns, None, renewed=True)
    last_sample = last.value if last is not None else None
    unlisted_idle = last is not None and last_sample is not None and last.seconds is not None
    pair = _Pair(older, table, last_sample, unlisted_idle)
    # Imported here, because it is not needed at start-up.
    from iotop_ai.model.process.inherited_io import settle

    settlement = settle(older, table, last_sample)
    rates: dict[ProcessKey, ProcessRates] = {}
    for key in _maybe_active(pair, settlement):
        own_rates = _rates(pair, settlement, key)
        if _worth_listing(pair, key, own_rates):
            rates[key] = own_rates
    sample = ProcessSample(rates, settlement.debts, settlement.cminflt_before)
    return Rated(sample, after.at_ns, (table.io_at_ns - older.io_at_ns) / 1e9, renewed=True)


def _maybe_active(pair: _Pair, settlement: Settlement) -> list[ProcessKey]:
    """The processes that may have been active; all others are known to have been idle."""
    before, after, last, unlisted_idle = pair
    if not unlisted_idle:
        return list(after.stat)
    listed = last.rates if last is not None else {}
    candidates = {
        *changed(after.stat, before.stat),
        *changed(after.io, before.io),
        *(key for key in listed if key in after.stat),
        *after.blocked(),
        *after.threads,
    }
    return sorted(candidates)


def _rates(pair: _Pair, settlement: Settlement, key: ProcessKey) -> ProcessRates:
    cpu, delay, faults, main_thread_only, threads_looked, stat_s = _stat_rates(pair, key)
    io, io_s = _io_rates(pair, settlement, key)
    incl_children = key in settlement.marked
    return ProcessRates(*io, cpu, delay, faults, incl_children, main_thread_only, threads_looked, io_s, stat_s)


def _io_rates(pair: _Pair, settlement: Settlement, key: ProcessKey) -> tuple[_IoRates, float]:
    """The rates, and the seconds between the two readings; 0.0 if io was not read again or the rates are unknown."""
    before, after, last, unlisted_idle = pair
    new = after.io.get(key)
    if new is None:
        return _UNKNOWN_IO, 0.0
    older = before.io.get(key)
    since, until = after.io_since.get(key) or before.io_time(key), after.io_time(key)
    if older is None:
        if key in before.stat or not before.complete:
            return _UNKNOWN_IO, 0.0
        older, since = NO_IO, _count_start_ns(key, before.io_at_ns, after.clk_tck)
    elif since == until:
        last_rates = last.rates.get(key) if last is not None else None
        if last_rates is None:
            return _IDLE_IO if unlisted_idle else _UNKNOWN_IO, 0.0
        return last_rates[:7], 0.0
    seconds = (until - since) / 1e9
    if new is older:
        return _IDLE_IO, seconds
    if seconds <= 0:
        return _UNKNOWN_IO, 0.0
    inherited = settlement.taken.get(key)
    if inherited is not None:
        older = ProcessIo(*map(add, older, inherited))
    # The rate of a counter that fell is unknown.
    rates = [(b - a) / seconds if b >= a else None for a, b in zip(older, new, strict=True)]
    rchar, wchar, syscr, syscw, read, write, cancelled = rates
    return (read, write, cancelled, rchar, wchar, syscr, syscw), seconds


def _count_start_ns(key: ProcessKey, before_ns: int, clk_tck: int) -> int:
    """The monotonic time in ns at which the counters of a process that is new in a table began to count.

    This is the time of the last sweep, or the start of the process if it is earlier. It may be earlier, because a pid
    out of sequence is found only by listing /proc. A later start is not used, because it may be wrong: the start time
    includes the time that the machine was suspended, and monotonic time does not.

    before_ns: the time of the last sweep
    """
    return min(before_ns, (key.start_ticks + 1) * (10**9 // clk_tck))


def _stat_rates(pair: _Pair, key: ProcessKey) -> _StatRates:
    before, after, last, unlisted_idle = pair
    new, older = after.stat[key], before.stat.get(key)
    since, until = _count_start_ns(key, before.stat_at_ns, after.clk_tck), after.stat_time(key)
    if older is not None:
        since = before.stat_time(key)
        if since == until:
            rates = last.rates.get(key) if last is not None else None
            if rates is not None:
                faults = rates.major_faults_per_s
                return rates.cpu_ratio, rates.io_delay_ratio, faults, rates.main_thread_only, rates.threads_looked, 0.0
            if not unlisted_idle:
                return _UNKNOWN_STAT
            return 0.0, 0.0 if after.delay_counted(key) else None, 0.0, new.threads > 1, None, 0.0
    elif not before.complete:
        return _UNKNOWN_STAT
    seconds = (until - since) / 1e9
    cpu = delta(older.utime_ticks + older.stime_ticks if older else 0, new.utime_ticks + new.stime_ticks)
    faults = delta(older.majflt if older else 0, new.majflt)
    ratio = per_second(None if cpu is None else cpu / after.clk_tck, seconds)
    delay, main_thread_only, threads_looked = _delay(pair, key, seconds)
    return ratio, delay, per_second(faults, seconds), main_thread_only, threads_looked, seconds


def _delay(pair: _Pair, key: ProcessKey, seconds: float) -> tuple[float | None, bool, int | None]:
    """The share of time for which the most blocked thread was blocked on block I/O, and which threads were looked at.

    The second and the third value are main_thread_only and threads_looked of ProcessRates.
    """
    before, after = pair.before, pair.after
    threads_looked = None
    sampled, sampled_before = after.threads.get(key), before.threads.get(key)
    new, older = after.stat[key], before.stat.get(key)
    if sampled is not None and sampled_before is not None:
        earlier, is_counted = dict(sampled_before.blkio_ticks), after.delay_counted(key)
        # A thread counts if accounting was on when the process started, or if the thread has ticks, because the
        # thread may have started later.
        amounts = [
            delta(earlier[tid], ticks) for tid, ticks in sampled.blkio_ticks if tid in earlier and (is_counted or ticks)
        ]
        growths = [amount for amount in amounts if amount is not None]
        seconds = (after.stat_at_ns - before.stat_at_ns) / 1e9
        growth, main_thread_only = max(growths, default=None), False
        threads_looked = len(sampled.blkio_ticks) if len(sampled.blkio_ticks) < new.threads else None
    else:
        growth, main_thread_only = delta(older.blkio_ticks if older else 0, new.blkio_ticks), new.threads > 1
        if not after.delay_counted(key):
            growth = None
    if not after.delayacct:
        return None, main_thread_only, threads_looked
    ratio = per_second(None if growth is None else growth / after.clk_tck, seconds)
    # If the CPUs are busy, the kernel's figure can exceed the elapsed time.
    return (None if ratio is None else min(1.0, ratio)), main_thread_only, threads_looked


def _worth_listing(pair: _Pair, key: ProcessKey, rates: ProcessRates) -> bool:
    """Whether the process was active, is blocked, or has an unknown rate (as ProcessSample defines it)."""
    after = pair.after
    sampled = after.threads.get(key)
    if after.stat[key].state == "D" or (sampled is not None and any(state == "D" for state, _ in sampled.states)):
        return True
    if rates.cpu_ratio is None or rates.major_faults_per_s is None:
        return True
    if key not in after.denied and None in rates[:7]:
        return True
    return any(rates[:10])
