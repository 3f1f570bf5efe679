"""The part of the rules' state (FoldState) about hung devices, which have requests in flight and complete none."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.model.sample import Sample

Hung = Mapping[str, int]
"""For each hung device by kernel name, the time of the first sample in which it completed no request, in
monotonic ns."""
NONE: Hung = {}


def hung_since(hung: Hung, sample: Sample) -> Hung:
    """The memory after one more Sample; the same mapping if nothing changed.

    Source: Documentation/admin-guide/iostats.rst: field 9 is the number of requests in flight; fields 1, 5, 12 and 16
    count completed requests.
    """
    block = sample.block
    if block.value is None or not block.renewed:
        return hung
    waiting = [(key.name, rates) for key, rates in block.value.items() if rates.in_flight]
    if not waiting:
        return NONE if hung else hung
    out = {
        name: hung.get(name, sample.at_ns)
        for name, rates in waiting
        if rates.reads_per_s == 0 and rates.writes_per_s == 0 and not (rates.discards_per_s or rates.flushes_per_s)
    }
    return hung if out == hung else out


def hung_s(hung: Hung, name: str, now_ns: int) -> float:
    """The seconds for which a device has completed none of its requests; 0 if it answers or has no requests."""
    since = hung.get(name)
    return 0.0 if since is None else max(0.0, (now_ns - since) / 1e9)
