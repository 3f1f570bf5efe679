"""A narrow window leaves out columns and clauses, but never cuts a digit or the unit of a figure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from iotop_ai.present.block import devices
from iotop_ai.present.block.screen import TABS, DevicePage, device_screen_rows
from iotop_ai.present.block.table import block_rows
from iotop_ai.present.gpu.groups import gpus
from iotop_ai.present.gpu.panel import gpu_rows
from iotop_ai.present.gpu.screen import gpu_screen_rows
from iotop_ai.present.health.screen import health_screen_rows
from iotop_ai.present.health.view import HealthView
from iotop_ai.present.job.data_path import path_rows
from iotop_ai.present.job.screen import jobs_screen_rows
from iotop_ai.present.job.time_bar import time_rows
from iotop_ai.present.process.screen import ProcessPage, process_order, process_screen_rows
from iotop_ai.present.process.table import process_rows
from iotop_ai.present.screen.layout import screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line
from iotop_ai.present.verdict.screen import reasoning_rows
from tests.present import gpu_scenes, scenes
from tests.present.process.test_screen import detail
from tests.scenarios.keep import VERDICTS, snapshots

ROOT = Path(__file__).parents[3]
RECORDED = (ROOT / "screenshots" / "starved.iotop.jsonl.gz", VERDICTS / "mem_pressure.iotop.jsonl.gz")
SCENES: dict[str, Callable[[], Frame]] = {
    **{name: getattr(scenes, name) for name in ("starved", "healthy", "unsure", "no_gpu", "first")},
    "eight": gpu_scenes.eight,
    **{path.name: lambda path=path: [*frames(snapshots(path))][-1] for path in RECORDED},  # type: ignore[misc]
}
WIDTHS = (60, 66, 72, 79, 80, 90, 100, 120, 140, 160)
WIDE = 250
UTC = View(utc_offset_s=0)
ALIGNED = (block_rows, gpu_rows, process_rows)
"""Panels whose rows have the same figures at each width, as long as there is room."""


@cache
def made(name: str) -> Frame:
    return SCENES[name]()


def numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d+(?:\.\d+)?", text))


@pytest.mark.parametrize("name", SCENES)
def test_a_row_of_a_narrow_table_has_only_numbers_of_the_wide_one(name: str) -> None:
    frame = made(name)
    for rows in ALIGNED:
        wide = {line.key: line.text for line in rows(frame, UTC, WIDE, 20) if line.key}
        for width in WIDTHS:
            for line in rows(frame, UTC, width, 20):
                if line.key in wide:
                    more = numbers(line.text) - numbers(wide[line.key])
                    assert not more, f"{width}: {line.text}\n{wide[line.key]}"


@pytest.mark.parametrize("name", SCENES)
def test_the_last_share_of_a_row_keeps_its_unit(name: str) -> None:
    frame = made(name)
    for width in WIDTHS:
        for line in (*time_rows(frame, UTC, width, 1), path_rows(frame, UTC, width, 3)[2]):
            words = re.sub(r"[^\w%<? -]", "", line.text).split()
            if words[0] in ("time", "workers", "trainer") or "disk" in words:
                assert words[-1] == "%" or not words[-1][-1].isdigit(), f"{width}: {line.text}"


def pages(frame: Frame, width: int) -> Iterator[list[Line]]:
    yield screen_rows(width, 24, frame, UTC)
    for device in devices.panel_devices(frame, UTC)[:1]:
        for tab in TABS:
            yield device_screen_rows(frame, UTC, width, 30, device.name, DevicePage(tab))
    for gpu in gpus(frame, UTC)[:1]:
        yield gpu_screen_rows(frame, UTC, width, 30, gpu.uuid)
    for key in process_order(frame, UTC)[:1]:
        for height in (24, 48):
            yield process_screen_rows(frame, UTC, ProcessPage(key, detail(key)), width, height)
            yield process_screen_rows(frame, UTC, ProcessPage(key, detail(key), scroll=12), width, height)
    yield reasoning_rows(frame, UTC, width, 40)
    yield jobs_screen_rows(frame, UTC, width, 30, 0)
    yield health_screen_rows(frame, UTC, HealthView(), width, 30)


@pytest.mark.parametrize("name", SCENES)
def test_no_page_cuts_a_number(name: str) -> None:
    for width in WIDTHS:
        for page in pages(made(name), width):
            for line in page:
                assert not re.search(r"(?<![\w/.:-])[<~≤]?\d[\d.,:/]*…", line.text), f"{width}: {line.text}"
                assert not re.search(r"\d\+(?= |$)", line.text), f"{width}: {line.text}"
