"""The stamp of the rules: their version and a checksum of their numbers.

A recorded verdict whose stamp differs from the stamp of this program is decided again.
"""

from __future__ import annotations

from functools import cache
from zlib import crc32

from iotop_ai.diagnosis.thresholds import LIMITS, RULES_VERSION, Thresholds
from iotop_ai.model.frame import HISTORY_LEAST, HISTORY_S
from iotop_ai.model.verdict_class import CLASS_SPECS


@cache
def stamp(limits: Thresholds = LIMITS) -> str:
    """The version of the rules and a checksum of every number and class that the fold uses, e.g. "3-9f86d081"."""
    return f"{RULES_VERSION}-{crc32(repr((limits, CLASS_SPECS, HISTORY_S, HISTORY_LEAST)).encode()):08x}"
