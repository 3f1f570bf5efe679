"""The state of a recording in words."""

from __future__ import annotations

from iotop_ai.present.screen.view import RecordingState
from iotop_ai.present.text.units import duration, size


def recording_text(state: RecordingState) -> str:
    """The length, size and path of a recording: "34 s, 212K in PATH"; if writing failed, the reason comes first; if
    anything is missing, that comes last. If it continued in another file: "34 s, 212K in PATH, continued in NEWEST".
    """
    continued = f", continued in {state.path}" if state.first_path not in ("", state.path) else ""
    path = f"{state.first_path or state.path}{continued}"
    if state.trouble and not state.size_bytes:  # the empty file was removed
        size_text = ""
    else:
        size_text = f"{duration(state.seconds)}, {size(state.size_bytes)} in {path}"
    return "; ".join(filter(None, (state.trouble, size_text, missing_text(state.lost, state.lost_events))))


def missing_text(snapshots: int, events: int) -> str:
    """The Snapshots and events that a recording lacks, in words; "" if it is complete."""
    if not snapshots:
        return ""
    and_events = f" and {events} event{'' if events == 1 else 's'}" if events else ""
    return f"{snapshots} snapshot{'' if snapshots == 1 else 's'}{and_events} missing"
