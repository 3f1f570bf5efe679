"""Pressure stall information: /proc/pressure/* and a cgroup's *.pressure.

Source: https://docs.kernel.org/accounting/psi.html. The totals are microseconds. The kernel's own averages change only
every 2 s, so rates are computed from the totals. System-wide figures are averaged over all non-idle CPUs; those of a
cgroup count only its tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, per_second
from iotop_ai.model.metric import Exported, Metric


class PressureTotals(NamedTuple):
    """The totals of one pressure file in µs; full is None if the kernel does not print it (cpu on old kernels)."""

    some_us: Annotated[int, Exported("us", "Time in which a task waited for the resource.", "some")]
    full_us: Annotated[int | None, Exported("us", "Time in which all non-idle tasks waited for the resource.", "full")]


class PressureRates(NamedTuple):
    """Shares of time, 0 to 1; None if unknown."""

    some_ratio: Annotated[float | None, Metric("ratio", "Share of time in which a task waited for the resource.")]
    full_ratio: Annotated[
        float | None, Metric("ratio", "Share of time in which all non-idle tasks waited for the resource.")
    ]


PressureTable = Mapping[str, PressureTotals]
"""The totals by key: "cpu", "io", "memory", and "cgroup:<path>:<resource>" for the watched cgroups."""


def pressure_rates(
    before: PressureTable | None, after: PressureTable, seconds: float | None
) -> dict[str, PressureRates]:
    """The shares by key, limited to 1, because the kernel updates the totals in batches.

    The "full" share of the system's "cpu" is undefined and therefore None; since 5.13 the kernel prints 0 for it.
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
