"""The goals of the cost, line by line, and whether they are met. Ratios within one run, of the minimum of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

OURS, EXACT, RECORD, BARE, RING = (
    "iotop-ai",
    "iotop-ai --exact",
    "record",
    "collector and diagnosis",
    "collector and diagnosis, last hour kept",
)


class Measured(Protocol):
    """One run of one program: tests.bench.cost.Run."""

    @property
    def cpu_ms(self) -> float: ...
    @property
    def peak_mb(self) -> float: ...


class Goal(NamedTuple):
    """One line of the table."""

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
"""(load, program, peer, the share of its CPU that ours may take)."""
_PEAKS = (("100", 45.0), ("10000", 60.0))
_MORE = (("100", "paused", RING, 1.0), ("100", "help open", RING, 1.0), ("100", RECORD, BARE, 2.0))
"""(load, program, the one it may exceed, by how many ms)."""
ABOUT_200_MS = 6.0
JOB_MS = 12.0


def goals(runs: Mapping[str, Mapping[str, Sequence[Measured]]]) -> list[Goal]:
    """The lines that have runs, in order. runs: by load and program."""
    cpu = {
        (load, name): min(run.cpu_ms for run in found)
        for load, by_name in runs.items()
        for name, found in by_name.items()
    }
    out = []
    for load, name, peer, share in _SHARES:
        if (load, name) in cpu and (load, peer) in cpu:
            ours, peer_ms = cpu[load, name], cpu[load, peer]
            figure = f"{ours / peer_ms:.2f} ({ours:.1f} of {peer_ms:.1f} ms/s)"
            form = ", every process read" if name == EXACT else ", idle ones skipped" if load == "10000" else ""
            out.append(Goal(_work(load) + form, f"at most {share:.2f} of {peer}", figure, ours <= share * peer_ms))
    if ("200", OURS) in cpu:
        ours = cpu["200", OURS]
        out.append(Goal(_work("200"), f"at most {ABOUT_200_MS:.0f} ms/s", f"{ours:.1f} ms/s", ours <= ABOUT_200_MS))
    for load, most in _PEAKS:
        if OURS in runs.get(load, {}):
            peak = min(run.peak_mb for run in runs[load][OURS])
            out.append(Goal(f"{_work(load)}, peak memory", f"at most {most:.0f} MB", f"{peak:.1f} MB", peak <= most))
    for load, name, other, most in _MORE:
        if (load, name) in cpu and (load, other) in cpu:
            ours, base = cpu[load, name], cpu[load, other]
            figure = f"+{ours - base:.1f} ({ours:.1f} over {base:.1f})"
            out.append(Goal(f"{_work(load)}, {name}", f"{other} + {most:.0f} ms/s", figure, ours <= base + most))
    if ("100", RECORD) in cpu and ("100", OURS) in cpu:
        ours, live = cpu["100", RECORD], cpu["100", OURS]
        out.append(
            Goal(f"{_work('100')}, {RECORD}", "below the live screen", f"{ours:.1f} of {live:.1f} ms/s", ours < live)
        )
    if ("job", OURS) in cpu and ("family", OURS) in cpu:
        more = cpu["job", OURS] - cpu["family", OURS]
        out.append(
            Goal("a job of 32 sampled tasks", f"at most + {JOB_MS:.0f} ms/s", f"+{more:.1f} ms/s", more <= JOB_MS)
        )
    return out


def _work(load: str) -> str:
    return f"{int(load):,} processes" if load.isdecimal() else "2,000 threads in 20 processes"
