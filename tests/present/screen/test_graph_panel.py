"""Which graphs the main screen shows on its common time axis, and how many."""

from __future__ import annotations

import pytest

from iotop_ai.model.finding import Finding, Severity, Verdict
from iotop_ai.model.job.records import Job, Rank
from iotop_ai.model.job.task_states import JobSample
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Rated
from iotop_ai.pipeline import frames
from iotop_ai.present.screen.graph_panel import graph_count, graph_rows
from iotop_ai.present.screen.layout import plan
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import GAP
from iotop_ai.present.text.line import Line
from tests.present import gpu_scenes, scenes
from tests.present.job.test_path_and_table import played
from tests.present.make import Disk, Machine, disk, frame, snapshots

UTC = View(utc_offset_s=0)
EIGHT = list(frames(gpu_scenes.eight_snapshots(61)))[-1]
PCIE = Verdict((Finding("pcie", Severity.WARNING, 0.9, "GPU-0005", (("why", "narrow"),)),), 60.0, 10.0, 6, 6)

CALM = Verdict((Finding("unknown", Severity.INFO, 0.5),), 60.0, 10.0, 6, 6)


def titles(lines: list[Line]) -> list[str]:
    """The label, the figure and the unit of each graph."""
    return [text for line in lines[1:] if (text := " ".join(line.text[:20].split())) and text[0].isalpha()]


@pytest.mark.parametrize(
    ("rows", "graphs"), [(3, 3), (6, 3), (7, 3), (8, 4), (12, 4), (16, 4), (17, 5), (20, 5), (21, 6), (44, 11)]
)
def test_a_graph_has_at_most_four_rows_while_another_can_be_added(rows: int, graphs: int) -> None:
    assert graph_count(rows) == graphs


def test_a_slowed_gpu_has_graphs_of_the_figures_in_its_sentence() -> None:
    lines = graph_rows(EIGHT, UTC, 160, 14)
    assert titles(lines) == ["all GPUs 96 %", "GPU 2 88 C", "GPU 2 1410 MHz", "GPU 2 655 W"]
    assert [s.text for line in lines for s in line.spans if s.token == "warn"] == ["96", "88", "1410", "655"]
    assert titles(graph_rows(EIGHT, UTC, 80, 4)) == ["all GPUs 96 %", "GPU 2 88 C", "GPU 2 1410 MHz"]


@pytest.mark.parametrize(("height", "filled"), [(13, True), (14, False), (17, False)])
def test_neighbouring_graphs_of_similar_height_are_drawn_alike(height: int, filled: bool) -> None:
    lines = graph_rows(EIGHT, UTC, 160, height)
    bottoms = [
        above for above, title in zip(lines, [*lines[1:], None], strict=True) if title is None or title.text[1] in "Ga"
    ]
    assert [("⣿" in line.text) for line in bottoms[1:]] == [filled] * 4


def test_gpus_without_a_disk_have_three_graphs_on_a_low_screen() -> None:
    assert next(slot.height for slot in plan(80, 24, EIGHT, UTC) if slot.panel == "graphs") == 4


def test_a_narrow_link_has_graphs_of_its_rates() -> None:
    shown = EIGHT._replace(verdict=PCIE)
    assert [title.rsplit(" ", 2)[0] for title in titles(graph_rows(shown, UTC, 160, 9))][:3] == [
        "all GPUs",
        "GPU 5 in",
        "GPU 5 out",
    ]


def test_the_disk_that_the_user_selected_comes_before_the_gpu_of_the_verdict() -> None:
    machine = Machine((Disk(disk("sda")),), gpus=tuple(gpu_scenes.computing(n, 1) for n in range(8)))
    shown = frame(snapshots(lambda i: machine, 5), PCIE)
    assert titles(graph_rows(shown, UTC, 160, 9))[1].startswith("GPU 5")
    chosen = titles(graph_rows(shown, UTC._replace(device="sda"), 160, 9))
    assert [title.split()[0] for title in chosen[1:3]] == ["sda", "r_await"]


def test_gpus_at_their_power_limit_are_not_drawn_as_hot() -> None:
    lines = graph_rows(gpu_scenes.one_gpu_frame(61), UTC, 160, 17)
    assert titles(lines) == ["GPU busy 96 %", "GPU SM 83 %", "GPU power 655 W", "GPU temp 61 C"]
    assert not {span.token for line in lines for span in line.spans} & {"hot", "bad", "warn"}


def test_of_many_gpus_the_mean_and_the_warmest_one_are_shown() -> None:
    found = titles(graph_rows(EIGHT._replace(verdict=CALM), UTC, 160, 17))
    assert found[1:] == ["GPU SM 76 %", "GPU power 585 W", "max temp 88 C"]


def test_figures_that_no_gpu_reports_have_no_graph() -> None:
    found = titles(graph_rows(scenes.starved(61), UTC, 250, 40))
    assert [title.rsplit(" ", 2)[0] for title in found] == ["all GPUs", "sda read", "r_await", "GPU power", "max temp"]


def test_waiting_workers_have_a_graph_in_which_unknown_seconds_are_a_gap() -> None:
    shown = played("storage_read")[-1]
    count = len(shown.history) // 4
    # The first half of the samples has no figures of the job.
    without_job = [sample._replace(jobs=Rated(JobSample({}, {}), 1, 1.0)) for sample in shown.history[: 2 * count]]
    lines = graph_rows(shown._replace(history=(*without_job, *shown.history[2 * count :])), UTC, 160, 9)
    assert [title.split()[0] for title in titles(lines)] == ["CPU", "loop0", "r_await", "blocked"]
    assert {span.token for span in lines[-2].spans} >= {"hot", "bad"}
    known = (len(shown.history) - 2 * count) // 2
    cells = lines[-1].text[24:144]
    assert set(cells[: -known - 1]) == {GAP}
    assert GAP not in cells[-known:]


def test_a_job_without_workers_has_no_graph_of_them() -> None:
    shown = played("storage_read")[-1]
    table = shown.snapshot.jobs.value
    assert table is not None
    key = next(iter(table.jobs))
    alone = Job(key, "train.py", "alice", 1000, (Rank(ProcessKey(key.pid, key.start_ticks)),))
    jobs = shown.snapshot.jobs._replace(value=table._replace(jobs={key: alone}))
    without_workers = shown._replace(snapshot=shown.snapshot._replace(jobs=jobs))
    assert not any(title.startswith("blocked") for title in titles(graph_rows(without_workers, UTC, 160, 9)))
