"""The GPU panel: a line a GPU, or why there is none."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.present.columns import rule
from iotop_ai.present.gpu_groups import alike, gpus
from iotop_ai.present.line import Line, Span, cut_spans, spans_cells
from iotop_ai.present.panel import panel, why_not
from iotop_ai.present.view import View


@panel
def gpu_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """Section rule with titles, then GPUs (keys "gpu:UUID") folded unless all have room; one row without a GPU."""
    if not gpus(frame, view):
        return [_none(frame, view, width)]
    # Here, as a start knows of no GPU yet, and many machines have none.
    from iotop_ai.present.gpu_table import table_rows

    return table_rows(frame, view, width, height)


def gpu_keys(frame: Frame, view: View, height: int) -> tuple[str, ...]:
    """Row keys of the panel in ``height`` rows, top to bottom."""
    every = gpus(frame, view)
    if height - 1 >= len(every):
        return tuple(g.row_key for g in every)
    return tuple(group[0].row_key for group in alike(frame, view))


def _none(frame: Frame, view: View, width: int) -> Line:
    reading = frame.snapshot.gpu
    if reading.value is not None:
        why = [Span("none in this machine", "dim")]
    else:
        why = why_not(reading)
    spans = cut_spans([Span(" "), *why, Span("; disks and processes go on", "dim")], width - 8)
    line = rule(width - spans_cells(spans), "GPU", focus=view.focus == "gpu")
    return Line((*line.spans[:2], *spans, *line.spans[2:]))
