"""Reads the threads and wait channels of the most active processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.descriptors import STAT_SIZE, read_once
from iotop_ai.collectors.process.parse import parse_state
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.process.records import ProcessKey, ProcessStat, ThreadLook, blocked

MOST_THREADS = 64
MOST_PROCESSES = 32
MOST_WCHANS = 64


def sample_threads(
    root: Root, busy: Sequence[ProcessKey], stat: Mapping[ProcessKey, ProcessStat]
) -> dict[ProcessKey, ThreadLook]:
    """Return the thread states of the processes in ``busy`` that have several threads, at most ``MOST_PROCESSES``.

    busy: the active processes, those with the most bytes first. Of each process, the ``MOST_THREADS`` lowest thread IDs
    are read, so that two samples read the same threads. The monitor itself is left out.
    """
    own_pid = root.own_pid
    several = [key for key in busy if key.pid != own_pid and (record := stat.get(key)) and record.threads > 1]
    looks: dict[ProcessKey, ThreadLook] = {}
    for key in several[:MOST_PROCESSES]:
        folder = f"proc/{key.pid}/task"
        states: Counter[str] = Counter()
        ticks: list[tuple[int, int]] = []
        for tid in sorted(int(name) for name in root.names(folder) if name.isdecimal())[:MOST_THREADS]:
            raw = read_once(root, f"{folder}/{tid}/stat", STAT_SIZE)
            if isinstance(raw, OSError):
                continue
            try:
                state, blkio = parse_state(raw)
            except ValueError:
                continue
            states[state] += 1
            ticks.append((tid, blkio))
        if ticks:
            looks[key] = ThreadLook(tuple(states.most_common()), tuple(ticks))
    return looks


def read_wchans(
    root: Root, busy: Sequence[ProcessKey], stat: Mapping[ProcessKey, ProcessStat]
) -> dict[ProcessKey, str]:
    """Return the kernel function in which the main thread of each process sleeps.

    The processes in state D are read first, then those in ``busy``; at most ``MOST_WCHANS`` in all. A process is left
    out if the kernel reports "0": it is running, or we cannot read its wait channel.
    """
    out: dict[ProcessKey, str] = {}
    for key in list(dict.fromkeys((*blocked(stat), *busy)))[:MOST_WCHANS]:
        raw = read_once(root, f"proc/{key.pid}/wchan", 256)
        if not isinstance(raw, OSError) and raw.strip() not in (b"", b"0"):
            out[key] = clean_bytes(raw.strip(), 64)
    return out
