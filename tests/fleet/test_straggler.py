"""The machine of a job for which the other machines wait."""

from __future__ import annotations

import pytest

from iotop_ai.fleet.straggler import straggler_of
from iotop_ai.model.fleet.records import JobPart
from iotop_ai.model.job.time_shares import SHARES


def part(machine: str, **shares: float) -> JobPart:
    known = {"compute": 1 - sum(shares.values()), **shares}
    return JobPart(machine, seconds=tuple(100 * known.get(name, 0.0) for name in SHARES), gpus=8)


WAITS = {"collective": 0.5}


def test_the_machine_that_waits_least_is_late() -> None:
    parts = [part("a", **WAITS), part("b", data_disk=0.5), part("c", **WAITS), part("d", **WAITS)]
    late = straggler_of(parts, {})
    assert late is not None
    assert (late.machine, late.cause, late.ratio, late.others, late.waited) == ("b", "data_disk", 0.5, 0.0, 0.5)


@pytest.mark.parametrize(
    ("numbers", "late_rank", "ranks"), [("8-15", None, "8-15"), ("13", None, "13"), ("8-15", 13, "13"), ("", None, "")]
)
def test_the_late_rank_is_named_or_else_all_ranks_of_its_machine(
    numbers: str, late_rank: int | None, ranks: str
) -> None:
    slow = part("b", data_disk=0.5)._replace(numbers=numbers, late_rank=late_rank)
    # This rank is late on its machine, but the machine itself waits for another, so it is not the job's straggler.
    waiting = part("a", **WAITS)._replace(numbers="0-7", late_rank=3)
    late = straggler_of([waiting, slow], {})
    assert late is not None
    assert (late.machine, late.ranks) == ("b", ranks)


def test_a_machine_may_be_late_because_it_computes() -> None:
    late = straggler_of([part("a", **WAITS), part("b", collective=0.05), part("c", **WAITS)], {})
    assert late is not None
    assert (late.machine, late.cause) == ("b", "compute")
    assert late.ratio == pytest.approx(0.95)


@pytest.mark.parametrize(
    "parts",
    [
        [part("a", **WAITS), part("a", data_disk=0.5)],
        [],
        [part("a", data_disk=0.9)],
        [part("a"), part("b", data_disk=0.3)],  # the other machine does not wait
        [part("a", **WAITS), part("b", **WAITS)],  # both wait equally, as for a slow network
        [part("a", collective=0.12), part("b", collective=0.05)],
        [part("a", **WAITS), JobPart("b")],  # nothing is known about the other machine
    ],
)
def test_without_a_clear_difference_no_machine_is_late(parts: list[JobPart]) -> None:
    assert straggler_of(parts, {}) is None
