"""Why an AMD GPU's clocks are lowered, from its firmware's table ``gpu_metrics``.

Source: drivers/gpu/drm/amd/include/kgd_pp_interface.h (struct gpu_metrics_v*, chosen by the first four bytes) and
drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h (SMU_THROTTLER_*_BIT). A value that a model does not report has all bits
set.
"""

from __future__ import annotations

import struct

from iotop_ai.model.gpu.amd_throttle import NOT_REPORTED, OTHER

_INDEPENDENT: dict[tuple[int, int], int] = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
"""Format and content revision to the offset of indep_throttle_status: 64 bits with the same meaning on every model."""
_MODEL_SPECIFIC: dict[tuple[int, int], int] = {
    (1, 0): 68, (1, 1): 68, (1, 2): 68, (1, 4): 40, (1, 5): 104, (2, 0): 112, (2, 1): 108,
}  # fmt: skip
"""As above, the offset of throttle_status: 32 bits whose meaning depends on the model."""
_RESIDENCIES: dict[tuple[int, int], int] = {(1, 6): 32, (1, 7): 40, (1, 8): 40}
"""As above, the offset of accumulation_counter; prochot, ppt, socket_thm, vr_thm and hbm_thm follow it.

1.6 has the layout of September 2024; that of May 2024, with the counter at 104, was withdrawn."""
_RESIDENCY_BITS = (47, 0, 32, 38, 34)


class Throttle:
    """Decodes one card's successive tables. In newer formats a reason applies while its counter grows."""

    def __init__(self) -> None:
        self._before: tuple[int, ...] | None = None

    def bits(self, raw: bytes) -> int | None:
        """SMU_THROTTLER_* bits now, or OTHER for a reason specific to the model; None when not reported."""
        if len(raw) < 4:
            return None
        version = (raw[2], raw[3])
        if (at := _INDEPENDENT.get(version)) is not None:
            return _unpack(raw, at, "<Q")
        if (at := _MODEL_SPECIFIC.get(version)) is not None:
            found = _unpack(raw, at, "<I")
            return found and OTHER
        at = _RESIDENCIES.get(version)
        if at is None or len(raw) < at + 24:
            return None
        before, self._before = self._before, struct.unpack_from("<6I", raw, at)
        if before is None or self._before[0] <= before[0] or NOT_REPORTED & 0xFFFFFFFF in self._before:
            return None
        grown = (new != old for new, old in zip(self._before[1:], before[1:], strict=True))
        return sum(1 << bit for bit, grew in zip(_RESIDENCY_BITS, grown, strict=True) if grew)


def _unpack(raw: bytes, at: int, form: str) -> int | None:
    size = struct.calcsize(form)
    if len(raw) < at + size:
        return None
    (value,) = struct.unpack_from(form, raw, at)
    return None if value == NOT_REPORTED & ((1 << 8 * size) - 1) else int(value)
