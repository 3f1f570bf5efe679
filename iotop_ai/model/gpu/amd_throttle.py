"""The meaning of the bits of an AMD GPU's throttle status. Pure.

Source: drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h, SMU_THROTTLER_*_BIT.
"""

from __future__ import annotations

OTHER = 1 << 63
"""Not a bit of the kernel: it stands for a reason that only this GPU model's own tables define."""
NOT_REPORTED = (1 << 64) - 1
"""All ones, in as many bytes as the field has: the driver does not fill it in."""
_POWER, _HOT, _PROCHOT = 0x4, 0x20, 0x40
"""Bits of nvmlClocksEventReasons: SwPowerCap, SwThermalSlowdown, HwThermalSlowdown."""
GROUPS: tuple[tuple[int, int, str, int], ...] = (
    (0, 7, "power limit", _POWER),
    (16, 23, "current limit", _POWER),
    (34, 34, "memory temperature", _HOT),
    (32, 37, "temperature", _HOT),
    (42, 43, "temperature of the coolant", _HOT),
    (38, 45, "temperature of the voltage regulators", _HOT),
    (46, 47, "the board's overheat signal", _PROCHOT),
)
"""First and last bit, their meaning, and NVML's reason for it; if two entries match, the first counts."""


def words(bits: int) -> str:
    """The reasons as text: "power limit, memory temperature"; "" when the clocks are not lowered."""
    out = []
    for first, last, word, _ in GROUPS:
        mask = (1 << last + 1) - (1 << first)
        if bits & mask:
            out.append(word)
            bits &= ~mask
    return ", ".join([*out, *(["a reason of this model's own"] if bits else [])])


def clock_reasons(bits: int) -> int:
    """The bits as NVML's, so that one rule judges every GPU."""
    out = 0
    for first, last, _, reason in GROUPS:
        if bits & ((1 << last + 1) - (1 << first)):
            out |= reason
    return out
