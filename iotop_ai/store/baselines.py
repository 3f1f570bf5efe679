"""The read latency baselines of each disk, kept across restarts in ``baselines.json`` in the state folder, mode 0600.

``{"format": 1, "devices": {"S7X1": [1794884000, [[[1794873600, [[12, 40], [13, 9]]]], [], []]]}}``

A device's entry is keyed by its serial number. It contains the Unix time of the write in seconds and, for each of the
three size buckets of reads, a list of parts of 3 h. A part is its Unix time and a latency histogram: pairs of a bin's
index and the number of minutes in that bin. A device without a serial number is not kept, because its name may belong
to another device after a restart. Each write creates a new file and renames it over the old one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from iotop_ai.collectors.state.folder import keep_file, open_file
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.block.read_latency_baseline import BOUNDS_NS, PART_NS, PARTS, Baseline, Bins, DeviceBaseline
from iotop_ai.model.clean import clean

if TYPE_CHECKING:
    from pathlib import Path

FILE = "baselines.json"
FORMAT = 1
LONGEST_SERIAL = 200
"""The maximum number of characters of a serial number."""
MOST_DEVICES = 64
"""The maximum number of devices in the file."""
OLDEST_S = 30 * 86_400
"""Baselines written longer ago than this, in seconds, are not used, because the disk may have changed since."""
_MOST_FILE_BYTES = 4 << 20
_MOST_MINUTES = 100_000
"""The minutes in a bin must be below this number."""
_PART_S = PART_NS // 10**9


class Baselines:
    """Reads and writes the baselines file in one state folder."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = folder
        self._file = os.path.join(folder, FILE)

    def read(self, at_ns: int, wall_s: int) -> dict[str, DeviceBaseline]:
        """The baselines by serial number, with their parts numbered since this boot; {} without a file.

        Parts older than a day are treated as a day old, so that they still count in the first day of this session.
        Baselines older than OLDEST_S are left out. Raises OSError, and ValueError for a file that another user owns or
        that is not valid.

        at_ns, wall_s: the current monotonic and Unix time
        """
        out = {}
        for serial, (written_s, sizes) in self._entries().items():
            if wall_s - written_s <= OLDEST_S:
                by_size = [Baseline(_to_this_boot(parts, at_ns // PART_NS, wall_s)) for parts in sizes]
                out[serial] = DeviceBaseline(sizes=(by_size[0], by_size[1], by_size[2]))
        return out

    def keep(self, own: Mapping[str, DeviceBaseline], infos: Mapping[str, BlockInfo], at_ns: int, wall_s: int) -> bool:
        """Write this session's baselines of the present disks, and keep the stored ones of other disks. Raises OSError.

        Stored baselines older than OLDEST_S, and the oldest ones beyond MOST_DEVICES, are dropped. Returns False
        without writing if this session has no baseline of a present disk.

        own: this session's baselines by serial number
        infos: the present disks by name
        """
        serials = {info.serial for info in infos.values() if info.serial}
        own_entries = {
            serial: (wall_s, [_to_unix_time(baseline, at_ns // PART_NS, wall_s) for baseline in device.sizes])
            for serial, device in own.items()
            if serial in serials and any(baseline.minutes for baseline in device.sizes)
        }
        if not own_entries:
            return False
        try:
            stored = self._entries()
        except ValueError:  # the file cannot be used and will be replaced
            stored = {}
        kept = {serial: entry for serial, entry in stored.items() if wall_s - entry[0] <= OLDEST_S}
        newest = sorted({**kept, **own_entries}.items(), key=lambda item: item[1][0], reverse=True)[:MOST_DEVICES]
        self._write({"format": FORMAT, "devices": dict(newest)})
        return True

    def _entries(self) -> dict[str, tuple[int, list[list[tuple[int, Bins]]]]]:
        try:
            file = open_file(self._file)
        except FileNotFoundError:
            return {}
        with file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                raise ValueError("owned by another user")
            raw = file.read(_MOST_FILE_BYTES + 1)
        return parse_baselines(raw)

    def _write(self, content: Mapping[str, Any]) -> None:
        import json

        keep_file(self._folder, FILE, (json.dumps(content, separators=(",", ":")) + "\n").encode(), lasting=True)


def _to_unix_time(baseline: Baseline, current_part: int, wall_s: int) -> list[tuple[int, Bins]]:
    """The parts with Unix seconds instead of their numbers since this boot.

    current_part: the number of the current part
    """
    return [(wall_s - (current_part - part) * _PART_S, bins) for part, bins in baseline.parts]


def _to_this_boot(parts: list[tuple[int, Bins]], current_part: int, wall_s: int) -> tuple[tuple[int, Bins], ...]:
    """The parts with their numbers since this boot instead of Unix seconds, oldest first."""
    by_period: dict[int, dict[int, int]] = {}
    for part_s, bins in parts:
        age = min(max(0, (wall_s - part_s) // _PART_S), PARTS - 1)
        counts = by_period.setdefault(current_part - age, {})
        for bin_index, minutes in bins:
            counts[bin_index] = counts.get(bin_index, 0) + minutes
    return tuple((part, tuple(sorted(counts.items()))) for part, counts in sorted(by_period.items()))


def parse_baselines(raw: bytes) -> dict[str, tuple[int, list[list[tuple[int, Bins]]]]]:
    """Parse a file's content; return (Unix seconds of the write, parts by size) by serial number.

    Raises ValueError.
    """
    if len(raw) > _MOST_FILE_BYTES:
        raise ValueError("too large")
    import json

    try:
        content = json.loads(raw)
        if content["format"] != FORMAT or len(content["devices"]) > MOST_DEVICES:
            raise ValueError
        return {clean(serial, LONGEST_SERIAL): _entry(entry) for serial, entry in content["devices"].items()}
    except (RecursionError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise ValueError("not a file of this program") from None


def _entry(entry: Any) -> tuple[int, list[list[tuple[int, Bins]]]]:
    written_s, sizes = entry
    if len(sizes) != 3 or any(len(parts) > PARTS for parts in sizes):
        raise ValueError
    return _int_below(written_s, 1 << 40), [[_part(part) for part in parts] for parts in sizes]


def _part(part: Any) -> tuple[int, Bins]:
    part_s, bins = part
    if len(bins) > len(BOUNDS_NS):
        raise ValueError
    checked = tuple((_int_below(index, len(BOUNDS_NS)), _int_below(minutes, _MOST_MINUTES)) for index, minutes in bins)
    return _int_below(part_s, 1 << 40), checked


def _int_below(value: Any, below: int) -> int:
    if type(value) is not int or not 0 <= value < below:
        raise ValueError
    return value
