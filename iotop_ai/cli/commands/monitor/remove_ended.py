"""Removes from the state folder the acknowledgements whose findings have ended."""

from __future__ import annotations

import contextlib

from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.state.folder import state_path
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings


def remove_ended_acknowledgements(settings: Settings, frame: Frame, limit_s: float = HOME_TIMEOUT_S) -> None:
    """Remove the stored acknowledgements that the Frame shows as ended; wait at most ``limit_s``.

    Does nothing unless ``settings.remember`` is set.
    """
    if not (settings.remember and frame.carry.acked):
        return
    from iotop_ai.diagnosis.verdict.acknowledge import ENDED

    folder, ended = state_path(), [name for name, value in frame.carry.acked.items() if value == ENDED]

    def write() -> None:
        from iotop_ai.collectors.state.acknowledged import Acknowledged

        Acknowledged(folder).remove_all(ended)

    if ended:
        # With a read-only home or an invalid file, the acknowledgements stay.
        with contextlib.suppress(OSError, ValueError):
            call_with_timeout(limit_s, folder, write)
