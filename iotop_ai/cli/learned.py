"""What outlives a session of what it learned: how long the reads of each disk took."""

from __future__ import annotations

import contextlib

from iotop_ai.collectors.state_folder import state_path
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings


def keep_baselines(settings: Settings, frame: Frame) -> None:
    """Keep how long the disks' reads took for the next start, where anything may be remembered."""
    if settings.remember:
        from iotop_ai.store.baselines import Baselines

        now, infos = frame.snapshot, frame.snapshot.disks.value or {}
        with contextlib.suppress(OSError):  # a home that may not be written is no reason to say anything
            Baselines(state_path()).keep(frame.carry.learned, infos, now.at_ns, now.wall_ns // 10**9)
