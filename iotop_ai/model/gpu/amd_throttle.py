"""The meaning of the bits of an AMD GPU's throttle status.

Source: drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h, SMU_THROTTLER_*_BIT.
"""

from __future__ import annotations

OTHER = 1 << 63
"""A bit that the kernel does not use. It stands for a reason that is defined for a single GPU model only."""
NOT_REPORTED = (1 << 64) - 1
"""The field's value if the driver does not fill it in: all bits of the field are one."""
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
"""(first bit, last bit, reason as text, NVML's bit for it); for a bit in two groups, the first group counts."""


def reasons_text(bits: int) -> str:
    """The reasons as text, such as "power limit, memory temperature"; "" if the clocks are not lowered."""
    out = []
    for first, last, reason, _ in GROUPS:
        mask = (1 << last + 1) - (1 << first)
        if bits & mask:
            out.append(reason)
            bits &= ~mask
    return ", ".join([*out, *(["a reason specific to this model"] if bits else [])])


def clock_reasons(bits: int) -> int:
    """The reasons as NVML's bits, so that one rule judges GPUs of all vendors; a reason outside GROUPS has no bit."""
    out = 0
    for first, last, _, nvml_bit in GROUPS:
        if bits & ((1 << last + 1) - (1 << first)):
            out |= nvml_bit
    return out
