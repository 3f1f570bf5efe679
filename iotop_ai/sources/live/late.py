"""The parts of a Snapshot that may be late, and how long a command that needs only one Snapshot waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot

SMART_WAIT_S = 5.0
GPU_WAIT_S = 2.0
"""The longest waits for the first round of SMART queries and the first reading of the GPUs, in seconds."""
LATE_FIELDS = ("smart", "gpu", "filesystems")


def late_parts(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the fields of a Snapshot that still have a pending part."""
    return tuple(name for name in LATE_FIELDS if _pending(getattr(snapshot, name)))


def _pending(reading: Reading[Any]) -> bool:
    parts = reading.value.values() if isinstance(reading.value, Mapping) else ()
    return reading.status is Status.PENDING or any(part.status is Status.PENDING for part in parts)
