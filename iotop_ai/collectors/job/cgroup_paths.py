"""Finds the cgroups of a process and how much memory their limits leave for it.

Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.max, memory.high, memory.current, memory.stat,
memory.events), https://docs.kernel.org/admin-guide/cgroup-v1/memory.html (memory.limit_in_bytes, usage_in_bytes,
stat, failcnt).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import clean_bytes

NO_MEMORY_LIMIT = 1 << 60
"""The least number that means "no limit". cgroup v1 writes a number near 2^63 when there is no limit."""
MOST_LEVELS = 16
"""The most cgroups of one path that are read: any user may nest cgroups, and each costs a few reads."""
_RECLAIMABLE = (b"active_file", b"inactive_file", b"slab_reclaimable")
"""The fields of memory.stat that the kernel reclaims under pressure. tmpfs and anonymous memory are not in them."""


def parse_cgroups(raw: bytes) -> dict[str, str]:
    """Return the path by controller, with "" for v2, from lines such as ``7:blkio:/job`` and ``0::/user.slice``."""
    out = {}
    for line in raw.splitlines():
        _, _, rest = line.partition(b":")
        controllers, _, path = rest.partition(b":")
        for name in clean_bytes(controllers).split(","):
            out[name] = clean_bytes(path)
    return out


def levels(path: str) -> Iterator[str]:
    """Yield the path of a cgroup and of its ancestors, the nearest first: "a/b", "a", "".

    Of a path with more than MOST_LEVELS cgroups, it yields the nearest and the outermost ones. It yields nothing for a
    path such as "/../job": that cgroup lies outside our cgroup namespace, so the root of the mount, which is our own
    cgroup, is not its ancestor.
    """
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        return
    lengths = range(len(parts), -1, -1)
    half = MOST_LEVELS // 2
    for length in lengths if len(lengths) <= MOST_LEVELS else (*lengths[:half], *lengths[-half:]):
        yield "/".join(parts[:length])


def common_path(paths: Iterable[str]) -> str:
    """Return the path of the nearest cgroup that contains all of these: "/a" for "/a/b" and "/a/c", or "/a" and "/a/b".

    "" for the root cgroup.
    """
    levels_of_all = zip(*(path.split("/") for path in paths), strict=False)
    return "/".join(names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels_of_all))


def unified_folder(root: Root) -> str:
    """Return the folder where cgroup v2 is mounted, alone or next to v1. Without v2, the folder does not exist."""
    return "sys/fs/cgroup" if root.exists("sys/fs/cgroup/cgroup.controllers") else "sys/fs/cgroup/unified"


class MemoryLimit(NamedTuple):
    """The memory limit of one cgroup.

    used_bytes: the memory in use, including the page cache. reclaimable_bytes: the part of it that the kernel can
    reclaim. hits: how often the limit was reached. used_bytes and hits are None when unknown.
    """

    limit_bytes: int
    used_bytes: int | None
    reclaimable_bytes: int
    hits: int | None

    @property
    def room_bytes(self) -> int:
        """The bytes that still fit if the kernel reclaims what it can; the whole limit when the use is unknown."""
        used = max(0, (self.used_bytes or 0) - self.reclaimable_bytes)
        return max(0, self.limit_bytes - used)


def tightest_memory_limit(root: Root, groups: Mapping[str, str], unified: str) -> MemoryLimit | None:
    """Return the limit that leaves the least room, among the process's cgroup and its ancestors; None without a limit.

    groups: the paths of the process's cgroups by controller. unified: the mount point of v2.

    memory.high counts like memory.max, because the kernel slows down a cgroup that exceeds memory.high.
    """
    limits = [_limit_v2(root, f"{unified}/{level}") for level in levels(groups.get("", "/"))]
    limits += [_limit_v1(root, f"sys/fs/cgroup/memory/{level}") for level in levels(groups.get("memory", "/"))]
    # Among equal limits, ``min`` returns the nearest one, about which most is known.
    return min((limit for limit in limits if limit is not None), key=lambda limit: limit.room_bytes, default=None)


def _limit_v2(root: Root, folder: str) -> MemoryLimit | None:
    maximum, high = (root.number_or_none(f"{folder}/memory.{name}") for name in ("max", "high"))
    limits = [(limit, event) for limit, event in ((maximum, b"max"), (high, b"high")) if limit is not None]
    if not limits:
        return None
    limit, event = min(limits, key=lambda pair: pair[0])
    used = root.number_or_none(f"{folder}/memory.current")
    hits = _figures(root, f"{folder}/memory.events").get(event)
    return MemoryLimit(limit, used, _reclaimable(root, f"{folder}/memory.stat", b""), hits)


def _limit_v1(root: Root, folder: str) -> MemoryLimit | None:
    limit = root.number_or_none(f"{folder}/memory.limit_in_bytes")
    if limit is None or limit >= NO_MEMORY_LIMIT:
        return None
    used, hits = (root.number_or_none(f"{folder}/memory.{name}") for name in ("usage_in_bytes", "failcnt"))
    # The limit includes the descendant cgroups, and so do the figures that begin with "total_".
    return MemoryLimit(limit, used, _reclaimable(root, f"{folder}/memory.stat", b"total_"), hits)


def _reclaimable(root: Root, relative: str, prefix: bytes) -> int:
    figures = _figures(root, relative)
    return sum(figures.get(prefix + name, 0) for name in _RECLAIMABLE)


def _figures(root: Root, relative: str) -> dict[bytes, int]:
    """Return the numbers by name from lines such as ``inactive_file 4096``; {} when the file cannot be read."""
    try:
        raw = root.read(relative, 1 << 16)
    except OSError:
        return {}
    pairs = (line.split() for line in raw.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
