"""The recommended configuration, what limits it, and growing memory; without a real loader."""

from __future__ import annotations

import pytest

from iotop_ai.model.preflight.loader.report import Report
from iotop_ai.model.preflight.loader.run import Built, Configuration, Failure, Run, Steady, Used, curve
from iotop_ai.preflight.loader.grow import growth_per_batch
from iotop_ai.preflight.loader.recommend import bound_of, recommend
from iotop_ai.preflight.loader.sweep import Grid
from iotop_ai.present.preflight.loader import arguments_text, findings_text

MB = 1 << 20


def run(workers: int, rate: float, used: Used = Used(), prefetch: int | None = None, start: str = "") -> Run:  # noqa: B008
    built = Built("torch", start or "fork", ("batch_size", "num_workers"))
    return Run(Configuration(workers, 32, prefetch, False, start), built, Steady(10, int(rate * 10), 10.0, 0.1), used)


def test_the_smallest_configuration_within_five_percent_is_recommended() -> None:
    choice = recommend([run(0, 50), run(2, 96), run(4, 100), run(8, 99)], 8)
    assert choice is not None
    assert (choice.run.configuration.workers, choice.best.configuration.workers) == (2, 4)
    assert not choice.rising


def test_a_configuration_just_beyond_five_percent_is_too_slow() -> None:
    choice = recommend([run(2, 94.9), run(4, 100)], 8)
    assert choice is not None
    assert choice.run.configuration.workers == 4
    assert choice.rising


def test_more_workers_are_not_proposed_if_a_larger_number_failed() -> None:
    failed = Run(Configuration(8, 32), failure=Failure("shm", "/dev/shm is full"))
    choice = recommend([run(2, 50), run(4, 100), failed], 16)
    assert choice is not None
    assert choice.run.configuration.workers == 4
    assert not choice.rising
    other = failed._replace(configuration=Configuration(8, 64))
    choice = recommend([run(2, 50), run(4, 100), other], 16)
    assert choice is not None
    assert choice.rising


def test_more_workers_are_not_proposed_if_no_core_is_left() -> None:
    for cores, rising in ((2.0, False), (16.0, True)):
        choice = recommend([run(1, 50, Used(1.0, 0.1)), run(2, 100, Used(1.9, 0.1))], cores)
        assert choice is not None
        assert (choice.bound, choice.rising) == ("cpu", rising)


@pytest.mark.parametrize(
    ("workers", "proposal"),
    [(8, "try --workers 8,16,32"), (100, "try --workers 100,200,256"), (256, "a sweep cannot try more")],
)
def test_the_proposed_workers_are_numbers_that_a_sweep_takes(workers: int, proposal: str) -> None:
    runs = (run(1, 50), run(workers, 100))
    report = Report("m:f", "python3", 0, runs, 512.0, choice=recommend(runs, 512))
    assert findings_text(report)[-1] == f"the curve still rises at {workers} workers: {proposal}"


@pytest.mark.parametrize(
    ("workers", "kind", "proposed"), [(2, "torch", True), (0, "torch", False), (2, "tensorflow", False)]
)
def test_persistent_workers_are_proposed_only_where_the_loader_takes_them(
    workers: int, kind: str, proposed: bool
) -> None:
    one = run(workers, 50)
    slow = one._replace(built=Built(kind), steady=Steady(10, 500, 10.0, 12.0))
    last = findings_text(Report("m:f", "python3", 0, (slow,), 8.0))[-1]
    assert last.startswith("the first batch takes 12 s (")
    assert ("persistent_workers=True" in last) == proposed


def test_fewer_prefetched_batches_make_a_smaller_configuration() -> None:
    choice = recommend([run(2, 100, prefetch=8), run(2, 99)], 8)
    assert choice is not None
    assert choice.run.configuration.prefetch is None


def test_without_a_measurement_nothing_is_recommended() -> None:
    failed = Run(Configuration(2, 32), failure=Failure("hang", "hangs"))
    assert recommend([failed], 8) is None
    assert Report("m:f", "python3", 0, (failed,), 8.0).exit_code == 1
    assert Report("m:f", "python3", 0, (failed._replace(failure=Failure("refused", "")),), 8.0).exit_code == 2


def test_only_a_sweep_without_any_figure_gives_no_answer() -> None:
    empty, refused, hung = (
        Run(Configuration(2, 32), failure=Failure(kind, "")) for kind in ("empty", "refused", "hang")
    )
    codes = {
        (empty, empty): 2, (empty, hung): 1, (run(0, 10), empty): 1, (run(0, 10), refused): 1, (refused, hung): 1,
    }  # fmt: skip
    for runs, code in codes.items():
        assert Report("m:f", "python3", 0, runs, 8.0, choice=recommend(runs, 8)).exit_code == code


def test_a_failed_configuration_fails_a_sweep_with_a_choice() -> None:
    runs = (run(0, 10), Run(Configuration(2, 32), failure=Failure("killed", "")))
    assert Report("m:f", "python3", 0, runs, 8.0, choice=recommend(runs, 8)).exit_code == 1
    assert Report("m:f", "python3", 0, runs[:1], 8.0, choice=recommend(runs, 8)).exit_code == 0


def test_the_limit_of_a_configuration_is_named() -> None:
    assert bound_of(run(4, 1, Used(1.8, 0.1, 0.0, 0.9)), 2) == "cpu"
    assert bound_of(run(4, 1, Used(3.6, 0.1, 0.0, 0.9)), 16) == "cpu"
    assert bound_of(run(4, 1, Used(0.5, 0.1, 0.0, 0.9)), 2) == "cpu"
    assert bound_of(run(4, 1, Used(0.3, 0.1, 0.8, 0.1)), 2) == "storage"
    assert bound_of(run(4, 1, Used(0.3, 0.95, 0.1, 0.1)), 8) == "main"
    assert bound_of(run(4, 1, Used(0.1, 0.1, 0.1, 0.1)), 8) == "waiting"
    assert bound_of(run(4, 1, Used()), 8) == ""


def test_the_curve_begins_without_workers() -> None:
    runs = [run(4, 3, prefetch=4), run(0, 1), run(2, 2, prefetch=4), run(2, 9, prefetch=2)]
    assert [one.samples_per_s for one in curve(runs, runs[0].configuration)] == [1, 2, 3]


def test_the_curve_has_only_runs_with_the_same_interleave() -> None:
    runs = [
        run(workers, rate)._replace(configuration=Configuration(workers, 32, interleave=interleave))
        for workers, interleave, rate in ((0, 1, 10), (2, 1, 20), (0, 4, 30), (2, 4, 40))
    ]
    assert [one.samples_per_s for one in curve(runs, runs[1].configuration)] == [10, 20]


def test_a_patch_has_only_arguments_that_reached_the_loader() -> None:
    one = run(4, 1, prefetch=3, start="spawn")
    assert arguments_text(one) == "batch_size=32, num_workers=4"
    names = ("num_workers", "prefetch_factor", "multiprocessing_context", "persistent_workers")
    assert one.built is not None
    whole = one._replace(built=one.built._replace(applied=names))
    assert arguments_text(whole) == (
        'num_workers=4, prefetch_factor=3, persistent_workers=True, multiprocessing_context="spawn"'
    )


def test_each_configuration_is_in_the_grid_once() -> None:
    found = Grid([0, 2], [32], [2, 4], ["fork", "spawn"], False).configurations()
    assert [one.workers for one in found].count(0) == 1
    assert len(found) == 5


def test_memory_that_grows_with_each_batch_is_found() -> None:
    assert growth_per_batch([(n, 100 * MB + n * MB) for n in range(0, 60, 5)]) == MB
    filling = [(n, 100 * MB + min(n, 20) * MB) for n in range(0, 60, 5)]
    assert growth_per_batch(filling) is None
    assert growth_per_batch([(n, 100 * MB + n) for n in range(60)]) is None
    assert growth_per_batch([(0, 0), (1, 100 * MB)]) is None
    assert growth_per_batch([]) is None


def test_a_cache_that_is_warmer_for_one_run_is_reported() -> None:
    runs = (run(2, 10, Used(storage_bytes=100, asked_bytes=100)), run(4, 90, Used(storage_bytes=0, asked_bytes=100)))
    report = Report("m:f", "python3", 0, runs, 8.0, choice=recommend(runs, 8))
    text = "\n".join(findings_text(report))
    assert "100 % of the bytes came from a disk with 2 workers, batch 32, 0 % with 4 workers" in text
    assert text.endswith("use --cold PATH of the dataset to compare them fairly")


def test_missing_stages_of_a_tf_data_pipeline_are_named() -> None:
    def proposals(stages: tuple[str, ...], *, workers: int = 4) -> list[str]:
        built = Built("tensorflow", "", ("batch_size", "num_parallel_calls"), False, stages, 10 * MB)
        one = run(workers, 100, Used(0.3, 0.3, 0.8, 0.1))._replace(built=built)
        report = Report("m:f", "python3", 0, (one,), 8.0, room_bytes=100 * MB, choice=recommend([one], 8))
        advice = [text.rpartition(": ")[2].split("(")[0] for text in findings_text(report)]
        return [text.removeprefix("use ").removeprefix("put ") for text in advice]

    lacks = [".map", ".interleave", "end the pipeline with .prefetch", ".cache"]
    assert [one for one in proposals(("Batch", "Map", "FlatMap", "Range")) if one in lacks] == lacks
    assert [one for one in proposals(("Batch", "Map", "FlatMap", "Range"), workers=0) if one in lacks] == lacks[1:]
    assert not {*proposals(("Prefetch", "Batch", "Cache", "ParallelMap", "ParallelInterleave"))} & {*lacks}
    assert proposals(("Prefetch", "Batch", "Cache", "FlatMap"))[-1] == ".interleave"


def test_interleave_is_a_dimension_of_the_grid() -> None:
    found = Grid([0, 2], [32], [None], [""], False, [1, 4]).configurations()
    assert [(one.workers, one.interleave) for one in found] == [(0, 1), (2, 1), (0, 4), (2, 4)]
    fast = [run(2, rate)._replace(configuration=one) for one, rate in zip(found[1::2], (99, 100), strict=True)]
    choice = recommend(fast, 8)
    assert choice is not None
    assert choice.run.configuration.interleave == 1
