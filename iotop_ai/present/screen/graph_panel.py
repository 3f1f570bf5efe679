"""The graphs of the main screen on one time axis, in the order of their importance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.sample import Sample
from iotop_ai.model.verdict_class import State
from iotop_ai.present.block import devices
from iotop_ai.present.block.panel_graphs import selected_graphs
from iotop_ai.present.job.current import BLOCKED, current_job
from iotop_ai.present.screen.graphs import LEAST_GRAPH_CELLS, Graph, axis, graph_lines, room
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import SlidingSeries
from iotop_ai.present.text.curve import TALL_ROWS
from iotop_ai.present.text.frame_cache import cache_part
from iotop_ai.present.text.line import Line
from iotop_ai.present.text.panel import panel
from iotop_ai.present.text.units import percent
from iotop_ai.present.verdict.culprit import culprit_of

_LEAST_GRAPHS, _TWO_ROW_GRAPHS, _MOST_ROWS = 3, 4, 4
"""_LEAST_GRAPHS: a panel has at least this many graphs, if they exist. _TWO_ROW_GRAPHS: up to this number, graphs are
added if each still has two rows. _MOST_ROWS: more graphs than _TWO_ROW_GRAPHS are shown only if a graph would otherwise
have more rows than this.
"""


class _PanelSeries:
    """The series of the graphs of the whole machine and of the job, kept from Frame to Frame."""

    def __init__(self) -> None:
        self.busy = SlidingSeries()
        self.blocked = SlidingSeries()


@panel
def graph_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The time axis in the section's rule, then the graphs, which share the other rows; [] on a narrow screen."""
    where = room(width)
    if where.cells < LEAST_GRAPH_CELLS:
        return []
    out = [axis(frame, view, width, where)]
    wanted = graph_count(height - 1)
    apart = height - 1 >= 2 * wanted
    groups = list(islice(_graphs(frame, view, 2 * where.cells, apart=apart), wanted))
    drawn: list[tuple[Graph, int]] = []
    for group, rows in zip(groups, graph_heights(height - 1, len(groups)), strict=True):
        # When two graphs share an odd number of rows, the first one gets the extra row.
        drawn += [(graph, (rows + len(group) - number) // len(group)) for number, graph in enumerate(group, 1)]
    # Graphs of TALL_ROWS rows are drawn as lines. If there is one, graphs with one row less are drawn as lines too.
    line_from = TALL_ROWS - (max(rows for _, rows in drawn) >= TALL_ROWS)
    for graph, rows in drawn:
        out += graph_lines(graph, view, width, where, rows, as_line=rows >= line_from)
    return out


def low_panel_graph_count(frame: Frame, view: View) -> int:
    """The number of graphs in a low panel. It depends on the machine, not on its load, so that panels do not move."""
    return _LEAST_GRAPHS if frame.snapshot.gpu.value or devices.selected_device(frame, view) is not None else 1


def graph_count(rows: int) -> int:
    """The number of graphs that share this many rows, if that many exist."""
    return max(_LEAST_GRAPHS, min(_TWO_ROW_GRAPHS, rows // 2), -(-rows // _MOST_ROWS))


def graph_heights(rows: int, number: int) -> list[int]:
    """The number of rows of each graph, at least one; the first graphs get the remaining rows."""
    least, more = divmod(rows, number)
    return [max(1, least + (i < more)) for i in range(number)]


def _graphs(frame: Frame, view: View, slots: int, *, apart: bool) -> Iterator[list[Graph]]:
    """The graphs in the order of their importance: GPU or CPU busy, the GPUs that the verdict names, the selected disk,
    the job's workers, then all GPUs.

    The graphs of one list share the place of a single graph. slots: the number of values in each graph. apart: whether
    reads and writes of a disk get a graph each, as in ``selected_graphs``.
    """
    samples = (*view.past, *frame.history)
    series = cache_part(view, _PanelSeries)
    yield [_busy_graph(frame, view, samples, slots, series.busy)]
    if frame.snapshot.gpu.value:
        from iotop_ai.present.gpu import panel_graphs  # imported on first use: many machines have no GPU

        yield from panel_graphs.named_graphs(frame, view, samples, slots)
    yield from selected_graphs(frame, view, samples, slots, apart=apart)
    job = current_job(frame)
    if job is not None and job.workers:
        yield [_blocked_graph(frame, samples, slots, series.blocked, job)]
    if frame.snapshot.gpu.value:
        yield from panel_graphs.common_graphs(frame, view, samples, slots)


def _busy_graph(frame: Frame, view: View, samples: tuple[Sample, ...], slots: int, sliding: SlidingSeries) -> Graph:
    def gpu_busy(sample: Sample) -> float | None:
        busy = [gpu.busy_ratio for gpu in (sample.gpu.value or {}).values() if gpu.busy_ratio is not None]
        return sum(busy) / len(busy) if busy else None

    def cpu_busy(sample: Sample) -> float | None:
        return None if sample.cpu.value is None else sample.cpu.value.all.busy_ratio

    count, culprit = len(frame.snapshot.gpu.value or {}), culprit_of(frame, view)
    has_gpu = count > 0
    # The mean of all GPUs does not show how busy the GPUs of a job are.
    label = "CPU busy" if not has_gpu else "GPU busy" if count == 1 else "all GPUs"
    data = sliding.series((has_gpu,), samples, gpu_busy if has_gpu else cpu_busy, slots, frame.snapshot.interval_s)
    starved = has_gpu and frame.verdict.state is State.STARVED
    hue = culprit.hue if (culprit.gpus if has_gpu else culprit.cores) else ""
    return Graph(label, "%", data, 0.01, 1.0, percent, strong=starved, hue=hue)


def _blocked_graph(frame: Frame, samples: tuple[Sample, ...], slots: int, sliding: SlidingSeries, job: Job) -> Graph:
    """The share of time in which the workers are in state D. It has a limit only while the verdict is STARVED or
    BLOCKED.
    """

    def value(sample: Sample) -> float | None:
        rates = None if sample.jobs.value is None else sample.jobs.value.jobs.get(job.key)
        return None if rates is None else rates.worker_disk_ratio

    data = sliding.series((job.key,), samples, value, slots, frame.snapshot.interval_s)
    waits = frame.verdict.state in (State.STARVED, State.BLOCKED)
    return Graph("blocked", "%", data, 0.01, 1.0, percent, BLOCKED if waits else None, strong=waits)
