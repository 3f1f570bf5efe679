"""What the bits of an AMD GPU's throttle status mean. Pure.

Source: drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h, SMU_THROTTLER_*_BIT.
"""

from __future__ import annotations

OTHER = 1 << 63
"""Not the kernel's: the model holds its clocks back for a reason that only its own tables name."""
UNNAMED = (1 << 64) - 1
_POWER, _HOT, _PROCHOT = 0x4, 0x20, 0x40
"""As nvmlClocksEventReasons: SwPowerCap, SwThermalSlowdown, HwThermalSlowdown."""
GROUPS: tuple[tuple[int, int, str, int], ...] = (
    (0, 7, "power limit", _POWER),
    (16, 23, "current limit", _POWER),
    (34, 34, "memory temperature", _HOT),
    (32, 37, "temperature", _HOT),
    (38, 45, "temperature of the voltage regulators", _HOT),
    (46, 47, "the board's overheat signal", _PROCHOT),
)
"""First and last bit, what they mean in words, and which of NVML's reasons that is; of two the first has a bit."""


def words(bits: int) -> str:
    """As "power limit, memory temperature"; "" when nothing holds it back."""
    out = []
    for first, last, word, _ in GROUPS:
        mask = (1 << last + 1) - (1 << first)
        if bits & mask:
            out.append(word)
            bits &= ~mask
    return ", ".join([*out, *(["a reason of this model's own"] if bits else [])])


def clock_reasons(bits: int) -> int:
    """The bits as NVML would tell them, so that one rule judges every GPU."""
    out = 0
    for first, last, _, reason in GROUPS:
        if bits & ((1 << last + 1) - (1 << first)):
            out |= reason
    return out
