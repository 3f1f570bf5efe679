"""Drop the kernel's caches: for timing a cold start, never to make anything faster.

vm.drop_caches: 1 the page cache, 2 dentries and inodes, 3 both; only what is clean goes, so everything is written out
first. Source: https://docs.kernel.org/admin-guide/sysctl/vm.html. What shows the effect is Cached and MemFree:
MemAvailable counts what is cached as free already and hardly moves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.kernel import DROP_CACHES, set_switch
from iotop_ai.actions.outcome import Outcome, audited
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.pagecache import read_levels
from iotop_ai.collectors.root import Root
from iotop_ai.collectors.state_folder import keep_file, state_folder
from iotop_ai.model.pagecache import CACHES, Effect, Levels

LEAST_S = 60.0
"""Between two drops of one user: dropping again and again would slow every job for as long as it goes on."""
STAMP = "drop-caches.json"


class Dropped(NamedTuple):
    """What came of it; effect None when nothing was dropped."""

    outcome: Outcome
    effect: Effect | None = None


def drop_caches(
    level: int,
    root: Root,
    clock: Clock,
    audit: Audit,
    tell: Callable[[str], None] = lambda _: None,
    folder: Path | None = None,
    sync: Callable[[], None] = os.sync,
) -> Dropped:
    """Write everything out, then drop; blocks as long as the disks need. Nothing is raised.

    tell: called with "sync", then "drop". folder: where the time of the last drop is kept.
    """
    effects: list[Effect] = []
    folder = folder or state_folder()

    def act() -> Outcome:
        if level not in CACHES:
            return Outcome(False, f"there is no level {level}: 1, 2 or 3")
        wait = wait_s(root, clock, folder)
        if wait > 0:
            text = f"not done: dropped {LEAST_S - wait:.0f} s ago, once a minute is enough"
            return Outcome(False, text, f"again in {wait:.0f} s")
        tell("sync")
        begun = clock.monotonic_ns()
        sync()
        synced = clock.monotonic_ns()
        before = read_levels(root)
        tell("drop")
        why, remedy = set_switch(DROP_CACHES, str(level), root)
        if why:
            return Outcome(False, f"not done: {why}", remedy)
        after = read_levels(root)
        effects.append(Effect(level, before, after, (synced - begun) / 1e9, (clock.monotonic_ns() - synced) / 1e9))
        _stamp(root, clock, folder)
        return Outcome(True, f"{CACHES[level]} dropped: {_bytes(before)} -> {_bytes(after)}")

    def safely() -> Outcome:
        try:
            return act()
        except OSError as error:
            return Outcome(False, f"not done: {error.filename or 'the kernel'}: {error.strerror}")

    outcome = audited(audit, "drop-caches", f"level {level}: {CACHES.get(level, '?')}", safely)
    return Dropped(outcome, effects[0] if effects else None)


def _bytes(levels: Levels) -> str:
    known = (("Cached", levels.cached_bytes), ("SReclaimable", levels.slab_reclaimable_bytes))
    return ", ".join(f"{name} {value}" for name, value in known if value is not None)


def wait_s(root: Root, clock: Clock, folder: Path | None = None) -> float:
    """Seconds until this user may drop again; 0.0 at once."""
    try:
        kept = json.loads(((folder or state_folder()) / STAMP).read_text())
        boot, at_ns = str(kept["boot_id"]), int(kept["at_ns"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0
    gone_s = (clock.monotonic_ns() - at_ns) / 1e9
    return max(0.0, LEAST_S - gone_s) if boot == _boot(root) and gone_s >= 0 else 0.0


def _stamp(root: Root, clock: Clock, folder: Path) -> None:
    text = json.dumps({"boot_id": _boot(root), "at_ns": clock.monotonic_ns()}) + "\n"
    keep_file(folder, STAMP, text.encode())


def _boot(root: Root) -> str:
    return root.text_or("proc/sys/kernel/random/boot_id")
