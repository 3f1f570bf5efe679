"""The cgroups of a process, and how much memory their limits leave it.

Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.max, memory.high, memory.current, memory.stat,
memory.events), https://docs.kernel.org/admin-guide/cgroup-v1/memory.html (memory.limit_in_bytes, usage_in_bytes,
stat, failcnt).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import clean_bytes

NO_MEMORY_LIMIT = 1 << 60
"""cgroup v1 prints a number near 2^63 for "no limit"."""
MOST_LEVELS = 16
_RECLAIMABLE = (b"active_file", b"inactive_file", b"slab_reclaimable")
"""Fields of memory.stat that the kernel reclaims under pressure; without tmpfs and anonymous memory."""


def parse_cgroups(raw: bytes) -> dict[str, str]:
    """Path by controller, "" for v2: ``7:blkio:/job`` and ``0::/user.slice``."""
    out = {}
    for line in raw.splitlines():
        _, _, rest = line.partition(b":")
        controllers, _, path = rest.partition(b":")
        for name in clean_bytes(controllers).split(","):
            out[name] = clean_bytes(path)
    return out


def levels(path: str) -> Iterator[str]:
    """The cgroup and its ancestors, nearest first: "a/b", "a", "".

    Yields nothing for "/../job", a cgroup beside our own namespace's: the mount's root is ours and not its ancestor.
    """
    parts = [part for part in path.split("/") if part][:MOST_LEVELS]
    if ".." in parts:
        return
    for end in range(len(parts), -1, -1):
        yield "/".join(parts[:end])


def unified_folder(root: Root) -> str:
    """Mount point of cgroup v2: alone, or next to the v1 hierarchies."""
    return "sys/fs/cgroup" if root.exists("sys/fs/cgroup/cgroup.controllers") else "sys/fs/cgroup/unified"


class MemoryLimit(NamedTuple):
    """One cgroup's limit.

    used_bytes: includes page cache. reclaimable_bytes: the reclaimable part. hits: how often the limit was reached;
    None: unknown.
    """

    limit_bytes: int
    used_bytes: int | None
    reclaimable_bytes: int
    hits: int | None

    @property
    def room_bytes(self) -> int:
        """Bytes that fit without reclaiming memory in use; the limit itself where the use is unknown."""
        used = max(0, (self.used_bytes or 0) - self.reclaimable_bytes)
        return max(0, self.limit_bytes - used)


def tightest_memory_limit(root: Root, groups: Mapping[str, str], unified: str) -> MemoryLimit | None:
    """The limit with the least room, of the process's cgroup and its ancestors; None without a limit.

    memory.high counts like memory.max: the kernel slows a cgroup above it.
    """
    found = [_limit_v2(root, f"{unified}/{level}") for level in levels(groups.get("", "/"))]
    found += [_limit_v1(root, f"sys/fs/cgroup/memory/{level}") for level in levels(groups.get("memory", "/"))]
    # Of equal limits take the nearest one, about which most is known.
    return min((limit for limit in found if limit is not None), key=lambda limit: limit.room_bytes, default=None)


def _limit_v2(root: Root, here: str) -> MemoryLimit | None:
    most, high = (root.number_or_none(f"{here}/memory.{name}") for name in ("max", "high"))
    limits = [(limit, event) for limit, event in ((most, b"max"), (high, b"high")) if limit is not None]
    if not limits:
        return None
    limit, event = min(limits, key=lambda pair: pair[0])
    used = root.number_or_none(f"{here}/memory.current")
    hits = _figures(root, f"{here}/memory.events").get(event)
    return MemoryLimit(limit, used, _reclaimable(root, f"{here}/memory.stat", b""), hits)


def _limit_v1(root: Root, here: str) -> MemoryLimit | None:
    limit = root.number_or_none(f"{here}/memory.limit_in_bytes")
    if limit is None or limit >= NO_MEMORY_LIMIT:
        return None
    used, hits = (root.number_or_none(f"{here}/memory.{name}") for name in ("usage_in_bytes", "failcnt"))
    # The limit includes descendant cgroups; so do the "total_" figures.
    return MemoryLimit(limit, used, _reclaimable(root, f"{here}/memory.stat", b"total_"), hits)


def _reclaimable(root: Root, relative: str, prefix: bytes) -> int:
    figures = _figures(root, relative)
    return sum(figures.get(prefix + name, 0) for name in _RECLAIMABLE)


def _figures(root: Root, relative: str) -> dict[bytes, int]:
    """Name to number of lines like ``inactive_file 4096``; {} when it cannot be read."""
    try:
        raw = root.read(relative, 1 << 16)
    except OSError:
        return {}
    pairs = (line.split() for line in raw.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
