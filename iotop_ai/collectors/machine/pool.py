"""Reads the counts of ZFS's cache and pools, btrfs's errors and Lustre's clients while such a filesystem is mounted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.block.counters import Mount
from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.machine.pool import ArcCounters, BtrfsErrors, PoolTable, ProgramIo
from iotop_ai.model.reading import Status

SPL = "proc/spl/kstat/zfs"
BTRFS = "sys/fs/btrfs"
LLITE = ("proc/fs/lustre/llite", "sys/kernel/debug/lustre/llite")
"""The folders of Lustre's statistics; the second is used since Lustre 2.11."""
MOST_DATASETS = 256
"""The most datasets of one pool that are read. The counts of a pool with more datasets are unknown."""
_READ_BYTES = 16_384
"""The most bytes that are read of one file."""
_DATASET_NAMES = (b"nread", b"nwritten", b"reads", b"writes")
_BTRFS_NAMES = (b"write_errs", b"read_errs", b"flush_errs", b"corruption_errs", b"generation_errs")


class MountSource(Protocol):
    """The part of MountsCollector that this module uses."""

    mounts: tuple[Mount, ...]


def parse_kstat(raw: bytes) -> dict[bytes, int]:
    """Return the numbers by name of a named kstat.

    Its lines are ``hits  4  1234`` (name, type, value), after a header line and a line of titles.
    """
    out = {}
    for line in raw.splitlines():
        words = line.split()
        if len(words) == 3 and words[2].isdigit():
            out[words[0]] = int(words[2])
    return out


def parse_pool_io(raw: bytes) -> ProgramIo | None:
    """Parse a pool's file ``io``, which counts the I/O of the pool's disks; None if it has another form.

    The second line has the titles: ``nread nwritten reads writes ...``.
    """
    lines = [line.split() for line in raw.splitlines()[1:3]]
    if len(lines) < 2 or b"nread" not in lines[0]:
        return None
    counts = {name: int(value) for name, value in zip(lines[0], lines[1], strict=False) if value.isdigit()}
    return ProgramIo(counts.get(b"nread"), counts.get(b"nwritten"), counts.get(b"reads"), counts.get(b"writes"))


def parse_llite(raw: bytes) -> ProgramIo:
    """Parse the stats file of a Lustre client.

    Its lines are ``read_bytes 4 samples [bytes] 0 4194304 12582912`` (number of samples, least, most, sum) and
    ``open 5 samples [regs]``.
    """
    counts: dict[bytes, int] = {}
    byte_sums: dict[bytes, int] = {}
    for line in raw.splitlines():
        words = line.split()
        if len(words) >= 4 and words[1].isdigit() and words[2] == b"samples":
            counts[words[0]] = int(words[1])
            if words[3] == b"[bytes]" and len(words) >= 7 and words[6].isdigit():
                byte_sums[words[0]] = int(words[6])
    # A count that is not listed is 0, unless the file lists nothing at all.
    unlisted = None if not counts and b"snapshot_time" not in raw else 0
    return ProgramIo(
        byte_sums.get(b"read_bytes", unlisted),
        byte_sums.get(b"write_bytes", unlisted),
        counts.get(b"read_bytes", unlisted),
        counts.get(b"write_bytes", unlisted),
        counts.get(b"open", unlisted),
    )


class DatasetSum:
    """The counts of a pool, summed over its datasets.

    The sum does not fall when a dataset is unmounted or mounted again.
    """

    def __init__(self) -> None:
        self._last_counts: dict[str, tuple[int, ...]] = {}
        self._sum = [0] * len(_DATASET_NAMES)

    def add(self, datasets: Mapping[str, Mapping[bytes, int]]) -> ProgramIo:
        """Add the growth of the datasets since the last call; return the sum.

        datasets: the counts of each dataset, which begin at 0 when it is mounted; {} for one that could not be read.
        """
        now: dict[str, tuple[int, ...]] = {}
        for name, dataset in datasets.items():
            before = self._last_counts.get(name, ())
            counts = now[name] = tuple(dataset.get(key, 0) for key in _DATASET_NAMES) if dataset else before
            if name in self._last_counts and not before:
                before = counts  # the dataset could not be read until now, and may have been mounted for a long time
            if any(count < old for count, old in zip(counts, before, strict=False)):
                before = ()  # the dataset was mounted again, so its counts began at 0
            for i, count in enumerate(counts):
                self._sum[i] += count - (before[i] if before else 0)
        self._last_counts = now
        return ProgramIo(*self._sum)


class PoolCollector:
    """Reads the kernel's counts of mounted ZFS pools, btrfs filesystems and Lustre clients."""

    field = "pools"
    every_s = 2.0

    def __init__(self, root: Root, mounts: MountSource) -> None:
        self._root = root
        self._mounts = mounts
        self._last_mounts: tuple[Mount, ...] | None = None
        self._pools: tuple[str, ...] = ()
        self._types: frozenset[str] = frozenset()
        self._sums: dict[str, DatasetSum] = {}

    def read(self) -> PoolTable:
        """Return the counts. Raises Unavailable when no such filesystem is mounted."""
        mounts = self._mounts.mounts
        if mounts is not self._last_mounts:
            self._last_mounts = mounts
            self._types = frozenset(mount.fstype for mount in mounts) & {"zfs", "btrfs", "lustre"}
            self._pools = tuple(dict.fromkeys(m.source.split("/")[0] for m in mounts if m.fstype == "zfs"))
            self._sums = {pool: sums for pool, sums in self._sums.items() if pool in self._pools}
        if not self._types:
            raise Unavailable(Status.ABSENT, "no ZFS, btrfs or Lustre is mounted")
        return PoolTable(
            self._arc() if "zfs" in self._types else None,
            {pool: self._pool(pool) for pool in self._pools if pool and ".." not in pool},
            self._btrfs() if "btrfs" in self._types else {},
            self._lustre() if "lustre" in self._types else {},
        )

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _raw(self, relative: str) -> bytes:
        try:
            return self._root.read_once(relative, _READ_BYTES)
        except OSError:
            return b""

    def _arc(self) -> ArcCounters:
        numbers = parse_kstat(self._raw(f"{SPL}/arcstats"))
        return ArcCounters(
            *(numbers.get(name) for name in (b"hits", b"misses", b"size", b"c_max", b"iohits", b"c_min"))
        )

    def _pool(self, pool: str) -> ProgramIo:
        names = [name for name in self._root.names(f"{SPL}/{pool}") if name.startswith("objset-")]
        if len(names) > MOST_DATASETS:
            return ProgramIo()
        if not names:
            # Before OpenZFS 0.8, only the disks of a pool have counts, and not its datasets.
            return parse_pool_io(self._raw(f"{SPL}/{pool}/io")) or ProgramIo()
        return self._sums.setdefault(pool, DatasetSum()).add(
            {name: parse_kstat(self._raw(f"{SPL}/{pool}/{name}")) for name in names}
        )

    def _btrfs(self) -> dict[str, BtrfsErrors]:
        out = {}
        for uuid in self._root.names(BTRFS):
            if "-" not in uuid:
                continue
            folder = f"{BTRFS}/{uuid}"
            files = [self._raw(f"{folder}/devinfo/{n}/error_stats") for n in self._root.names(f"{folder}/devinfo")]
            by_device = [dict(line.split(b" ", 1) for line in raw.splitlines() if b" " in line) for raw in files]
            sums = [sum(int(errors[n]) for errors in by_device if errors.get(n, b"").isdigit()) for n in _BTRFS_NAMES]
            # A file without counts belongs to a missing device (it contains "invalid") or could not be read this time.
            are_known = by_device and (any(sums) or all(by_device))
            label = clean_bytes(self._raw(f"{folder}/label").strip())
            out[clean(uuid)] = BtrfsErrors(label, *sums) if are_known else BtrfsErrors(label)
        return out

    def _lustre(self) -> dict[str, ProgramIo]:
        for folder in LLITE:
            clients = {
                clean(n): parse_llite(raw)
                for n in self._root.names(folder)
                if (raw := self._raw(f"{folder}/{n}/stats"))
            }
            if clients:
                return clients
        return {}
