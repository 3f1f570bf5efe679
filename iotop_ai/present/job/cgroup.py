"""A job's cgroup in words, one clause each: its memory and limit, its CPU quota, its I/O rates, its waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.present.text.units import figure, mib, percent, plural, size

if TYPE_CHECKING:
    from iotop_ai.model.job.cgroup import CgroupMemory, CgroupRates


def cgroup_text(frame: Frame, job: ProcessKey) -> str:
    """The job's cgroup in words; "" when unknown."""
    table = frame.snapshot.cgroups.value
    path = None if table is None else table.jobs.get(job)
    group = None if table is None or path is None else table.groups.get(path)
    if path is None or group is None:
        return ""
    parts = _memory(group.memory)
    rates = (frame.sample.cgroups.value or {}).get(path)
    if rates is not None:
        parts += _rates(rates)
    return ", ".join([path, *parts])


def _memory(memory: CgroupMemory) -> list[str]:
    if memory.current_bytes is None:
        return []
    limits = {"high": memory.high_bytes, "max": memory.max_bytes}
    known_limits = {name: limit for name, limit in limits.items() if limit is not None}
    text = f"memory {size(memory.current_bytes)}B"
    if known_limits:
        name = min(known_limits, key=known_limits.__getitem__)
        text += f" of {size(known_limits[name])}B ({name})"
    if memory.file_bytes is not None:
        text += f", {size(memory.file_bytes)}B of it page cache"
    out = [text]
    if memory.oom_kills:
        out.append(plural(memory.oom_kills, "OOM kill"))
    return out


def _rates(rates: CgroupRates) -> list[str]:
    out = []
    for value, words in ((rates.high_per_s, "over memory.high"), (rates.max_per_s, "at memory.max")):
        if value:
            out.append(f"{figure(value)} times/s {words}")
    if rates.throttled_ratio:
        out.append(f"CPU quota used up in {percent(rates.throttled_ratio)}% of its periods")
    if rates.read_bytes_per_s is not None:
        out.append(f"reads {mib(rates.read_bytes_per_s)} writes {mib(rates.write_bytes_per_s)} MB/s")
    waits = {"I/O": rates.io_some_ratio, "memory": rates.memory_some_ratio, "a CPU": rates.cpu_some_ratio}
    waiting = [f"{name} {percent(share)}%" for name, share in waits.items() if share is not None]
    if waiting:
        out.append(f"waits for {' '.join(waiting)}")
    return out
