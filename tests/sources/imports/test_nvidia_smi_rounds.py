"""The rows of an nvidia-smi log are grouped by query, even if rows are missing.

In a log without a column that names the GPUs, they are numbered by their order, or the log is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from iotop_ai.model.errors import InputError
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.sources.imports.common import ImportOptions
from iotop_ai.sources.imports.nvidia_smi import nvidia_smi_snapshots
from iotop_ai.sources.imports.nvidia_smi_rounds import Row, rounds

HEAD = "timestamp, name, utilization.gpu [%]\n"
GPU = GpuState("", 0, "NVIDIA H100")
START = datetime(2026, 11, 21, 10, tzinfo=UTC)
Figure = tuple[float, int]


def played(folder: Path, *parts: list[Figure]) -> list[Snapshot]:
    """The Snapshots of a log with these rows of (seconds, use), in which each part has a header."""
    path = folder / "log.csv"
    with path.open("w") as file:
        for part in parts:
            file.write(HEAD)
            for seconds, use in part:
                when = (START + timedelta(seconds=seconds)).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
                file.write(f"{when}, NVIDIA H100, {use} %\n")
    return list(nvidia_smi_snapshots(str(path), ImportOptions(zone=UTC)))


def queries(gpus: int, times: list[float], row_gap_s: float = 0.003) -> list[Figure]:
    return [(second + gpu * row_gap_s, 10 * gpu) for second in times for gpu in range(gpus)]


def uses(snapshot: Snapshot) -> dict[str, int | None]:
    return {key: one.value and one.value.utilization_percent for key, one in (snapshot.gpu.value or {}).items()}


@pytest.mark.parametrize("gpus", [2, 4, 8])
@pytest.mark.parametrize(("every_s", "row_gap_s"), [(1.0, 0.003), (0.1, 0.001), (10.0, 0.3), (1.0, 0.0)])
def test_gpus_are_numbered_by_their_order_in_each_query(
    tmp_path: Path, gpus: int, every_s: float, row_gap_s: float
) -> None:
    found = played(tmp_path, queries(gpus, [i * every_s for i in range(20)], row_gap_s))
    assert [uses(one) for one in found] == [{f"GPU {gpu}": 10 * gpu for gpu in range(gpus)}] * 20
    assert found[0].interval_s == pytest.approx(every_s)
    assert [one.value.number for one in (found[0].gpu.value or {}).values() if one.value] == list(range(gpus))


def test_one_gpu_stays_one_gpu_even_after_a_pause(tmp_path: Path) -> None:
    found = played(tmp_path, queries(1, [*range(10), *range(70, 80)]))
    assert len(found) == 20
    assert uses(found[0]) == {"GPU": 0}


def test_a_log_that_was_cut_off_and_continued_begins_a_new_query(tmp_path: Path) -> None:
    first = queries(4, [0, 1, 2, 3])[:-2]
    found = played(tmp_path, first, queries(4, [20, 21, 22]), queries(4, [1, 2, 3]))
    assert [len(uses(one)) for one in found] == [4, 4, 4, 2, 4, 4, 4, 4, 4, 4]
    assert found[-1].host.boot_id == "imported-2"


@pytest.mark.parametrize(
    "rows",
    [
        queries(4, [0]),
        queries(4, [0, 1]) + queries(3, [2]) + queries(4, [3, 4]),
        queries(1, [i * 0.02 for i in range(50)]),
        [*queries(2, [0, 1, 2]), (3.0, 0), (3.7, 10), *queries(2, [5, 6])],
    ],
    ids=["one query", "a missing row", "as fast as the rows of a query", "a slow query"],
)
def test_an_unclear_log_is_refused(tmp_path: Path, rows: list[Figure]) -> None:
    with pytest.raises(InputError, match="log with index or uuid"):
        played(tmp_path, rows)


def test_a_query_with_too_many_rows_is_refused_before_the_rest_of_the_log_is_read() -> None:
    def rows() -> Iterator[Row]:
        for second in range(5000):
            yield from [Row("", second * 10**9, GPU, "")] * 2
        yield from [Row("", 10**13, GPU, "")] * 3
        pytest.fail("the rest of the log is read")

    with pytest.raises(InputError, match=r"log with index or uuid \(round 5001\)"):
        list(rounds("log", rows()))


def named(times: list[tuple[str, float | None]]) -> list[str]:
    """The rounds of a log with these (GPU, seconds), each as the text of its rows."""
    rows = [Row(name, None if at is None else round(at * 1e9), GPU, "") for name, at in times]
    return [" ".join(f"{row.identity}@{(row.logged_ns or 0) / 1e9:g}" for row in one) for one in rounds("", iter(rows))]


@pytest.mark.parametrize("timed", [True, False])
def test_a_missing_row_does_not_shift_the_rounds_after_it(timed: bool) -> None:
    times = [(gpu, second if timed else None) for second in range(6) for gpu in "abc" if (gpu, second) != ("a", 2)]
    found = named(times)
    assert [len(one.split()) for one in found] == [3, 3, 2, 3, 3, 3]
    assert found[2:4] == (["b@2 c@2", "a@3 b@3 c@3"] if timed else ["b@0 c@0", "a@0 b@0 c@0"])


def test_a_missing_row_in_the_first_query_does_not_shift_the_rounds() -> None:
    found = named([(gpu, second) for second in range(4) for gpu in "ab"][1:])
    assert found == ["b@0", "a@1 b@1", "a@2 b@2", "a@3 b@3"]


@pytest.mark.parametrize("row_gap_s", [0.01, 0.3])
def test_a_slow_query_is_one_round(row_gap_s: float) -> None:
    starts = [0, 1, 2, 3.7, 4.7] if row_gap_s < 0.1 else [0, 1.6, 3.2, 4.8, 6.4]
    times: list[tuple[str, float | None]] = [(gpu, s + i * row_gap_s) for s in starts for i, gpu in enumerate("abcd")]
    assert [one.count("@") for one in named(times)] == [4] * 5
    stalled = [*times[:14], *((gpu, (at or 0) + 0.9) for gpu, at in times[14:])]
    assert [one.count("@") for one in named(stalled)] == [4] * 5


def test_a_gpu_that_is_missing_at_first_joins_its_round() -> None:
    times = [(gpu, second) for second in range(5) for gpu in "abc" if gpu != "b" or second > 1]
    assert [one.count("@") for one in named(times)] == [2, 2, 3, 3, 3]
    late = [(gpu, second) for second in range(3000) for gpu in "abc" if gpu != "b" or second > 2500]
    assert [one.count("@") for one in named(late)] == [2] * 2501 + [3] * 499


def test_without_times_gpus_cannot_be_distinguished(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("utilization.gpu [%]\n5\n6\n")
    with pytest.raises(InputError, match="log with index or uuid"):
        nvidia_smi_snapshots(str(path), ImportOptions(start_ns=0, interval_s=1))
