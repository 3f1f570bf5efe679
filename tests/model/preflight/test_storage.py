from __future__ import annotations

import pytest

from iotop_ai.model.preflight.dataset import DATASET, Dataset, Demand
from iotop_ai.model.preflight.history import Change, Compared, Kept, comparable, compared, kept_of, slower_than_before
from iotop_ai.model.preflight.place import Nominal, Place
from iotop_ai.model.preflight.report import FINE, NO_ANSWER, PROBLEM, Report
from iotop_ai.model.preflight.storage import (
    FILES,
    MIB,
    RANDOM,
    SEQUENTIAL,
    WRITE,
    Latency,
    Measured,
    Threshold,
    fastest_read,
    files_per_s,
    is_uneven,
    latency_of,
    most_files_per_s,
    plan,
    read_await_ms,
)

MS = 1_000_000
READ = Measured(SEQUENTIAL, MIB, 8, 100, 100 * MIB, 2.0)
SLOW_READ = Measured(SEQUENTIAL, MIB, 1, 40, 40 * MIB, 2.0)
RANDOM_READ = Measured(RANDOM, 4096, 1, 500, 500 * 4096, 1.0, Latency(2.0, 1.8, 3.0, 5.0, 9.0))
SMALL = Measured(FILES, 128 << 10, 4, 900, 900 << 17, 3.0)


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    found = latency_of([n * MS for n in range(1, 101)])
    assert found == Latency(50.5, 50.0, 90.0, 99.0, 100.0)
    assert latency_of([7 * MS]) == Latency(7.0, 7.0, None, None, 7.0)
    assert latency_of([]) is None


def test_a_percentile_that_is_just_the_longest_time_is_unknown() -> None:
    for operations, p90, p99 in ((9, None, None), (10, 9.0, None), (99, 90.0, None), (100, 90.0, 99.0)):
        found = latency_of([n * MS for n in range(1, operations + 1)])
        assert found is not None
        assert (found.p90_ms, found.p99_ms, found.most_ms) == (p90, p99, operations)


@pytest.mark.parametrize("seconds", [2.0, 10.0, 60.0])
def test_the_phases_take_the_given_time(seconds: float) -> None:
    phases = plan(seconds, 4)
    assert sum(phase.seconds for phase in phases) == pytest.approx(seconds)
    assert min(phase.seconds for phase in phases) >= 0.02 * seconds
    assert {phase.depth for phase in phases if phase.name == FILES} == {1, 4}
    assert len({phase[:3] for phase in phases}) == len(phases)


def test_a_measurement_without_operations_has_no_rate() -> None:
    empty = Measured(RANDOM, 4096, 1)
    assert empty.ops_per_s is None
    assert empty.bytes_per_s is None
    assert READ.bytes_per_s == 50 * MIB


def test_the_fastest_read_and_the_await_of_a_single_random_read_are_found() -> None:
    results = (SLOW_READ, READ, RANDOM_READ, SMALL)
    assert fastest_read(results) == 50 * MIB
    assert most_files_per_s(results, None) == 300
    assert read_await_ms(results) == 2.0
    assert fastest_read(()) is None
    assert read_await_ms((RANDOM_READ._replace(depth=4),)) is None


def test_partly_read_files_count_by_their_bytes() -> None:
    parts = Measured(DATASET, 128 << 10, 4, 5, 320 * MIB, 1.0)
    whole = Dataset(100, 100 << 30, True, most_bytes=1 << 30)
    assert most_files_per_s((SMALL, parts), whole) == 320 / 1024
    assert most_files_per_s((SMALL, parts), whole._replace(most_bytes=64 * MIB, size_bytes=100 * 64 * MIB)) == 5


def test_the_rate_of_a_datasets_files_is_within_that_of_its_bytes() -> None:
    """Of 20 small files and a large one, a reader reads the large one while three others read the small ones."""
    files = Dataset(21, 64 * MIB + 4000, True, most_bytes=64 * MIB)
    alone, together = Measured(DATASET, 128 << 10, 1, 21, files.size_bytes, 0.5), Measured(DATASET, 128 << 10, 4)
    assert files_per_s(alone, files) == pytest.approx(42)
    slightly_larger = alone._replace(size_bytes=int(1.5 * files.size_bytes))
    slightly_smaller = alone._replace(ops=28)
    assert files_per_s(slightly_larger, files) == pytest.approx(42)
    assert files_per_s(slightly_smaller, files) == pytest.approx(42)
    mixed = together._replace(ops=3700, size_bytes=files.size_bytes, seconds=0.5)
    assert is_uneven(mixed, files)
    assert files_per_s(mixed, files) is None
    assert most_files_per_s((alone, mixed), files) is None
    only_the_large = alone._replace(ops=1, size_bytes=64 * MIB)
    assert files_per_s(only_the_large, files) is None


def test_files_that_are_read_in_part_are_compared_by_these_parts() -> None:
    files = Dataset(2, (1 << 30) + 4096, True, most_bytes=1 << 30, read_bytes=64 * MIB + 4096)
    both = Measured(DATASET, 128 << 10, 1, 2, 64 * MIB + 4096, 0.5)
    assert files_per_s(both, files) == pytest.approx(128 * MIB / (1 << 29), rel=0.01)
    assert files_per_s(both._replace(ops=200), files) is None


def test_a_file_that_the_end_of_the_time_cut_short_counts_in_part() -> None:
    files = Dataset(100, 6400 * MIB, True, most_bytes=64 * MIB)
    cut = Measured(DATASET, 128 << 10, 2, 2, 32 * MIB, 1.0, unread_bytes=96 * MIB)
    assert not is_uneven(cut, files)
    assert (cut.ops_per_s, files_per_s(cut, files)) == (0.5, 0.5)
    assert is_uneven(cut._replace(unread_bytes=0), files)


def report(*thresholds: Threshold, **fields: object) -> Report:
    return Report(Place("/d"), 1, results=(READ,), thresholds=thresholds)._replace(**fields)


def test_a_missed_threshold_is_reported_even_if_another_is_unknown() -> None:
    missed, met = Threshold("--min-read", 10.0, 5.0), Threshold("--min-read", 5.0, 5.0)
    unknown, late = Threshold("--min-files", 1.0, None), Threshold("--max-await", 20.0, 21.0, at_most=True)
    assert report(met).exit_code == FINE
    assert report(missed, unknown).exit_code == PROBLEM
    assert report(late).exit_code == PROBLEM
    assert report(met, unknown).exit_code == NO_ANSWER


def test_storage_that_hangs_is_a_problem_and_storage_without_figures_gives_no_answer() -> None:
    assert report(hung_s=5.0).exit_code == PROBLEM
    assert report(results=()).exit_code == NO_ANSWER
    assert report(failed="Input/output error").exit_code == NO_ANSWER


def test_a_dataset_that_was_requested_but_not_measured_gives_no_answer() -> None:
    assert report(dataset=Dataset(0, 0, complete=True)).exit_code == NO_ANSWER
    assert report(demand=Demand(100.0, 2, 0.0, 2.0)).exit_code == NO_ANSWER


def test_measured_figures_are_compared_with_nominal_ones() -> None:
    nvme = Nominal(3000e6, "NVMe, PCIe 4x4", "1x1 of 4x4")
    assert report(place=Place("/d", nominal=nvme)).of_nominal == pytest.approx(50 * MIB / 3000e6)
    assert report().of_nominal is None


def test_a_slower_result_is_judged_against_the_median_of_the_same_engine() -> None:
    earlier = [Kept(1, "fio", read=100.0), Kept(2, "fio", read=110.0), Kept(3, "fio", read=900.0), Kept(4, "own", 5.0)]

    def slower(now: Kept) -> tuple[Change, ...]:
        return slower_than_before(comparable(earlier, now), now)

    assert slower(Kept(9, "fio", read=66.0)) == (Change("read", 110.0, 66.0, 2),)
    assert slower(Kept(9, "fio", read=100.0)) == ()
    assert slower(Kept(9, "own", read=5.0)) == ()
    assert slower_than_before([], Kept(9, "fio", read=1.0)) == ()
    assert slower(Kept(9, "fio")) == ()


def test_a_check_is_compared_with_earlier_checks_of_the_same_figures() -> None:
    read, write, nothing = Kept(1, "fio", read=100.0), Kept(2, "fio", write=5.0), Kept(3, "fio", read=0.0)
    own = Kept(4, "own", read=100.0)
    assert comparable([read, write, nothing, own], Kept(9, "fio", read=90.0)) == [read]
    assert comparable([read, write], Kept(9, "fio")) == []


def test_a_figure_is_put_beside_the_range_of_the_earlier_checks_that_have_it() -> None:
    earlier = [Kept(1, "own", read=100.0, write=9.0), Kept(2, "own", read=60.0, files=0.0), Kept(3, "own", read=80.0)]
    now = Kept(9, "own", read=70.0, random=5.0, files=3.0, write=7.0)
    assert compared(earlier, now) == (Compared("read", 70.0, 60.0, 100.0), Compared("write", 7.0, 9.0, 9.0))
    assert compared([], now) == ()


def test_the_figures_of_a_check_are_kept() -> None:
    written = Measured(WRITE, MIB, 1, 2, 64 * MIB, 1.0)
    alone = SMALL._replace(depth=1, ops=400)
    kept = kept_of((READ, RANDOM_READ, alone, SMALL, written), "fio-3.33", 7)
    assert kept == Kept(7, "fio", 50 * MIB, 500.0, 400 / 3, 64 * MIB)
    assert kept_of((), "own", 7) == Kept(7, "own")


def test_files_of_a_dataset_or_of_another_size_are_not_kept() -> None:
    dataset = Measured(DATASET, 128 << 10, 1, 60, 60 * MIB, 1.0)
    larger = SMALL._replace(depth=1, block_bytes=MIB)
    assert kept_of((larger, SMALL, dataset), "own", 7).files is None
