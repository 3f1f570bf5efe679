"""Which rules and numbers decided: what another stamp decided is decided again."""

from __future__ import annotations

from zlib import crc32

from iotop_ai.diagnosis.thresholds import HOLDS, LIMITS, RULES_VERSION, Thresholds
from iotop_ai.model.frame import HISTORY_LEAST, HISTORY_S


def stamp(limits: Thresholds = LIMITS) -> str:
    """The rules' version with a checksum of every number that the fold uses, e.g. "3-9f86d081"."""
    return f"{RULES_VERSION}-{crc32(repr((limits, HOLDS, HISTORY_S, HISTORY_LEAST)).encode()):08x}"
