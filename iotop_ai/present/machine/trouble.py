"""Problems of the machine that are shown only while they exist: heat, lost packets, link and filesystem errors."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.present.text.line import Span
from iotop_ai.present.text.units import count, percent, plural, size

_HIGH_RETRANSMIT_RATIO = 0.01
"""From 1 % lost segments on, TCP's throughput is noticeably lower (Mathis et al. 1997: it is proportional to
1/sqrt(loss)).
"""
_SEGMENTS_PER_S = 100.0
"""Below this rate of sent segments, the ratio of retransmitted ones is meaningless."""


def host_problems(frame: Frame) -> list[list[Span]]:
    """One clause for each kind of problem; [] on a healthy machine."""
    return [part for part in (_heat(frame), _tcp(frame), _rdma(frame), _btrfs(frame)) if part]


def _heat(frame: Frame) -> list[Span]:
    rates = frame.sample.clocks.value
    if rates is None or not ((rates.core_throttles_per_s or 0.0) + (rates.package_throttles_per_s or 0.0)):
        return []
    out = [Span("cpu heat ", "dim"), Span("throttled", "warn")]
    if rates.mean_mhz is not None:
        of_base = "" if rates.base_mhz is None else f" of {rates.base_mhz / 1000:.1f}"
        out.append(Span(f" {rates.mean_mhz / 1000:.1f}{of_base} GHz", "dim"))
    return out


def _tcp(frame: Frame) -> list[Span]:
    rates = frame.sample.tcp.value
    if (
        rates is None
        or (rates.segments_per_s or 0.0) < _SEGMENTS_PER_S
        or (rates.retransmit_ratio or 0.0) < _HIGH_RETRANSMIT_RATIO
    ):
        return []
    return [Span("tcp retransmits ", "dim"), Span(percent(rates.retransmit_ratio), "warn"), Span(" %", "dim")]


def _rdma(frame: Frame) -> list[Span]:
    ports = frame.sample.rdma.value or {}
    worst = max(ports, key=lambda port: ports[port].errors_per_s or 0.0, default="")
    errors = ports[worst].errors_per_s if worst else None
    if not errors:
        return []
    return [Span(f"rdma {worst} ", "dim"), Span(f"{count(errors)} errors/s", "warn")]


def _btrfs(frame: Frame) -> list[Span]:
    table = frame.snapshot.pools.value
    for uuid, filesystem in () if table is None else table.btrfs.items():
        if error_count := filesystem.whole:
            name = filesystem.label or uuid[:8]
            return [Span(f"btrfs {name} ", "dim"), Span(plural(error_count, "error"), "warn")]
    return []


def zfs_cache(frame: Frame) -> list[Span]:
    """The size and hit ratio of the ARC, the cache of ZFS; [] without ZFS."""
    rates = frame.sample.pools.value
    if rates is None or rates.arc_bytes is None:
        return []
    out = [Span("arc ", "dim"), Span(size(rates.arc_bytes))]
    return out if rates.arc_hit_ratio is None else [*out, Span(f" {percent(rates.arc_hit_ratio)} % hit", "dim")]
