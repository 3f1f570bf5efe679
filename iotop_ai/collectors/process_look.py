"""A closer look at the few processes that moved: their threads and what they wait in."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from iotop_ai.collectors.process_parse import parse_state
from iotop_ai.collectors.process_slot import STAT_SIZE, read_once
from iotop_ai.collectors.root import Root
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.process import ProcessKey, ProcessStat, ThreadLook, blocked

MOST_THREADS = 64
MOST_PROCESSES = 32
MOST_WCHANS = 64


def look_at_threads(
    root: Root, busy: Sequence[ProcessKey], stat: Mapping[ProcessKey, ProcessStat]
) -> dict[ProcessKey, ThreadLook]:
    """Threads of the processes in ``busy`` (most bytes first) that have more than one.

    At most ``MOST_PROCESSES``, and of each its ``MOST_THREADS`` lowest thread ids, so that two looks see the same.
    The monitor itself is left out: a look at it would be its own doing.
    """
    own = os.getpid() if root.live else -1
    several = [key for key in busy if key.pid != own and (record := stat.get(key)) and record.threads > 1]
    looks: dict[ProcessKey, ThreadLook] = {}
    for key in several[:MOST_PROCESSES]:
        here = f"proc/{key.pid}/task"
        states: Counter[str] = Counter()
        ticks: list[tuple[int, int]] = []
        for tid in sorted(int(name) for name in root.names(here) if name.isdecimal())[:MOST_THREADS]:
            raw = read_once(root, f"{here}/{tid}/stat", STAT_SIZE)
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


def look_at_wchan(
    root: Root, busy: Sequence[ProcessKey], stat: Mapping[ProcessKey, ProcessStat]
) -> dict[ProcessKey, str]:
    """Kernel function that the main thread sleeps in, of processes in state D and then of those in ``busy``.

    "0" says running or not permitted; such processes are left out. At most ``MOST_WCHANS`` are asked.
    """
    out: dict[ProcessKey, str] = {}
    for key in list(dict.fromkeys((*blocked(stat), *busy)))[:MOST_WCHANS]:
        raw = read_once(root, f"proc/{key.pid}/wchan", 256)
        if not isinstance(raw, OSError) and raw.strip() not in (b"", b"0"):
            out[key] = clean_bytes(raw.strip(), 64)
    return out
