"""The dialog of a storage check: its proposal, its question, its progress and its result."""

from __future__ import annotations

import pytest

from iotop_ai.model.preflight.place import Place
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import FILES, KIB, MIB, RANDOM, READAHEAD, SEQUENTIAL, STAT, Latency, Measured
from iotop_ai.present.preflight.storage_dialog import CheckView, check_body, proposed_path, result_rows
from iotop_ai.present.screen.dialog import Row, inner_width
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import cells
from iotop_ai.present.text.typed_text import TypedText
from tests.present import scenes

EXT4 = Place("/data", "ext4", "/dev/sda1", "/data", device="sda1", disks=("sda",), kind="HDD")
TIMES = Latency(1.0, 0.0055, 2.0, 12.4, 30.0)
WITHOUT_P99 = Latency(36.0, 35.0, 60.0, None, 80.0)
RESULTS = (
    Measured(STAT, 0, 1, 100, 0, 1.0, TIMES),
    Measured(READAHEAD, MIB, 1, 531, 531 * MIB, 10.0, TIMES),
    Measured(SEQUENTIAL, MIB, 1, 100, 100 * MIB, 1.0, TIMES),
    Measured(SEQUENTIAL, MIB, 8, 100, 1200 * MIB, 1.0, TIMES),
    Measured(RANDOM, 4 * KIB, 1, 28, 28 * 4 * KIB, 1.0, WITHOUT_P99),
    Measured(RANDOM, 4 * KIB, 64, 270, 270 * 4 * KIB, 1.0, Latency(240.0, 244.0, 250.0, 261.0, 270.0)),
    Measured(FILES, 128 * KIB, 1, 28, 28 * 128 * KIB, 1.0, WITHOUT_P99),
    Measured(FILES, 128 * KIB, 4, 98, 98 * 128 * KIB, 1.0, WITHOUT_P99),
)


def texts(rows: list[Row]) -> list[str]:
    return ["".join(span.text for span in row).strip() for row in rows]


def test_the_data_of_the_job_is_proposed_or_else_the_selected_disk() -> None:
    starved = scenes.starved(61)
    assert proposed_path(starved, View()) == "/data"
    assert proposed_path(starved, View(), "md0") == "/raid"
    assert proposed_path(starved, View(device="nvme4n1")) == "/"
    assert proposed_path(starved, View(), "sdz") == "/dev/sdz"


def test_the_question_names_the_cost_of_the_check() -> None:
    head, tail = check_body(CheckView(TypedText("/data")), 64)
    assert "everything else that uses the disk is slower" in " ".join(texts(head))
    assert "at most 512 MB, which is removed" in " ".join(texts(head))
    assert texts(tail)[0].startswith("path /data")
    head, _ = check_body(CheckView(TypedText("/data"), write=False), 64)
    assert "nothing: this screen is read-only" in " ".join(texts(head))


def test_the_rate_and_the_latency_of_a_row_come_from_one_measurement() -> None:
    rows = [" ".join(text.split()) for text in texts(result_rows(RESULTS))]
    assert rows == [
        "open + stat + close 100/s p50 <0.01 p99 12 ms",
        "read with read-ahead 1 MB 53.1 MB/s p50 <0.01 p99 12 ms",
        "sequential read 1 MB 100 MB/s p50 <0.01 p99 12 ms",
        "8 in flight 1.2 GB/s p50 <0.01 p99 12 ms",
        "random read 4 KB 28/s p50 35 p99 ? ms",
        "64 in flight 270/s p50 244 p99 261 ms",
        "small files 128 KB 28/s p50 35 p99 ? ms",
        "4 readers 98/s p50 35 p99 ? ms",
    ]
    widest = max(cells("".join(span.text for span in row)) for row in result_rows(RESULTS))
    assert widest < inner_width(80)


def test_a_depth_that_is_not_faster_has_no_row() -> None:
    slower = RESULTS[4]._replace(depth=4, ops=20)
    assert len(result_rows((RESULTS[4], slower))) == 1


@pytest.mark.parametrize("width", [56, 64])
def test_the_running_phase_is_shown_and_then_the_findings(width: int) -> None:
    running = CheckView(TypedText("/data"), step="random read 4 KB x16", done=4, phases=16, report=Report(EXT4, 0))
    head, tail = check_body(running, width)
    assert texts(head)[:2] == ["where    /data: ext4 on sda1 on sda (HDD)", "now      5 of 16: random read 4 KB x16"]
    assert texts(tail) == ["Esc:stop"]
    assert texts(check_body(running._replace(stopping=True), width)[1])[0].startswith("Esc stopping")
    ended = running._replace(ended=True, report=Report(EXT4, 0, results=RESULTS, hung_s=12.0))
    head, tail = check_body(ended, width)
    assert "hangs: no answer from disk sda1 for 12 s" in " ".join(" ".join(texts(head)).split())
    assert texts(tail) == ["Enter or Esc:close"]
