"""Saves each disk's baseline of read latency for the next session."""

from __future__ import annotations

import contextlib

from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.state.folder import state_path
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings


def save_baselines(settings: Settings, frame: Frame, limit_s: float = HOME_TIMEOUT_S) -> None:
    """Write the Frame's baselines to the state folder if ``settings.remember`` is set; wait at most ``limit_s``."""
    if settings.remember:
        snapshot, infos = frame.snapshot, frame.snapshot.disks.value or {}
        folder, baselines = state_path(), frame.carry.learned

        def write() -> None:
            from iotop_ai.store.baselines import Baselines

            Baselines(folder).keep(baselines, infos, snapshot.at_ns, snapshot.wall_ns // 10**9)

        with contextlib.suppress(OSError):  # with a read-only home the baselines are not kept
            call_with_timeout(limit_s, folder, write)
