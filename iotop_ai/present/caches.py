"""Caches in words: what a drop costs, who is running, what a drop, an eviction or a look at a dataset found."""

from __future__ import annotations

from collections import Counter

from iotop_ai.model.job import Job
from iotop_ai.model.pagecache import Cached, Effect, Evicted, Levels
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.line import plain
from iotop_ai.present.units import amount, counted, percent

COST = (
    "every job on this host reads from its disks again, slower for a while; it is for timing a cold start and makes"
    " nothing faster"
)
WORD = "drop"
"""What confirms it."""
STEPS = {"sync": "writing out what is dirty ...", "drop": "dropping ..."}
"""How far it is, in the words of actions/drop_caches.py."""
FIRST_USER = 1000
"""From this uid on a user is a person, as in login.defs."""
_MOST_NAMED = 4


def level_text(level: int, levels: Levels) -> str:
    """What a level would drop, with how much of it there is now."""
    pages, slab = f"page cache, {amount(levels.cached_bytes)}", f"{amount(levels.slab_reclaimable_bytes)}"
    slab = f"dentries and inodes, {slab}"
    return {1: f"the {pages}", 2: slab}.get(level, f"the {pages}; {slab}")


def sync_text(dirty_bytes: int | None) -> str:
    """That what is dirty is written out first."""
    return f"{amount(dirty_bytes)} not yet written go to the disks first."


def who_runs(snapshot: Snapshot, uid: int | None) -> str:
    """Whose work a drop would slow: training jobs, others' first, then how many other people have processes here."""
    jobs = () if snapshot.jobs.value is None else tuple(snapshot.jobs.value.jobs.values())
    ordered = sorted(jobs, key=lambda job: (job.uid == uid, job.user, job.name))
    alike = Counter(_job(job, uid) for job in ordered)
    named = [text if count == 1 else f"{text} ({count} jobs)" for text, count in [*alike.items()][:_MOST_NAMED]]
    if len(alike) > _MOST_NAMED:
        named.append(f"{sum([*alike.values()][_MOST_NAMED:])} more")
    table = snapshot.processes.value
    infos = () if table is None else table.info.values()
    people = {info.user for info in infos if info.uid >= FIRST_USER and info.uid not in (uid, 65534)}
    people -= {job.user for job in jobs}
    others = f"{counted(len(people), 'other user')} with processes" if people else ""
    hidden = "" if table is not None and table.complete else "others' processes cannot be seen"
    told = "; ".join(part for part in (", ".join(named), others, hidden) if part)
    return f"running now: {told}" if told else "no training job and nobody else's processes are seen here"


def _job(job: Job, uid: int | None) -> str:
    ranks = f" x{len(job.ranks)}" if len(job.ranks) > 1 else ""
    label = f" ({plain(job.label)})" if job.label else ""
    return f"{'your' if job.uid == uid else plain(job.user)} {plain(job.name)}{ranks}{label}"


def effect_rows(effect: Effect) -> list[tuple[str, str, str]]:
    """(name, before, after), the figures that move."""
    before, after = effect.before, effect.after
    return [
        ("Cached", amount(before.cached_bytes), amount(after.cached_bytes)),
        ("SReclaimable", amount(before.slab_reclaimable_bytes), amount(after.slab_reclaimable_bytes)),
        ("MemFree", amount(before.free_bytes), amount(after.free_bytes)),
    ]


def effect_text(effect: Effect) -> str:
    """In one line, for the time line of a recording."""
    told = [f"{name} {old} -> {new}" for name, old, new in effect_rows(effect)]
    kept = {1: (0, 2), 2: (1, 2)}.get(effect.level, (0, 1, 2))
    return f"caches dropped (level {effect.level}): " + ", ".join(told[i] for i in kept)


def evicted_text(done: Evicted) -> str:
    """In one line."""
    files = f"{counted(done.files, 'file')} of {plain(done.top)}"
    if done.unknown_files == done.files and done.files:
        return f"evicted {files}, {amount(done.size_bytes)}; how much was in memory is told to their owner only"
    left = "" if not done.after_bytes else f" ({amount(done.after_bytes)} mapped, locked or just read)"
    return f"evicted {files}: {amount(done.before_bytes)} -> {amount(done.after_bytes)} in memory{left}"


def lacks_text(unreadable: int, first: str, elsewhere: int, unknown: int) -> list[str]:
    """What could not be looked at; [] when all could."""
    out = []
    if unknown:
        owner = "their owner" if unknown > 1 else "its owner"
        out.append(f"? {counted(unknown, 'file')}: told only to {owner} or who may write: sudo shows it")
    if unreadable:
        out.append(f"? {unreadable} could not be opened, the first: {plain(first)}")
    if elsewhere:
        out.append(f"{counted(elsewhere, 'folder')} on other filesystems left out")
    return out


def fits(found: Cached, room_bytes: int | None) -> bool | None:
    """Whether the dataset fits into memory; None unknown."""
    return None if room_bytes is None or found.unreadable else found.size_bytes <= room_bytes


def cached_text(found: Cached, room_bytes: int | None) -> list[str]:
    """The dataset against memory, a sentence a line."""
    share = found.resident_ratio
    out = [f"{plain(found.top)}: {counted(found.files, 'file')}, {amount(found.size_bytes)}"]
    if share is not None:
        out.append(f"in memory: {percent(share)} % ({amount(found.resident_bytes)})")
    if room_bytes is None:
        out.append("? how much memory is available is not known")
    elif found.size_bytes <= room_bytes:
        left = amount(max(0, found.size_bytes - found.resident_bytes))
        out.append(f"fits: {amount(room_bytes)} of memory are available; {left} are still to be read once")
    else:
        part = percent(room_bytes / found.size_bytes)
        out.append(
            f"does not fit: {amount(room_bytes)} of memory are available, {part} % of it; read again and again in"
            " random order it comes from the disk mostly"
        )
    return out + lacks_text(found.unreadable, found.first_unreadable, found.elsewhere, found.unknown_files)


def took_text(effect: Effect) -> str:
    """How long it took."""
    return f"in {effect.drop_s:.1f} s, after {effect.sync_s:.1f} s of writing out"
