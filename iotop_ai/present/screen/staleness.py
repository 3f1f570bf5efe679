"""The messages while no new reading arrives: for how long, which read hangs, and that the values shown are old."""

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
"""Words for the Snapshot's fields whose names would be unclear in a sentence."""


def is_silent(view: View) -> bool:
    """Whether the screen is older than it should be: it is live, but no reading arrives. While it is paused or shows
    the past, it is meant to be old.
    """
    return view.silent_s is not None and view.mode == "live"


def silent_for(view: View) -> str:
    """For how long no reading has arrived: "no reading for 12 s". Call it only while ``is_silent``."""
    return f"no reading for {duration(view.silent_s or 0)}"


def silence_spans(view: View) -> list[Span]:
    """The message that no reading arrives, with the cause if it is known."""
    if view.remote:
        why = ": the remote end sends nothing"
    elif view.silent_in:
        why = f": reading {_SUBJECTS.get(view.silent_in, view.silent_in)} hangs"
    else:
        why = ""
    return [Span(silent_for(view), "warn"), Span(f"{why}; the values below are old", "dim")]


def dimmed(line: Line, width: int) -> Line:
    """The line with all of its text dim."""
    return row(width, [Span(span.text, "dim") for span in line.spans])
