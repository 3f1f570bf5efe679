"""The GPU panel: a row for each GPU, or the reason why there are none."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.present.gpu.groups import gpus, group_key, panel_groups
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line, Span, cut_spans, spans_cells
from iotop_ai.present.text.panel import panel, reason_spans
from iotop_ai.present.text.table import rule

_NO_GPU = "no NVIDIA GPU found"


@panel
def gpu_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The rule with the titles, then the GPUs (a row's key is "gpu:UUID"), in groups if not all fit; one row for a
    machine without GPUs. If the panel fills the window, the users of the GPUs follow.
    """
    if not gpus(frame, view):
        return [_no_gpu_row(frame, view, width)]
    # Imported here because the first Frame has no GPU yet, and many machines never have one.
    from iotop_ai.present.gpu.table import table_rows

    out = table_rows(frame, view, width, height)
    if view.zoom != "gpu":
        return out
    from iotop_ai.present.gpu.users_table import user_rows

    return [*out, *user_rows(frame, view, width, height - len(out))]


def gpu_keys(frame: Frame, view: View, height: int) -> tuple[str, ...]:
    """The keys of the panel's rows, from top to bottom, when it has ``height`` rows."""
    return tuple(group_key(group, view) for group in panel_groups(frame, view, height))


def _no_gpu_row(frame: Frame, view: View, width: int) -> Line:
    reading = frame.snapshot.gpu
    if reading.value is not None:
        why = [Span("none in this machine", "dim")]
    else:
        why = [Span(_NO_GPU, "dim")] if reading.reason == "no NVIDIA driver" else reason_spans(reading, view)
    spans = cut_spans([Span(" "), *why], width - 8)
    line = rule(width - spans_cells(spans), "GPU", focus=view.focus == "gpu")
    return Line((*line.spans[:2], *spans, *line.spans[2:]))
