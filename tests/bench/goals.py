"""The cost goals as lines of a table, and whether they are met.

A figure is the median over the sittings, with their range, because the same machine is up to a third faster or slower
an hour later. The figure of a sitting is the median of its rounds, and a ratio is always one within a sitting.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

OURS, EXACT, RECORD, BARE, RING = (
    "iotop-ai",
    "iotop-ai --exact",
    "record",
    "collector and diagnosis",
    "collector and diagnosis, last hour kept",
)


class Measured(Protocol):
    """One run of one program, such as tests.bench.cost.Run."""

    @property
    def cpu_ms(self) -> float: ...
    @property
    def peak_mb(self) -> float: ...
    @property
    def sitting(self) -> str: ...


AnyRun = TypeVar("AnyRun", bound=Measured)


class Goal(NamedTuple):
    """One line of the table of goals."""

    work: str
    must: str
    measured: str
    met: bool


_SHARES = (
    ("100", OURS, "btop", 1.0),
    ("100", OURS, "glances", 0.35),
    ("200", OURS, "htop", 1.0),
    ("1000", OURS, "btop", 0.4),
    ("1000", OURS, "iotop-c", 0.25),
    ("1000", OURS, "htop", 0.25),
    ("10000", EXACT, "top", 0.4),
    ("10000", OURS, "top", 0.1),
    ("threads", OURS, "iotop-c", 0.25),
)
"""The load, our program, the other program, and the share of the other program's CPU time that ours may take."""
_PEAKS = (("100", 45.0), ("10000", 60.0))
_MORE = (("100", "paused", RING, 1.0), ("100", "help open", RING, 1.0), ("100", RECORD, BARE, 2.0))
"""The load, the program, the program whose CPU time it may exceed, and by how many ms."""
MOST_MS_AT_200 = 6.0
"""The maximum CPU time per second with 200 processes, in ms."""
_JOBS = (
    ("a job of 32 sampled tasks", "job", "family", 12.0),
    ("a job of 64 threads", "thread-job", "64threads", 20.0),
)
"""The work, its load, the same processes without a job, and the additional CPU time per second that a job may cost."""


def by_sitting(runs: Iterable[AnyRun], value: Callable[[AnyRun], float]) -> dict[str, float]:
    """Return the median of each sitting's rounds, the oldest sitting first."""
    found: dict[str, list[float]] = {}
    for run in runs:
        found.setdefault(run.sitting, []).append(value(run))
    return {sitting: statistics.median(found[sitting]) for sitting in sorted(found)}


def with_range(values: Iterable[float], form: str = ".1f") -> str:
    """Return the median and the range, such as "6.2 (5.9-7.2)"; only one figure if all are the same."""
    known = sorted(values)
    middle, least, most = (f"{value:{form}}" for value in (statistics.median(known), known[0], known[-1]))
    return middle if least == most else f"{middle} ({least}-{most})"


class _Cpu:
    """The CPU time of each load and program, by sitting."""

    def __init__(self, runs: Mapping[str, Mapping[str, Sequence[Measured]]]) -> None:
        self._found = {
            (load, name): by_sitting(found, lambda run: run.cpu_ms)
            for load, by_name in runs.items()
            for name, found in by_name.items()
        }

    def cpu_times(self, load: str, name: str) -> list[float]:
        """Return the CPU time of a program in each sitting; [] if it was not measured."""
        return [*self._found.get((load, name), {}).values()]

    def pairs(self, one: tuple[str, str], other: tuple[str, str]) -> list[tuple[float, float]]:
        """Return the CPU times of two programs, for each sitting that has both."""
        ours, theirs = self._found.get(one, {}), self._found.get(other, {})
        return [(ours[sitting], theirs[sitting]) for sitting in ours if sitting in theirs]


def needed() -> dict[str, list[str]]:
    """Return the programs that the goals compare, by load."""
    out: dict[str, list[str]] = {}
    for load, *names in [
        *((load, name, peer) for load, name, peer, _ in (*_SHARES, *_MORE)),
        *((load, OURS) for _, *loads, _ in _JOBS for load in loads),
    ]:
        known = out.setdefault(load, [])
        known += [name for name in names if name not in known]
    return out


def goals(runs: Mapping[str, Mapping[str, Sequence[Measured]]]) -> list[Goal]:
    """Return the goals that have runs, in order. runs: the runs by load and program."""
    cpu, out = _Cpu(runs), []
    for load, name, peer, share in _SHARES:
        if pairs := cpu.pairs((load, name), (load, peer)):
            ratios = [ours / theirs for ours, theirs in pairs]
            note = ", every process read" if name == EXACT else ", idle ones skipped" if load == "10000" else ""
            figure = f"{with_range(ratios, '.2f')}: {_both(pairs, 'of')}"
            met = statistics.median(ratios) <= share
            out.append(Goal(_work(load) + note, f"at most {share:.2f} of {peer}", figure, met))
    if at_200 := cpu.cpu_times("200", OURS):
        met = statistics.median(at_200) <= MOST_MS_AT_200
        out.append(Goal(_work("200"), f"at most {MOST_MS_AT_200:.0f} ms/s", f"{with_range(at_200)} ms/s", met))
    for load, most in _PEAKS:
        if found := runs.get(load, {}).get(OURS):
            peaks = [*by_sitting(found, lambda run: run.peak_mb).values()]
            met = statistics.median(peaks) <= most
            out.append(Goal(f"{_work(load)}, peak memory", f"at most {most:.0f} MB", f"{with_range(peaks)} MB", met))
    for load, name, other, most in _MORE:
        if pairs := cpu.pairs((load, name), (load, other)):
            met, figure = _difference(pairs, most)
            out.append(Goal(f"{_work(load)}, {name}", f"{other} + {most:.0f} ms/s", figure, met))
    if pairs := cpu.pairs(("100", RECORD), ("100", OURS)):
        met = statistics.median([ours / live for ours, live in pairs]) < 1
        out.append(Goal(f"{_work('100')}, {RECORD}", "below the live screen", _both(pairs, "of"), met))
    for work, load, other, most in _JOBS:
        if pairs := cpu.pairs((load, OURS), (other, OURS)):
            met, figure = _difference(pairs, most)
            out.append(Goal(work, f"at most + {most:.0f} ms/s", figure, met))
    return out


def _both(pairs: Sequence[tuple[float, float]], word: str) -> str:
    """Return the medians of both sides as text, such as "6.2 of 8.9 ms/s"."""
    ours, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
    return f"{ours:.1f} {word} {theirs:.1f} ms/s"


def _difference(pairs: Sequence[tuple[float, float]], most: float) -> tuple[bool, str]:
    more = [ours - base for ours, base in pairs]
    figure = with_range(more)
    sign = "" if figure.startswith("-") else "+"
    return statistics.median(more) <= most, f"{sign}{figure}: {_both(pairs, 'over')}"


def _work(load: str) -> str:
    return f"{int(load):,} processes" if load.isdecimal() else "2,000 threads in 20 processes"
