"""The graphs on the main screen about the GPUs that the verdict names, and about all GPUs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample
from iotop_ai.present.block.devices import chosen_name
from iotop_ai.present.gpu.graphs import FigureOf, GpuFigure, gpu_figures
from iotop_ai.present.screen.graphs import Graph
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import SlidingSeries
from iotop_ai.present.text.frame_cache import cache_part
from iotop_ai.present.verdict.culprit import culprit_of

_CAUSES = {
    "gpu_throttle": ("temp", "clock", "power"),
    "pcie": ("PCIe in", "PCIe out"),
    "gpu_memory": ("memory",),
    "imbalance": ("busy", "power"),
    "comm_wait": ("power", "SM"),
}
"""By verdict class: the labels of the figures that show its cause. Other classes have no such figures."""
_POWER_FIRST = ("power", "clock", "temp")
"""The figures for GPUs that the power limit or the power brake slows down."""
_COMMON = ("SM", "power", "temp", "PCIe in")
"""The figures that are shown over all GPUs together."""
_LABELS_OF_ONE = {"PCIe in": "in", "PCIe out": "out", "SM": "SM"}
"""The word after "GPU 2" in a label. A figure that is not listed needs no word, because its unit identifies it."""
_LABELS_OF_ALL = {"SM": "GPU SM", "power": "GPU power", "clock": "GPU MHz", "memory": "GPU mem"}
"""The labels of figures over all GPUs, if they differ from the figure's own label."""


def named_graphs(frame: Frame, view: View, samples: tuple[Sample, ...], slots: int) -> Iterator[list[Graph]]:
    """A graph for each figure of the GPUs that the verdict names. There are none if the verdict names a disk or the
    user selected a disk.
    """
    culprit = culprit_of(frame, view)
    if not culprit.gpus or culprit.disk or chosen_name(frame, view):
        return
    for graph in _graphs(frame, view, samples, slots, _cause_labels(frame), culprit.gpus):
        yield [graph._replace(hue=culprit.hue)]


def _cause_labels(frame: Frame) -> tuple[str, ...]:
    primary = frame.verdict.primary
    by_power = dict(primary.args).get("why") in ("power_cap", "power_brake")
    return _POWER_FIRST if by_power else _CAUSES.get(primary.class_id, ())


def common_graphs(frame: Frame, view: View, samples: tuple[Sample, ...], slots: int) -> Iterator[list[Graph]]:
    """A graph for each common figure, over all GPUs together: a mean, a sum or a maximum."""
    for graph in _graphs(frame, view, samples, slots, _COMMON, tuple(frame.snapshot.gpu.value or {})):
        yield [graph]


def _graphs(
    frame: Frame, view: View, samples: tuple[Sample, ...], slots: int, labels: tuple[str, ...], uuids: Collection[str]
) -> Iterator[Graph]:
    """The graphs of the figures that are known at least once in the time shown."""
    table = frame.sample.gpu.value or {}
    # For GPUs of different models, the scale is that of the GPU with the highest power limit.
    reference = max((table[u] for u in uuids if u in table), key=lambda r: r.power_limit_watts or 0.0, default=None)
    figures = {figure.label: figure for figure in gpu_figures(reference)}
    subject = _subject(frame, uuids)
    series_cache = cache_part(view, _series_cache)
    for label in labels:
        figure = figures[label]
        sliding = series_cache.setdefault((label, subject), SlidingSeries())
        combine = max if label == "temp" else _sum if figure.unit == "MB/s" else _mean
        value = _combined_figure(figure.value, uuids, combine)
        data = sliding.series((frozenset(uuids),), samples, value, slots, frame.snapshot.interval_s)
        if data.peak is not None:
            yield _with_label(figure, subject, len(uuids)).graph(data)


def _series_cache() -> dict[tuple[str, str], SlidingSeries]:
    """An empty cache of the series, which are kept between refreshes, by the figure's label and the subject."""
    return {}


def _subject(frame: Frame, uuids: Collection[str]) -> str:
    """ "GPU 2" if the graphs show only one of the machine's several GPUs; otherwise, or if that GPU does not answer,
    "".
    """
    readings = frame.snapshot.gpu.value or {}
    states = [readings[uuid].value for uuid in uuids if uuid in readings]
    if len(states) != 1 or len(readings) == 1 or states[0] is None:
        return ""
    return f"GPU {states[0].number}"


def _with_label(figure: GpuFigure, subject: str, count: int) -> GpuFigure:
    """The figure with its label for the main screen. It has no limit there, because it is normal for a GPU to be at its
    power limit.
    """
    if subject:
        label = f"{subject} {_LABELS_OF_ONE.get(figure.label, '')}".rstrip()
    elif figure.label == "temp":
        label = "GPU temp" if count == 1 else "max temp"
    else:
        label = _LABELS_OF_ALL.get(figure.label, figure.label)
    return figure._replace(label=label, limit=None)


def _combined_figure(
    figure_of: FigureOf, uuids: Collection[str], combine: Callable[[list[float]], float]
) -> Callable[[Sample], float | None]:
    def of_sample(sample: Sample) -> float | None:
        table = sample.gpu.value or {}
        values = [number for uuid in uuids if uuid in table and (number := figure_of(table[uuid])) is not None]
        return combine(values) if values else None

    return of_sample


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _sum(values: list[float]) -> float:
    return sum(values)
