"""Finds out why the clocks of an AMD GPU are lowered, from the table ``gpu_metrics`` of its firmware.

Source: drivers/gpu/drm/amd/include/kgd_pp_interface.h (struct gpu_metrics_v*, selected by the first four bytes) and
drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h (SMU_THROTTLER_*_BIT). In a value that a model does not report, all bits
are set.
"""

from __future__ import annotations

import struct

from iotop_ai.model.gpu.amd_throttle import NOT_REPORTED, OTHER

_INDEPENDENT_OFFSETS: dict[tuple[int, int], int] = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
"""The offset of indep_throttle_status by (format revision, content revision) of the table.

This field has 64 bits, which have the same meaning on every model.
"""
_MODEL_SPECIFIC_OFFSETS: dict[tuple[int, int], int] = {
    (1, 0): 68, (1, 1): 68, (1, 2): 68, (1, 4): 40, (1, 5): 104, (2, 0): 112, (2, 1): 108,
}  # fmt: skip
"""The offset of throttle_status by (format revision, content revision).

This field has 32 bits, whose meaning depends on the model.
"""
_COUNTER_OFFSETS: dict[tuple[int, int], int] = {(1, 6): 32, (1, 7): 40, (1, 8): 40}
"""The offset of accumulation_counter by (format revision, content revision).

prochot, ppt, socket_thm, vr_thm and hbm_thm follow this counter. For 1.6, this is the layout of September 2024; the
layout of May 2024, with the counter at 104, was withdrawn.
"""
_COUNTER_BITS = (47, 0, 32, 38, 34)
"""The SMU_THROTTLER_*_BIT of prochot, ppt, socket_thm, vr_thm and hbm_thm."""


class ThrottleDecoder:
    """Decodes successive tables of one card. In newer formats, a reason applies while its counter grows."""

    def __init__(self) -> None:
        self._counters: tuple[int, ...] | None = None
        """The counters in the newest table of a format with counters."""

    def bits(self, raw: bytes) -> int | None:
        """Return the SMU_THROTTLER_* bits that are set in a table; None when the table does not report them.

        In a format with counters, a table reports them only if its accumulation_counter has grown since the previous
        table. OTHER stands for a reason whose meaning depends on the model.
        """
        if len(raw) < 4:
            return None
        version = (raw[2], raw[3])
        if (offset := _INDEPENDENT_OFFSETS.get(version)) is not None:
            return _unpack(raw, offset, "<Q")
        if (offset := _MODEL_SPECIFIC_OFFSETS.get(version)) is not None:
            status = _unpack(raw, offset, "<I")
            return status and OTHER  # None and 0 stay as they are
        offset = _COUNTER_OFFSETS.get(version)
        if offset is None or len(raw) < offset + 24:
            return None
        before, self._counters = self._counters, struct.unpack_from("<6I", raw, offset)
        if before is None or self._counters[0] <= before[0] or NOT_REPORTED & 0xFFFFFFFF in self._counters:
            return None
        has_grown = (new != old for new, old in zip(self._counters[1:], before[1:], strict=True))
        return sum(1 << bit for bit, applies in zip(_COUNTER_BITS, has_grown, strict=True) if applies)


def _unpack(raw: bytes, offset: int, layout: str) -> int | None:
    size = struct.calcsize(layout)
    if len(raw) < offset + size:
        return None
    (value,) = struct.unpack_from(layout, raw, offset)
    return None if value == NOT_REPORTED & ((1 << 8 * size) - 1) else int(value)
