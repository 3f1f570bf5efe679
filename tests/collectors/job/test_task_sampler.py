"""When the states of a job's tasks are looked at."""

from itertools import accumulate, islice

import pytest

from iotop_ai.collectors.job.task_sampler import PERIOD_S, uneven_waits

LOOKS = 600
"""Half a minute."""


@pytest.mark.parametrize("step_s", [PERIOD_S * factor for factor in (1 / 3, 0.5, 0.999, 1.0, 1.001, 1.5, 2, 3, 4, 10)])
@pytest.mark.parametrize("waits", [0.1, 0.4, 0.9])
def test_a_loop_in_step_with_the_looks_is_seen_as_it_is(step_s: float, waits: float) -> None:
    """A step waits first and computes then; however long it takes, the looks see both as often as they are."""
    times = list(accumulate(islice(uneven_waits(PERIOD_S, seed=1), LOOKS)))
    seen = sum(at % step_s < waits * step_s for at in times) / LOOKS
    assert seen == pytest.approx(waits, abs=0.06)


def test_the_looks_are_as_many_as_at_even_distances() -> None:
    waits = list(islice(uneven_waits(PERIOD_S, seed=1), LOOKS))
    assert min(waits) >= 0
    assert sum(waits) / LOOKS == pytest.approx(PERIOD_S, rel=0.01)
