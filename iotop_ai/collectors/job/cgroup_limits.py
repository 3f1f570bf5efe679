"""Reads the I/O limits and the CPU quota of a process's cgroup and of the cgroups above it.

Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html (io.max, cpu.max, cpu.stat),
https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html, https://docs.kernel.org/scheduler/sched-bwc.html.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.cgroup_paths import levels, parse_cgroups, unified_folder
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.job.records import IoLimit

V1_LIMITS = {
    "blkio.throttle.read_bps_device": "read_bytes",
    "blkio.throttle.read_iops_device": "read_ios",
    "blkio.throttle.write_bps_device": "write_bytes",
    "blkio.throttle.write_iops_device": "write_ios",
}
V2_LIMITS = {"rbps": "read_bytes", "riops": "read_ios", "wbps": "write_bytes", "wiops": "write_ios"}
"""The kind of limit: in v1 by the name of its file, in v2 by its name in io.max."""
_MOST_BYTES = 1 << 18
"""The most bytes that are read from a file."""


def parse_v1_limits(raw: bytes, kind: str, file: str) -> tuple[IoLimit, ...]:
    """Parse a file of limits with lines such as ``254:0 8388608``.

    kind: the kind of all these limits, such as "read_bytes". file: the file's path below the cgroup mount.
    """
    out = []
    for line in raw.splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[1].isdigit() and int(fields[1]):
            out.append(IoLimit(clean_bytes(fields[0], 16), kind, int(fields[1]), file))
    return tuple(out)


def parse_io_max(raw: bytes, file: str) -> tuple[IoLimit, ...]:
    """Parse io.max: one line ``254:0 rbps=8388608 wbps=max riops=max wiops=max`` for each device.

    "max" means that there is no limit. file: the file's path below the cgroup mount.
    """
    out = []
    for line in raw.splitlines():
        device, _, rest = line.partition(b" ")
        for part in rest.split():
            name, _, value = part.partition(b"=")
            kind = V2_LIMITS.get(clean_bytes(name))
            if kind is not None and value.isdigit():
                out.append(IoLimit(clean_bytes(device, 16), kind, int(value), file))
    return tuple(out)


def io_limits(root: Root, groups: Mapping[str, str], unified: str) -> tuple[IoLimit, ...]:
    """Return every limit that applies to the process on any device.

    groups: the paths of the process's cgroups by controller. unified: the mount point of v2. In v1 only the limits of
    the process's own cgroup apply, because blk-throttle treats all groups as being at the same level.
    """
    out: list[IoLimit] = []
    if (level := next(levels(groups.get("blkio", "/")), None)) is not None:
        # In a container the path may not be visible; the container's cgroup is then the root of the mount.
        level = level if root.exists(f"sys/fs/cgroup/blkio/{level}") else ""
        for name, kind in V1_LIMITS.items():
            file = f"blkio/{level}/{name}".replace("//", "/")
            out += parse_v1_limits(_raw(root, f"sys/fs/cgroup/{file}"), kind, file)
    for level in levels(groups.get("", "/")):
        file = f"{level}/io.max".lstrip("/")
        out += parse_io_max(_raw(root, f"{unified}/{file}"), file)
    return tuple(out)


def cpu_quota(root: Root, groups: Mapping[str, str], unified: str) -> tuple[float | None, int | None]:
    """Return (the tightest CPU quota in cores, in how many periods it ran out); None for a missing or unknown value.

    groups, unified: as in ``io_limits``.
    """
    best: tuple[float, int | None] | None = None
    for level in levels(groups.get("", "/")):
        fields = _raw(root, f"{unified}/{level}/cpu.max").split()
        if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
            cores_and_hits = int(fields[0]) / int(fields[1]), _throttle_count(root, f"{unified}/{level}/cpu.stat")
            best = min(best or cores_and_hits, cores_and_hits, key=lambda pair: pair[0])
    for level in levels(groups.get("cpu", "/")):
        folder = f"sys/fs/cgroup/cpu/{level}"
        quota, period = (root.number_or_none(f"{folder}/cpu.cfs_{n}_us") for n in ("quota", "period"))
        if quota is not None and period and quota > 0:
            cores_and_hits = quota / period, _throttle_count(root, f"{folder}/cpu.stat")
            best = min(best or cores_and_hits, cores_and_hits, key=lambda pair: pair[0])
    return best or (None, None)


def read_cores(root: Root) -> float:
    """Return the number of CPU cores that this process can use: by its affinity, or its cgroups' quota if lower."""
    allowed = float(len(os.sched_getaffinity(0)))
    try:
        quota, _ = cpu_quota(root, parse_cgroups(root.read("proc/self/cgroup")), unified_folder(root))
    except OSError:
        quota = None
    return allowed if quota is None else min(allowed, quota)


def _raw(root: Root, relative: str) -> bytes:
    try:
        return root.read(relative, _MOST_BYTES)
    except OSError:
        return b""


def _throttle_count(root: Root, relative: str) -> int | None:
    for line in _raw(root, relative).splitlines():
        if line.startswith(b"nr_throttled ") and line[13:].isdigit():
            return int(line[13:])
    return None
