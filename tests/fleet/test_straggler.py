"""Which machine of a job the others wait for."""

from __future__ import annotations

import pytest

from iotop_ai.fleet.straggler import straggler_of
from iotop_ai.model.fleet.records import JobPart
from iotop_ai.model.job.time_shares import SHARES


def part(machine: str, **shares: float) -> JobPart:
    known = {"compute": 1 - sum(shares.values()), **shares}
    return JobPart(machine, seconds=tuple(100 * known.get(name, 0.0) for name in SHARES), gpus=8)


WAITS = {"collective": 0.5}


def test_the_one_that_waits_least_is_late() -> None:
    parts = [part("a", **WAITS), part("b", data_disk=0.5), part("c", **WAITS), part("d", **WAITS)]
    late = straggler_of(parts, {})
    assert late is not None
    assert (late.machine, late.cause, late.ratio, late.others, late.waited) == ("b", "data_disk", 0.5, 0.0, 0.5)


@pytest.mark.parametrize(
    ("numbers", "late_rank", "ranks"), [("8-15", None, "8-15"), ("13", None, "13"), ("8-15", 13, "13"), ("", None, "")]
)
def test_its_late_rank_is_named_else_all_its_ranks(numbers: str, late_rank: int | None, ranks: str) -> None:
    slow = part("b", data_disk=0.5)._replace(numbers=numbers, late_rank=late_rank)
    # A rank for which its neighbours wait is not the straggler of the job while its machine waits for another.
    waiting = part("a", **WAITS)._replace(numbers="0-7", late_rank=3)
    late = straggler_of([waiting, slow], {})
    assert late is not None
    assert (late.machine, late.ranks) == ("b", ranks)


def test_a_machine_may_be_late_by_computing() -> None:
    late = straggler_of([part("a", **WAITS), part("b", collective=0.05), part("c", **WAITS)], {})
    assert late is not None
    assert (late.machine, late.cause) == ("b", "compute")
    assert late.ratio == pytest.approx(0.95)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [part("a", data_disk=0.9)],
        [part("a"), part("b", data_disk=0.3)],  # the others do not wait
        [part("a", **WAITS), part("b", **WAITS)],  # all wait alike, as for a slow network
        [part("a", collective=0.12), part("b", collective=0.05)],
        [part("a", **WAITS), JobPart("b")],  # nothing is known of the other
    ],
)
def test_none_stands_out(parts: list[JobPart]) -> None:
    assert straggler_of(parts, {}) is None
