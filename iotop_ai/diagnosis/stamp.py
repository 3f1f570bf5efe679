"""Which rules and numbers decided: what another stamp decided is decided again."""

from __future__ import annotations

import hashlib
from functools import cache

from iotop_ai.diagnosis.thresholds import LIMITS, RULES_VERSION


@cache
def stamp() -> str:
    """The rules' version with a hash of every threshold, e.g. "3-9f86d081"."""
    return f"{RULES_VERSION}-{hashlib.sha256(repr(LIMITS).encode()).hexdigest()[:8]}"
