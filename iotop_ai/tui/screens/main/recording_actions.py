"""The keys that write into a recording: start it, stop it, set a mark."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.message import Message

from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError
from iotop_ai.model.reading import Status
from iotop_ai.present.screen.keymap import first_key
from iotop_ai.present.screen.recording_state import recording_text
from iotop_ai.present.text.units import amount, clock, duration
from iotop_ai.store.source import Source
from iotop_ai.tui.screens.main.state import MainState

if TYPE_CHECKING:
    from iotop_ai.playback.session_recording import SessionRecorder

LONGEST_MARK = 200
"""The largest number of characters of a mark's text."""
LEAST_BYTES_SHOWN = 10_240
"""A smaller size is not shown, because the compressor still holds back a part of the newest minute."""


class RecordingResult(Message):
    """The result of starting or stopping a recording. answer: the text for the screen, beginning with
    "recording", "done: " or "failed: ".
    """

    def __init__(self, answer: str) -> None:
        self.answer = answer
        super().__init__()


class RecordingActions:
    """The controller of the keys that write into a recording.

    session_recorder: keeps the last hour of a live session and writes its recordings; None in a replay.
    """

    def __init__(
        self,
        state: MainState,
        source: Source,
        session_recorder: SessionRecorder | None,
        post_message: Callable[[Message], bool],
    ) -> None:
        self._state = state
        self._source = source
        self._session_recorder = session_recorder
        self._post_message = post_message
        self._marks_failure_shown = False
        self._switch_lock = threading.Lock()
        """Locked while a recording is started or stopped, and until the answer is sent, so that the answers are in
        order.
        """

    def record(self) -> None:
        """Start a recording, or stop the one that is being written."""
        session_recorder = self._session_recorder
        if session_recorder is None or not session_recorder.may_record:
            self._state.change(self._state.view.why_not_live or "not available: this screen is read-only")
            return
        # On a thread, because a disk may be slow to open a file or to write the last lines.
        try:
            threading.Thread(target=self._switch, args=(session_recorder,), name="record", daemon=True).start()
        except RuntimeError as error:  # this user has too many threads
            self._state.change(f"failed: {error}")

    def _switch(self, session_recorder: SessionRecorder) -> None:
        with self._switch_lock:
            answer = self._switch_answer(session_recorder)
            if answer:
                self._post_message(RecordingResult(answer))

    def _switch_answer(self, session_recorder: SessionRecorder) -> str:
        """Start or stop the recording; return the message for the status line, or "" if the session is over."""
        try:
            result = session_recorder.switch()
        except (IotopError, RuntimeError) as error:  # RuntimeError: this user has too many threads
            return f"failed: {error}"
        except OSError as error:
            folder = os.path.dirname(os.path.abspath(error.filename)) if error.filename else "recording"
            return f"failed: {clean(folder)}: {error.strerror}"
        if result is None:
            return ""
        if isinstance(result, str):
            why = session_recorder.why_other_folder()
            key = first_key("time.record", self._state.view.keymap)
            stops = f", {key} stops it" if key else ""
            return "; ".join(filter(None, (f"recording{stops}: {path_from_home(result)}", why)))
        return f"{'failed' if result.trouble else 'done'}: {recording_text(result)}"

    def show_result(self, message: RecordingResult) -> None:
        """Show whether the recording was started or stopped."""
        self.watch_recording()
        self._state.change(message.answer)

    def add_mark(self, text: str = "") -> None:
        """Set a mark at this moment. text: the user's name for the moment."""
        if self._state.view.remote:
            self._state.change("not available from another machine: set marks there")
            return
        self._source.add_event("mark", clean(text.strip(), LONGEST_MARK) or "by key")
        at = clock(self._state.newest.snapshot.wall_ns, self._state.view.utc_offset_s)
        self._state.change(f"done: mark set at {at}")

    def watch_recording(self) -> None:
        """Store the recording's state in the View, and show a new problem with it once."""
        now = self._session_recorder.recording_state() if self._session_recorder is not None else None
        before = self._state.view.recording
        self._state.update(recording=now)
        if now is not None and now.trouble and (before is None or before.trouble != now.trouble):
            self._state.change(f"failed: {now.trouble}")

    def watch_marks(self) -> None:
        """Show once why this monitor cannot receive the marks of other programs."""
        marks = self._state.newest.snapshot.marks
        if marks.status is Status.FAILED and not self._marks_failure_shown and self._session_recorder is not None:
            self._marks_failure_shown = True
            self._state.change(f"failed: {marks.reason}")

    def look_back_text(self, stop: str = "") -> str:
        """How far the user can look back, and how much memory the kept Frames take; "" if nothing is kept.

        stop: where a jump stopped; if given, it replaces the words about the kept time.
        """
        if self._session_recorder is None or self._session_recorder.ring is None:
            return ""
        kept = self._session_recorder.ring.state()
        room = f" in {amount(kept.size_bytes)}" if kept.size_bytes >= LEAST_BYTES_SHOWN else ""
        key = first_key("cursor.last", self._state.view.keymap)
        what = stop or f"the last {duration(kept.span_s)} are kept{room}"
        return what + (f"; {key} goes back to now" if key else "")


def path_from_home(path: str) -> str:
    """The whole path, with "~" for the user's home."""
    path, home = os.path.abspath(path), os.path.expanduser("~").rstrip("/")
    return clean(f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path)
