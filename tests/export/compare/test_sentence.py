"""The sentence of a comparison of runs in which the shares of the jobs' time are not counted."""

from __future__ import annotations

from pathlib import Path

from iotop_ai.export.compare.comparison import MARKS, compare_runs
from iotop_ai.export.compare.sentence import sentence
from tests.export.report.stories import read

FOLDER = Path(__file__).resolve().parents[2] / "data" / "verdicts"


def test_the_wait_for_data_is_given_where_no_other_share_is_counted() -> None:
    found = compare_runs(*(read(FOLDER / f"{name}.iotop.jsonl.gz") for name in ("storage_read", "healthy")))
    assert sentence(found) == (
        "Waiting for data 75 % -> 0 % of the time; cannot tell which is faster, because neither steps nor computing "
        "time is recorded in both runs; verdict STARVED (slow disk) -> OK (data is ready)"
    )
    of_a_part = sentence(found._replace(aligned_by=MARKS))
    assert of_a_part.startswith("Cannot tell which is faster: "), "the wait is known for the whole of a run only"
