"""The statistics of the overhead benchmark: a planted loss is found, and noise does not count as a loss."""

import random

import pytest

from tests.bench.paired import CANNOT_TELL, MET, NOT_MET, estimate, loss, orders


def losses(true_loss: float, noise: float, seed: int, pairs: int = 72) -> list[float]:
    """The losses of pairs of runs. Other load varies slowly, so consecutive pairs have similar noise."""
    rng, out, carried = random.Random(seed), [], 0.0
    for _ in range(pairs):
        carried = 0.5 * carried + rng.gauss(0, noise)
        out.append(loss(100.0, 100.0 * (1 - true_loss - carried)))
    return out


@pytest.mark.parametrize(
    ("true_loss", "noise", "answer"), [(0.002, 0.01, MET), (0.02, 0.01, NOT_MET), (0.01, 0.08, CANNOT_TELL)]
)
def test_a_planted_loss_is_judged(true_loss: float, noise: float, answer: str) -> None:
    found = estimate(losses(true_loss, noise, seed=7))
    assert found is not None
    assert found.low <= true_loss <= found.high
    assert found.within(0.01) == answer


def test_the_interval_contains_the_truth_as_often_as_promised() -> None:
    found = [estimate(losses(0.004, 0.02, seed), seed, rounds=300) for seed in range(40)]
    assert sum(one is not None and one.low <= 0.004 <= one.high for one in found) >= 35


def test_few_pairs_give_no_answer() -> None:
    assert estimate([0.0] * 7) is None


def test_each_order_of_a_pair_occurs_equally_often() -> None:
    found = orders(40, seed=3)
    assert found.count((True, False)) == found.count((False, True)) == 20
    assert found != sorted(found)
    assert found == orders(40, seed=3)
