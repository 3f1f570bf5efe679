"""The reasoning page: at any size, scrolling reaches every row."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.verdict.acknowledge import identity, value_of
from iotop_ai.model.finding import Advice
from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.key_row import words_above
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import cells
from iotop_ai.present.text.theme import TOKENS
from iotop_ai.present.verdict.headline import second, text_of
from iotop_ai.present.verdict.screen import KEYS, body_rows, most_reasoning_scroll, reasoning_rows
from tests.diagnosis.build import IDLE, JOB_HEALTHY, JOB_PREPARING, JOB_STARVED, Machine, last, play
from tests.diagnosis.facts.test_leading_job import FED, PREPARES, two
from tests.diagnosis.job_scenes import DATA_SCENES, STATE_SCENES, TIME_SCENES
from tests.diagnosis.verdict.test_acknowledge import ill

UTC = View(utc_offset_s=0)
SIZES = [(80, 24), (160, 48), (60, 15), (100, 30), (250, 70), (40, 10), (1, 24)]
SCENES = {
    **DATA_SCENES,
    **STATE_SCENES,
    **TIME_SCENES,
    "idle": IDLE,
    "starved": JOB_STARVED,
    "no readings": Machine(without_readings=True),
}


def text(frame: Frame, width: int = 80, height: int = 24, scroll: int = 0, view: View = UTC) -> str:
    return "\n".join(line.text.rstrip() for line in reasoning_rows(frame, view, width, height, scroll))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCENES)
def test_any_size_is_filled_exactly(name: str, size: tuple[int, int]) -> None:
    frame = last(SCENES[name])
    for scroll in (0, 3, most_reasoning_scroll(frame, UTC, *size), 999):
        lines = reasoning_rows(frame, UTC, *size, scroll)
        assert len(lines) == size[1]
        for line in lines:
            assert cells(line.text) == size[0]
            assert {span.token for span in line.spans} <= set(TOKENS)


def test_a_starved_job_has_these_rows() -> None:
    page = text(last(JOB_STARVED), 80, 60)
    for words in (
        " STARVED  8 of 8 GPUs wait for data 78 % of the time",
        "── why storage_read, since 00:00:1",
        " ● time without data                                        78 %         >= 8 %",
        " ● GPUs busy                                                22 %         < 70 %",
        " ● sda: time of a read                                     87 ms typical 1.3 ms",
        "── evidence against ─",
        " ○ sda: mean read                                         128 KB        < 48 KB",
        "── not seen ─",
        " ? no disk has SMART",
        "── ruled out ─",
        " × cpu_prep           workers compute in 3 % of the wait",
        "no sign of ",
        "── do ─",
        " 1 give the GPUs the",
        "── last hour ─",
        " STARVED   storage_read ",
        "of GPU time lost by this job since a loss was first reported",
    ):
        assert words in page, words


def test_advice_about_a_wide_path_is_shown_as_a_whole() -> None:
    frame = last(JOB_STARVED)
    folder = f"/mnt/{''.join(chr(0x4E00 + i) for i in range(60))}/END"
    finding = frame.verdict.primary._replace(advice=(Advice("keep_in_memory", (("source", folder), ("room", 1e12))),))
    page = text(frame._replace(verdict=frame.verdict._replace(findings=(finding,))), 80, 60)
    assert f"read{folder}(atmost" in "".join(page.split())


def test_at_160_columns_each_metric_has_its_id() -> None:
    assert "disks.sda.read_await_ms" in text(last(JOB_STARVED), 160, 48)


def test_a_second_finding_has_its_evidence() -> None:
    page = text(last(replace(JOB_STARVED, smart=ill().smart)), 80, 60)
    assert "── and failing_disk ─" in page
    assert "confidence high (0.95)" in page
    assert "sda: reallocated" in page


def test_a_class_with_some_evidence_is_listed_as_considered() -> None:
    page = text(play((JOB_STARVED, 25), (JOB_PREPARING, 9))[-1], 80, 60)
    assert "── considered ─" in page
    assert "cpu_prep" in page


def test_considered_rows_name_their_job_where_there_are_several() -> None:
    why = "holds too, with less weight than the verdict"
    assert re.search(rf" ○ healthy +train.py 500: {why} +0.60", text(two(JOB_STARVED, FED), 100, 60))
    assert re.search(r" ○ healthy +train.py 500: holds too +0.60", text(two(JOB_STARVED, FED), 80, 60))
    assert re.search(rf" ○ healthy +{why} +0.75", text(last(SCENES["gpu_bound"]), 80, 60))


def test_an_acknowledged_finding_is_shown_as_acknowledged() -> None:
    frame = last(ill())
    acked = {identity(frame.verdict.primary, frame.snapshot): value_of(frame.verdict.primary)}
    carry, verdict = fold(frame.carry._replace(acked=acked, decided_ns=None), frame.snapshot, frame.history)
    page = text(frame._replace(carry=carry, verdict=verdict), 100, 60)
    assert re.search(r"○ failing_disk +is acknowledged; it comes back when it gets worse", page)


def test_a_fault_that_no_rule_claims_is_not_listed_under_no_sign() -> None:
    links = {"nvlinks": 3, "nvlinks_active": 3}
    whole = text(last(replace(JOB_STARVED, gpu_detail=links)), 80, 60)
    assert "not in the verdict" not in whole
    assert re.search(r"no sign of [^─]*gpu_fault", whole)
    page = text(last(replace(JOB_STARVED, gpu_detail={**links, "nvlinks_active": 2})), 80, 60)
    assert " ○ gpu_fault          seen on GPU 0-7, not in the verdict: 1 of 3 NVLinks down" in page
    assert not re.search(r"no sign of [^─]*gpu_fault", page)


def test_while_measuring_the_page_reports_that_no_rule_can_judge_yet() -> None:
    assert "no rule has a full window yet" in text(last(IDLE, 4))


def test_scrolling_shows_every_row_and_the_scroll_position() -> None:
    frame = last(JOB_STARVED)
    body = [line.text.rstrip() for line in body_rows(frame, UTC, 80, spread=False)]
    most = most_reasoning_scroll(frame, UTC, 80, 24)
    assert most > 0
    seen = set()
    for scroll in range(most + 1):
        page = text(frame, scroll=scroll).splitlines()
        seen |= set(page)
        assert ("more row" in page[-2]) == (scroll < most)
    assert "the end" in text(frame, scroll=most)
    assert set(body) <= seen


def test_nothing_scrolls_if_everything_fits() -> None:
    assert most_reasoning_scroll(last(JOB_HEALTHY), UTC, 160, 70) == 0
    assert "the end" not in text(last(JOB_HEALTHY), 160, 70)


@pytest.mark.parametrize("view", [UTC._replace(mode="replay"), UTC._replace(remote=True), UTC._replace(readonly=True)])
def test_the_key_that_acknowledges_is_not_shown_where_it_is_refused(view: View) -> None:
    page = text(last(ill()), 160, 48, view=view)
    assert "acknowledge" not in page.splitlines()[-1]


def test_the_keys_are_at_the_bottom_and_the_ascii_form_has_only_ascii() -> None:
    failing = last(replace(JOB_STARVED, smart=ill().smart))
    for frame, names in ((last(JOB_STARVED), [name for name in KEYS if name != "reason.acknowledge"]), (failing, KEYS)):
        page = text(frame, view=UTC._replace(ascii_only=True))
        assert page.isascii()
        keys = page.splitlines()[-1]
        assert all(f"{key}:{word}" in keys for key, word in words_above(tuple(names), UTC))
        assert ("acknowledge" in keys) is ("reason.acknowledge" in names)


def test_the_banner_distinguishes_two_jobs_of_one_name_by_their_pids() -> None:
    verdict = two(JOB_STARVED, replace(PREPARES, stall=0.95)).verdict
    assert text_of(second(verdict)) == "train.py 500 waits for data 95 % of the time"
