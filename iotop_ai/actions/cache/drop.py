"""Drops the kernel's caches. This is for timing a cold start; it never makes anything faster.

The values of vm.drop_caches are 1 for the page cache, 2 for dentries and inodes, and 3 for both. The kernel drops only
clean pages, so we sync first. Source: https://docs.kernel.org/admin-guide/sysctl/vm.html. In /proc/meminfo, Cached and
MemFree show the effect. MemAvailable hardly changes, because it counts cached memory as available.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.kernel_switch import DROP_CACHES, set_switch
from iotop_ai.actions.outcome import Outcome, audited
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.page_cache import read_levels
from iotop_ai.collectors.state.folder import keep_file, read_file, state_folder
from iotop_ai.model.machine.page_cache import CACHES, Effect, Levels

MIN_INTERVAL_S = 60.0
"""The minimum time between two drops by one user, in seconds. Repeated drops would slow every job."""
STAMP = "drop-caches.json"
"""The stamp: a file in the state folder with the boot id and the monotonic time of the last drop."""
STAMP_BYTES = 512
"""Several times the size of the longest stamp. A longer file is not a stamp."""


class Dropped(NamedTuple):
    """The outcome of a drop. effect: what the drop changed; None when nothing was dropped."""

    outcome: Outcome
    effect: Effect | None = None


def drop_caches(
    level: int,
    root: Root,
    clock: Clock,
    audit: Audit,
    on_step: Callable[[str], None] = lambda _: None,
    folder: Path | None = None,
    sync: Callable[[], None] = os.sync,
) -> Dropped:
    """Sync, then drop the caches, unless this user's last drop was less than MIN_INTERVAL_S ago.

    Blocks until the disks have written all dirty data. An OSError is reported in the outcome, not raised.

    level: the value for vm.drop_caches. on_step: called with "sync", then with "drop". folder: the folder of the stamp;
    None for the state folder. sync: writes out all dirty data.
    """
    effects: list[Effect] = []
    folder = folder or state_folder()

    def act() -> Outcome:
        if level not in CACHES:
            return Outcome(False, f"level {level} does not exist; choose 1, 2 or 3")
        wait = wait_s(root, clock, folder)
        if wait > 0:
            text = f"not done: the last drop was {MIN_INTERVAL_S - wait:.0f} s ago, and the limit is one drop a minute"
            return Outcome(False, text, f"wait {wait:.0f} s")
        # The sync may take long. The stamp is written before the sync, so that a second drop is refused meanwhile.
        stamp_error = _stamp(root, clock, folder)
        try:
            on_step("sync")
            start_ns = clock.monotonic_ns()
            sync()
            synced_ns = clock.monotonic_ns()
            before = read_levels(root)
            on_step("drop")
        except BaseException:  # nothing is dropped, for example because of Ctrl-C during the sync
            _remove_stamp(folder)
            raise
        why, remedy = set_switch(DROP_CACHES, str(level), root)
        if why:
            _remove_stamp(folder)
            return Outcome(False, f"not done: {why}", remedy)
        after = read_levels(root)
        effects.append(
            Effect(level, before, after, (synced_ns - start_ns) / 1e9, (clock.monotonic_ns() - synced_ns) / 1e9)
        )
        return Outcome(True, f"{CACHES[level]} dropped: {_levels_text(before)} -> {_levels_text(after)}{stamp_error}")

    def act_without_raising() -> Outcome:
        try:
            return act()
        except OSError as error:
            return Outcome(False, f"not done: {error.filename or 'the kernel'}: {error.strerror}")

    outcome = audited(audit, "drop-caches", f"level {level}: {CACHES.get(level, '?')}", act_without_raising)
    return Dropped(outcome, effects[0] if effects else None)


def _levels_text(levels: Levels) -> str:
    """Return the size of each cache that is known: "Cached 716800 B, SReclaimable 5120 B"."""
    values = (("Cached", levels.cached_bytes), ("SReclaimable", levels.slab_reclaimable_bytes))
    return ", ".join(f"{name} {value} B" for name, value in values if value is not None)


def wait_s(root: Root, clock: Clock, folder: Path | None = None) -> float:
    """Return the seconds until this user can drop caches again; 0.0 if a drop is possible now."""
    try:
        stamp = json.loads(read_file(folder or state_folder(), STAMP, STAMP_BYTES))
        boot, at_ns = str(stamp["boot_id"]), int(stamp["at_ns"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return 0.0
    elapsed_s = (clock.monotonic_ns() - at_ns) / 1e9
    return max(0.0, MIN_INTERVAL_S - elapsed_s) if boot == _boot_id(root) and elapsed_s >= 0 else 0.0


def _stamp(root: Root, clock: Clock, folder: Path) -> str:
    """Write the stamp. Return a clause for the outcome's text if the stamp cannot be written, else ""."""
    text = json.dumps({"boot_id": _boot_id(root), "at_ns": clock.monotonic_ns()}) + "\n"
    try:
        keep_file(folder, STAMP, text.encode())
    except OSError as error:
        return f"; the time of this drop cannot be stored in {folder}: {error.strerror}"
    return ""


def _remove_stamp(folder: Path) -> None:
    with contextlib.suppress(OSError):  # if the stamp stays, the next drop is refused for a minute
        os.unlink(folder / STAMP)


def _boot_id(root: Root) -> str:
    return root.text_or("proc/sys/kernel/random/boot_id")
