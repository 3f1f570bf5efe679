"""The culprit after ``because`` has the colour of the verdict in the path, its row, its chart and its screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.present.block.screen import device_screen_rows
from iotop_ai.present.gpu.screen import gpu_screen_rows
from iotop_ai.present.screen.layout import screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line
from iotop_ai.present.verdict.culprit import culprit_of
from tests.diagnosis.build import GIB, IDLE, JOB_ALONE, JOB_HEALTHY, JOB_PREPARING, MB, Disk, Machine, Task, last
from tests.diagnosis.gpu_scenes import FED, GPU_SCENES
from tests.diagnosis.host_scenes import SHARED
from tests.diagnosis.job_scenes import DATA_SCENES, STATE_SCENES

SIZES = [(80, 24), (160, 48)]


def coloured(lines: list[Line], hue: str) -> set[str]:
    """Each text below the banner that has this colour, without surrounding spaces."""
    return {span.text.strip() for line in lines[4:] for span in line.spans if span.token == hue and span.text.strip()}


@pytest.mark.parametrize("size", SIZES)
def test_the_slow_disk_of_a_job_is_red_in_path_row_and_chart(size: tuple[int, int]) -> None:
    frame = last(JOB_ALONE)
    lines = screen_rows(*size, frame, View())
    path = next(line for line in lines if "8 workers ›" in line.text)
    assert [span.text for span in path.spans if span.token == "bad"] == ["sda"]
    row = next(line for line in lines if line.key == "disk:sda")
    assert [span.text.strip() for span in row.spans if span.token == "bad"] == [">sda", "87.0"]
    chart = next(line for line in lines if line.text.startswith(" r_await"))
    assert "bad" in {span.token for span in chart.spans}
    assert "hot" in {span.token for span in chart.spans}
    page = device_screen_rows(frame, View(), *size, "sda")
    assert page[1].spans[0] == page[1].spans[0]._replace(text=" SLOW    ", token="bad")


@pytest.mark.parametrize("size", SIZES)
def test_workers_that_compute_are_red_with_their_row(size: tuple[int, int]) -> None:
    lines = screen_rows(*size, last(JOB_PREPARING), View())
    words = coloured(lines, "bad")
    assert {"8 workers", "RUN", "pt_data_worker x8"} <= words
    assert not any("sda" in word for word in words)


@pytest.mark.parametrize("size", SIZES)
def test_another_program_is_red_beside_the_disk(size: tuple[int, int]) -> None:
    words = coloured(screen_rows(*size, last(SHARED), View()), "bad")
    assert {"sda", "fio x3"} <= words


def test_the_larger_direction_of_a_neighbour_is_marked() -> None:
    shared = last(SHARED)
    assert culprit_of(shared, View()).process_cell == "read"
    table = shared.sample.processes.value
    assert table is not None
    swapped = {
        k: r._replace(read_bytes_per_s=0.0, write_bytes_per_s=r.read_bytes_per_s) for k, r in table.rates.items()
    }
    rated = shared.sample.processes._replace(value=table._replace(rates=swapped))
    writing = shared._replace(sample=shared.sample._replace(processes=rated))
    assert culprit_of(writing, View()).process_cell == "write"


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("gpu_throttle", "throttle"),
        ("pcie narrow", "link"),
        ("gpu_memory shared", "mem"),
        ("imbalance", "busy"),
        ("gpu_fault board", ""),
    ],
)
def test_a_gpu_has_the_colour_of_its_verdict(name: str, cell: str) -> None:
    frame = last(GPU_SCENES[name], 70 if name == "imbalance" else 35)
    culprit = culprit_of(frame, View())
    hue = "bad" if name.startswith("gpu_fault") else "warn"
    assert (culprit.hue, culprit.gpu_cell) == (hue, cell)
    (uuid,) = culprit.gpus
    number = uuid.removeprefix("GPU-")
    row = next(line for line in screen_rows(160, 48, frame, View()) if line.key == f"gpu:{uuid}")
    marked = [span.text.strip() for span in row.spans if span.token == hue]
    assert marked[0] == f">{number}"
    assert len(marked) == 2, "not exactly one text beside the number is marked"
    assert gpu_screen_rows(frame, View(), 80, 24, uuid)[0].text.startswith(f" {frame.verdict.state} ")


def test_a_full_filesystem_and_a_slow_mount_are_red() -> None:
    assert "/data" in coloured(screen_rows(80, 24, last(STATE_SCENES["fs_full"]), View()), "bad")
    assert "/nfs" in coloured(screen_rows(80, 24, last(DATA_SCENES["network_fs"]), View()), "bad")


def test_a_busy_machine_names_its_limit_in_the_colour_of_the_state_busy() -> None:
    gcc = tuple(Task(70 + n, "gcc", cpu=0.95) for n in range(8))
    words = coloured(screen_rows(80, 24, last(Machine(cpu=0.97, tasks=gcc)), View()), "warn")
    assert "gcc x8" in words
    full = Machine(cpu=0.3, total_bytes=100 * GIB, available_bytes=4 * GIB, tasks=(Task(80, "chrome", cpu=0.1),))
    assert culprit_of(last(full), View()).memory
    slow = Disk("vda", "virtio", write_bytes_per_s=40 * MB, await_ms=1002.0, busy=1.0)
    assert culprit_of(last(Machine(cpu=0.3, disks=(slow,))), View()).disk == "vda"


def test_a_disk_of_a_second_finding_has_the_colour_of_that_finding() -> None:
    overloaded = Disk("vda", "virtio", write_bytes_per_s=40 * MB, await_ms=1002.0, busy=1.0)
    frame = last(replace(JOB_PREPARING, disks=(*JOB_PREPARING.disks, overloaded)))
    row = next(line for line in screen_rows(80, 24, frame, View()) if line.key == "disk:vda")
    assert "warn" in {span.token for span in row.spans}


@pytest.mark.parametrize("machine", [IDLE, JOB_HEALTHY, FED])
def test_a_healthy_machine_has_nothing_in_red(machine: Machine) -> None:
    lines = screen_rows(80, 24, last(machine, 40), View())
    assert coloured(lines, "bad") == coloured(lines, "warn") == coloured(lines, "hot") == set()
