"""Pressure stall information: /proc/pressure/* and a cgroup's *.pressure.

Source: https://docs.kernel.org/accounting/psi.html. The totals are microseconds; averages update every 2 s, so
rates are taken from the totals. System figures are diluted over non-idle CPUs; a cgroup's are its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, per_second
from iotop_ai.model.metric import Exported, Metric


class PressureTotals(NamedTuple):
    """One pressure file's totals in µs. full: None where the kernel does not print it (cpu on old kernels)."""

    some_us: Annotated[int, Exported("us", "Time in which a task waited for the resource.", "some")]
    full_us: Annotated[int | None, Exported("us", "Time in which all non-idle tasks waited for the resource.", "full")]


class PressureRates(NamedTuple):
    """Shares of time, 0..1."""

    some_ratio: Annotated[float | None, Metric("ratio", "Share of time in which a task waited for the resource.")]
    full_ratio: Annotated[
        float | None, Metric("ratio", "Share of time in which all non-idle tasks waited for the resource.")
    ]


PressureTable = Mapping[str, PressureTotals]
"""Keys: "cpu", "io", "memory", and "cgroup:<path>:<resource>" for the cgroups that are watched."""


def pressure_rates(
    before: PressureTable | None, after: PressureTable, seconds: float | None
) -> dict[str, PressureRates]:
    """Shares per key; at most 1 (the kernel updates totals in batches).

    The whole system's "full" of the CPU is undefined: the kernel prints 0 since 5.13 (docs.kernel.org/accounting/psi).
    """
    out = {}
    for key, now in after.items():
        old = None if before is None else before.get(key)
        some = per_second(delta(old.some_us, now.some_us), seconds) if old else None
        full = per_second(delta(old.full_us, now.full_us), seconds) if old and key != "cpu" else None
        out[key] = PressureRates(
            None if some is None else min(1.0, some / 1e6), None if full is None else min(1.0, full / 1e6)
        )
    return out
