"""What a recording came to, in words."""

from __future__ import annotations

from iotop_ai.present.units import duration, size
from iotop_ai.present.view import Recorded


def recorded_text(done: Recorded) -> str:
    """ "34 s, 212 kB in PATH", after what was wrong with it."""
    what = f"{duration(done.seconds)}, {size(done.size_bytes)} in {done.path}"
    return f"{done.trouble}; {what}" if done.trouble else what
