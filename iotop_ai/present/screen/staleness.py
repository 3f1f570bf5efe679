"""The messages while no reading comes: since when, which read hangs, and that the values are old."""

from __future__ import annotations

from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line, Span, row
from iotop_ai.present.text.units import duration

_SUBJECTS = {
    "block": "the disks' counters",
    "disks": "the disks' settings",
    "mounts": "the mounts",
    "cpu": "the CPU's counters",
    "netfs": "network file systems",
    "gpu": "GPUs",
    "gpu_slow": "GPUs",
    "smart": "SMART",
    "filesystems": "file systems",
    "kernel": "the kernel's log",
}
"""Words for fields of the Snapshot whose names are not clear in a sentence."""


def is_silent(view: View) -> bool:
    """Whether the picture should be newer: a live one without readings. A paused or past picture has its own age."""
    return view.silent_s is not None and view.mode == "live"


def silent_for(view: View) -> str:
    """ "no reading for 12 s"; call it while ``is_silent``."""
    return f"no reading for {duration(view.silent_s or 0)}"


def silence_spans(view: View) -> list[Span]:
    """The message that no reading comes, with the cause where it is known."""
    if view.remote:
        why = ": the remote end sends nothing"
    elif view.silent_in:
        why = f": reading {_SUBJECTS.get(view.silent_in, view.silent_in)} hangs"
    else:
        why = ""
    return [Span(silent_for(view), "warn"), Span(f"{why}; the values below are old", "dim")]


def dimmed(line: Line, width: int) -> Line:
    """The line with all its text dim."""
    return row(width, [Span(span.text, "dim") for span in line.spans])
