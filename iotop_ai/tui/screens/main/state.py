"""The state of the main screen: which Frame it shows, and how."""

from __future__ import annotations

from typing import Protocol

from iotop_ai.diagnosis.engine import with_job_verdict
from iotop_ai.diagnosis.facts.fold_cache import FoldCache
from iotop_ai.diagnosis.facts.leading_job import job_with
from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import FrameCache

_PLAYBACK_MODES = ("replay", "back")
"""The modes in which a PlaybackThread decides which Frame is shown."""


class Canvas(Protocol):
    """The part of the main screen that draws a MainState."""

    @property
    def columns(self) -> int:
        """The width of the terminal."""
        ...

    def redraw(self) -> None:
        """Draw the state."""
        ...

    def redraw_if_in_front(self) -> None:
        """Draw the state, unless another screen covers the main one."""
        ...

    def show_change(self, message: str) -> None:
        """Draw the state after a key, on the main screen and the screen in front. ``message`` is removed after a few
        seconds.
        """
        ...


class MainState:
    """The Frames and the View. The controllers change them here, and the canvas draws them."""

    def __init__(self, frame: Frame, view: View, canvas: Canvas) -> None:
        self.canvas = canvas
        # Without a cache, each panel would compute the values that all of them show.
        self.view = view if view.cache is not None else view._replace(cache=FrameCache())
        self.newest = frame
        """The Frame that was received last. It differs from ``frame`` while the screen is paused or shows the past."""
        self.past = view.past
        """The Samples older than the history of ``newest``, for the graphs."""
        self.last_seen_job: tuple[str, int] = ("", 0)
        """The name of the chosen job and the pid by which the user chose it, from the last Frame that had the job."""
        self._fold_cache = FoldCache()
        """Saves time when the verdict about the chosen job is computed for one Frame after another."""
        self.frame = frame

    @property
    def frame(self) -> Frame:
        """The Frame on the screen, with its verdict about the job that the user chose."""
        return self._frame

    @frame.setter
    def frame(self, frame: Frame) -> None:
        self.received = frame
        """The Frame as it was received, with its verdict about the job that the diagnosis chose."""
        self._frame = with_job_verdict(frame, self.view.job, self._fold_cache)
        job = job_with(frame.snapshot, self.view.job) if self.view.job else None
        if job is not None:
            self.last_seen_job = (job.name, self.view.job)

    def change(self, message: str = "", **changes: object) -> None:
        """Change the View after a key, and draw it. message: the answer to the key."""
        self.update(message=message, **changes)
        self.canvas.show_change(message)

    def update(self, **changes: object) -> None:
        """Change the View without drawing it."""
        self.view = self.view._replace(**changes)  # type: ignore[arg-type]

    def show_newest(self) -> None:
        """Show the newest Frame."""
        self.frame = self.newest

    @property
    def in_past(self) -> bool:
        """Whether the screen shows a recording, or a time before now."""
        return self.view.mode in _PLAYBACK_MODES

    @property
    def back_s(self) -> float:
        """The seconds from the Frame shown to the newest one."""
        return max(0.0, (self.newest.snapshot.wall_ns - self.frame.snapshot.wall_ns) / 1e9)
