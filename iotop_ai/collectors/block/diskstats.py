"""Reads /proc/diskstats in each tick. While the list of devices stays the same, only changed lines are parsed."""

from __future__ import annotations

from collections.abc import Container

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.model.block.counters import BlockCounters, BlockKey
from iotop_ai.model.clean import clean_bytes

MOST_KEPT_FILES = 256
"""The maximum number of diskseq files that are kept open, for active disks. Others are opened when they are read."""
_DIGITS = "0123456789"
_IN_FLIGHT = BlockCounters._fields.index("in_flight")
_UNDERFLOW_START = 1 << 31
"""An unsigned 32-bit count of this value or more has fallen below 0."""


def disk_of(name: str, names: Container[str]) -> str:
    """Return the disk that a partition belongs to; "" for a whole device.

    By the kernel's naming rule (block/genhd.c disk_name), a disk whose name ends in a digit has partitions
    "<disk>p<n>", and any other disk has partitions "<disk><n>". The disk must also be in ``names``.
    """
    stem = name.rstrip(_DIGITS)
    if stem == name:
        return ""
    disk = stem[:-1] if stem[-1:] == "p" and stem[-2:-1] in _DIGITS and len(stem) > 1 else stem
    return disk if disk in names else ""


def parse_line(line: bytes) -> tuple[int, int, str, BlockCounters] | None:
    """Return (major, minor, name, counters) of a line; None for a line that is incomplete or malformed.

    Sample: `` 254       0 vda 32443 9626 2122210 4852 8818 14773 1892664 3423 0 3600 8578 3971 51 90360 243 1530 58``.
    Lines have 14 columns before Linux 4.18, 18 from 4.18 to 5.4, and 20 since 5.5; further columns are ignored. Before
    2.6.25, the line of a partition has 7 columns without times, and such lines are left out. Some drivers decrement the
    count of requests in flight once too often; a count below 0 (printed as 4294967295) becomes None.
    Source: block/genhd.c diskstats_show.
    """
    fields = line.split()
    count = len(fields)
    columns = 17 if count >= 20 else 15 if count >= 18 else 11
    if count < 14:
        return None
    try:
        major, minor = int(fields[0]), int(fields[1])
        numbers = [*map(int, fields[3 : 3 + columns])]
    except ValueError:
        return None
    in_flight = numbers[_IN_FLIGHT] if 0 <= numbers[_IN_FLIGHT] < _UNDERFLOW_START else None
    numbers[_IN_FLIGHT] = 0
    if min(numbers) < 0:
        return None
    return major, minor, clean_bytes(fields[2]), BlockCounters(*numbers)._replace(in_flight=in_flight)


class BlockCollector:
    """Reads the counters of every block device and partition, in the order of the file.

    generation: a number that grows whenever a device is added, removed or replaced under the same name. numbers:
    (major, minor) by kernel name at the newest read. changed: the names of the devices whose line is new or changed in
    that read; none at the first read.
    """

    field = "block"
    every_s = 0.0

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._at_ns: int | None = None
        self._file: KeptFile | None = None
        self._raw = b""
        self._lines: list[bytes] = []
        self._keys: list[BlockKey | None] = []
        """The key of the device in each of ``_lines``; None for a line that is incomplete or malformed."""
        self._table: dict[BlockKey, BlockCounters] = {}
        self._disks: dict[str, str] = {}
        self._kept: dict[str, KeptFile] = {}
        self._without_diskseq: set[str] = set()
        self.generation = 0
        self.numbers: dict[str, tuple[int, int]] = {}
        self.changed: frozenset[str] = frozenset()

    def read(self) -> dict[BlockKey, BlockCounters]:
        """Return the counters. A record that did not change is the same object as before.

        Raises OSError when /proc/diskstats cannot be read.
        """
        if self._file is None:
            self._file = self._root.keep("proc/diskstats")
        raw = self._file.read()
        self._at_ns = self._clock.monotonic_ns()
        if raw == self._raw:
            self.changed = frozenset()
            return self._table
        lines = raw.split(b"\n")
        if not self._update(lines):
            self._rebuild(lines)
        self._raw, self._lines = raw, lines
        return self._table

    def at_ns(self) -> int | None:
        """Return when the kernel printed the newest table; None before the first read."""
        return self._at_ns

    @property
    def keys(self) -> tuple[BlockKey, ...]:
        """The identities of the devices at the newest read, in the order of the file."""
        return tuple(self._table)

    def _update(self, lines: list[bytes]) -> bool:
        """Parse only the lines that changed; return False when devices were added, removed or replaced."""
        if len(lines) != len(self._lines):
            return False
        changed: dict[BlockKey, BlockCounters] = {}
        diskseqs: dict[str, int] = {}
        for line, old, key in zip(lines, self._lines, self._keys, strict=True):
            if line == old:
                continue
            parsed = parse_line(line)
            if parsed is None or key is None or parsed[2] != key.name or parsed[:2] != self.numbers[key.name]:
                return False
            disk = self._disks[key.name]
            if disk not in diskseqs:
                diskseqs[disk] = self._diskseq(disk, keep=True)
            if diskseqs[disk] != key.diskseq:
                return False
            changed[key] = parsed[3]
        table = self._table.copy()
        table.update(changed)
        self._table = table
        self.changed = frozenset(key.name for key in changed)
        return True

    def _rebuild(self, lines: list[bytes]) -> None:
        """Parse all lines and give each device its key. A device whose line and key are the same keeps its record."""
        old_keys = {line: key for line, key in zip(self._lines, self._keys, strict=True) if key is not None}
        parsed = [parse_line(line) for line in lines]
        self.numbers = {entry[2]: entry[:2] for entry in parsed if entry is not None}
        names = frozenset(self.numbers)
        self._disks = {name: disk_of(name, names) or name for name in names}
        self._without_diskseq &= names
        diskseqs: dict[str, int] = {}
        table: dict[BlockKey, BlockCounters] = {}
        keys: list[BlockKey | None] = []
        for line, entry in zip(lines, parsed, strict=True):
            if entry is None:
                keys.append(None)
                continue
            name, counters = entry[2], entry[3]
            disk = self._disks[name]
            if disk not in diskseqs:
                diskseqs[disk] = self._diskseq(disk, keep=False)
            key = BlockKey(name, diskseqs[disk])
            unchanged = self._table.get(key) if old_keys.get(line) == key else None
            table[key] = unchanged or counters
            keys.append(key)
        if table.keys() != self._table.keys():
            self.generation += 1
        for name in self._kept.keys() - names:
            self._kept.pop(name).close()
        changed = (key.name for key, counters in table.items() if self._table.get(key) is not counters)
        self.changed = frozenset(changed if self._table else ())
        self._table, self._keys = table, keys

    def _diskseq(self, disk: str, keep: bool) -> int:
        """Return the number in /sys/block/DISK/diskseq, which the kernel gives to only one disk in each boot.

        Returns 0 if it cannot be read, as before Linux 5.15; if too many files are open, the previous number. keep:
        whether to keep the file open, because the disk does I/O.
        """
        kept = self._kept.get(disk)
        if kept is not None:
            try:
                return int(kept.read_record())
            except (OSError, ValueError):
                # ENODEV means that the device was removed. Another device may have the same name by now.
                self._kept.pop(disk).close()
        if disk in self._without_diskseq:
            return 0
        path = f"sys/block/{disk.replace('/', '!')}"
        try:
            file = self._root.keep(path + "/diskseq", 64)
        except (FileNotFoundError, PermissionError):
            if self._root.exists(path):
                self._without_diskseq.add(disk)
            return 0
        except OSError:
            # An error such as too many open files does not mean a replaced disk; a failed read of a kept file does.
            return 0 if kept is not None else next((key.diskseq for key in self._table if key.name == disk), 0)
        try:
            number = int(file.read_record())
        except (OSError, ValueError):
            file.close()
            return 0
        if keep and len(self._kept) < MOST_KEPT_FILES:
            self._kept[disk] = file
        else:
            file.close()
        return number

    def close(self) -> None:
        """Close the descriptors; a later read opens them again."""
        for file in (self._file, *self._kept.values()):
            if file is not None:
                file.close()
        self._file = None
        self._kept.clear()
