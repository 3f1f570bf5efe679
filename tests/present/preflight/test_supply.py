from __future__ import annotations

import pytest

from iotop_ai.model.job.records import IoLimit
from iotop_ai.model.preflight.dataset import DATASET, Dataset, Demand
from iotop_ai.model.preflight.place import Place
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import FILES, KIB, MIB, RANDOM, SEQUENTIAL, Measured, Threshold
from iotop_ai.present.preflight.supply import supply_text

READ = Measured(SEQUENTIAL, MIB, 8, 500, 500 * MIB, 1.0)
SMALL = tuple(Measured(RANDOM, 4 * KIB, depth, 1000 * depth, 4000 * KIB * depth, 1.0) for depth in (1, 4, 16))


def files(alone: int, together: int, *, cpu_bound: bool = False) -> tuple[Measured, ...]:
    """The results for small files, read by one reader and by four. alone, together: the files per second."""
    rows = ((1, alone), (4, together))
    return tuple(
        Measured(FILES, 128 * KIB, depth, ops, 128 * KIB * ops, 1.0, cpu_bound=cpu_bound) for depth, ops in rows
    )


def report(*results: Measured, **fields: object) -> Report:
    return Report(Place("/d"), 1, results=(READ, *SMALL, *results))._replace(**fields)


def test_the_samples_of_common_sizes_and_the_flags_for_a_demand_are_named() -> None:
    assert supply_text(report(*files(1000, 3000))) == [
        "this storage gives at most 500 MB/s; what limits files of 128 KB: its bandwidth",
        "samples/s that it feeds, before decoding: 4000 of 4 KB, 3000 of 128 KB or 500 of 1 MB",
        "to compare it with a training run: --samples-per-s RATE --sample-size 128k (or --dataset)",
    ]
    faster = Measured(RANDOM, 64 * KIB, 16, 9600, 600 * MIB, 1.0)
    assert supply_text(report(faster))[0] == "this storage gives at most 600 MB/s"
    assert supply_text(report())[1].endswith(": 4000 of 4 KB or 500 of 1 MB")
    assert supply_text(Report(Place("/d"), 1, results=(READ,)))[1].endswith(", before decoding: 500 of 1 MB")


@pytest.mark.parametrize(
    ("results", "place", "words"),
    [
        (files(200, 800), Place("/d"), "the wait for each read; more readers may read more"),
        (files(700, 800), Place("/d"), "its reads per second; more readers do not help"),
        (files(700, 800, cpu_bound=True), Place("/d"), "the CPU, not the storage"),
        (
            files(200, 800),
            Place("/d", limits=(IoLimit("259:0", "read_ios", 50, "io.max"),)),
            "this process's cgroup",
        ),
    ],
)
def test_the_limit_of_small_files_is_named(results: tuple[Measured, ...], place: Place, words: str) -> None:
    assert words in supply_text(report(*results, place=place))[0]


def test_the_datasets_own_files_are_counted() -> None:
    dataset, row = Dataset(10, 10 * MIB, True, most_bytes=MIB), Measured(DATASET, 128 * KIB, 1, 90, 90 * MIB, 1.0)
    lines = supply_text(report(row, dataset=dataset))
    assert lines[2] == "of the dataset's own files: 90/s"
    assert lines[-1].endswith("--samples-per-s RATE")
    assert supply_text(report(row._replace(ops=9000), dataset=dataset))[2] == "of the dataset's own files: ?/s"


def test_with_a_demand_or_without_figures_there_is_no_supply_text() -> None:
    assert supply_text(report(demand=Demand(100.0, 4, 1.0, 2.0))) == []
    assert supply_text(report(hung_s=7.0)) == []
    assert supply_text(report(failed="Input/output error")) == []
    assert supply_text(Report(Place("/d"), 1, results=SMALL)) == []
    lines = supply_text(report(thresholds=(Threshold("--min-read", 1.0, 2.0),)))
    assert not any("--samples-per-s" in line for line in lines)
