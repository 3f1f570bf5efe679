"""Caches in words: the cost of a drop, the running jobs, and the results of a drop, an eviction and a dataset check."""

from __future__ import annotations

from collections import Counter

from iotop_ai.model.job.records import Job
from iotop_ai.model.machine.page_cache import Cached, Effect, Evicted, Levels
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.text.line import plain
from iotop_ai.present.text.units import amount, percent, plural

COST = (
    "every job on this host is slower for a while, because it reads from the disks again; a drop is only for timing a"
    " cold start and makes nothing faster"
)
"""The sentence for users about the cost of a drop of the caches."""
WORD = "drop"
"""The word that confirms a drop."""
STEPS = {"sync": "writing out dirty pages ...", "drop": "dropping ..."}
"""The words for each step of a drop (actions/cache/drop.py) while it is in progress."""
FIRST_USER = 1000
"""The smallest uid of a person, as in login.defs; smaller uids belong to the system."""
_OVERFLOW_UID = 65534
_MOST_NAMED = 4
"""The maximum number of jobs, and of users, that are named."""


def level_text(level: int, memory: Levels) -> str:
    """The caches that are dropped by this value of vm.drop_caches, with their current sizes."""
    pages = f"page cache, {amount(memory.cached_bytes)}"
    slab = f"dentries and inodes, {amount(memory.slab_reclaimable_bytes)}"
    return {1: f"the {pages}", 2: slab}.get(level, f"the {pages}; {slab}")


def sync_text(dirty_bytes: int | None) -> str:
    """The sentence about dirty pages, which are written to the disks before a drop."""
    return f"{amount(dirty_bytes)} of dirty pages are written to the disks first."


def running_text(snapshot: Snapshot, uid: int | None) -> str:
    """The jobs and users that a drop would slow down: other users' jobs, this user's jobs, other users' processes.

    uid: this user's uid; None when unknown.
    """
    jobs = () if snapshot.jobs.value is None else tuple(snapshot.jobs.value.jobs.values())
    ordered = sorted(jobs, key=lambda job: (job.uid == uid, job.user, job.name))
    counts = Counter(_job_text(job, uid) for job in ordered)
    names = [text if count == 1 else f"{text} ({count} jobs)" for text, count in [*counts.items()][:_MOST_NAMED]]
    if len(counts) > _MOST_NAMED:
        names.append(f"{sum([*counts.values()][_MOST_NAMED:])} more")
    table = snapshot.processes.value
    infos = () if table is None else table.info.values()
    people = Counter(
        info.user for info in infos if not info.kernel and info.uid != uid and _is_named_user(info.uid, uid)
    )
    for job in jobs:
        people.pop(job.user, None)  # already named with the job
    user_texts = [f"{number} of {plain(user)}" for user, number in people.most_common(_MOST_NAMED)]
    if len(people) > _MOST_NAMED:
        user_texts.append(f"those of {plural(len(people) - _MOST_NAMED, 'more user')}")
    others = f"processes of other users: {', '.join(user_texts)}" if user_texts else ""
    hidden = "" if table is not None and table.complete else "processes of other users are not visible"
    text = "; ".join(part for part in (", ".join(names), others, hidden) if part)
    return f"running now: {text}" if text else "no training job and no other user's process is visible here"


def _is_named_user(uid: int, own_uid: int | None) -> bool:
    """Whether processes of the user ``uid`` are named: those of people, and those of root unless ``own_uid`` is 0."""
    return FIRST_USER <= uid != _OVERFLOW_UID or (uid == 0 and own_uid != 0)


def _job_text(job: Job, uid: int | None) -> str:
    ranks = f" x{len(job.ranks)}" if len(job.ranks) > 1 else ""
    label = f" ({plain(job.label)})" if job.label else ""
    return f"{'your' if job.uid == uid else plain(job.user)} {plain(job.name)}{ranks}{label}"


def effect_rows(effect: Effect) -> list[tuple[str, str, str]]:
    """(name, before, after) of each figure that a drop changes."""
    before, after = effect.before, effect.after
    return [
        ("Cached", amount(before.cached_bytes), amount(after.cached_bytes)),
        ("SReclaimable", amount(before.slab_reclaimable_bytes), amount(after.slab_reclaimable_bytes)),
        ("MemFree", amount(before.free_bytes), amount(after.free_bytes)),
    ]


def effect_text(effect: Effect) -> str:
    """The effect of a drop in one line, for the timeline of a recording."""
    changes = [f"{name} {old} -> {new}" for name, old, new in effect_rows(effect)]
    relevant = {1: (0, 2), 2: (1, 2)}.get(effect.level, (0, 1, 2))
    return f"caches dropped (level {effect.level}): " + ", ".join(changes[i] for i in relevant)


def evicted_text(eviction: Evicted) -> str:
    """The result of an eviction in one line."""
    files = f"{plural(eviction.files, 'file')} of {plain(eviction.top)}"
    if eviction.unknown_files == eviction.files and eviction.files:
        return f"evicted {files}, {amount(eviction.size_bytes)}; how much was in memory is visible only to their owner"
    left = "" if not eviction.after_bytes else f" ({amount(eviction.after_bytes)} mapped, locked or just read)"
    unknown = f"; unknown for {eviction.unknown_files} of them" if eviction.unknown_files else ""
    return (
        f"evicted {files}: {amount(eviction.before_bytes)} -> {amount(eviction.after_bytes)} in memory{left}{unknown}"
    )


def gaps_text(unreadable: int, first: str, elsewhere: int, unknown: int) -> list[str]:
    """The files that could not be examined, one sentence per line; [] if all could be.

    unreadable: the number of files that could not be opened. first: the first of them. elsewhere: the number of folders
    on other filesystems. unknown: the number of files whose page cache this user cannot see.
    """
    out = []
    if unknown:
        owner = "their owner" if unknown > 1 else "its owner"
        visibility = f"visible only to {owner} or with write permission"
        out.append(f"? {plural(unknown, 'file')}: cached part {visibility}; use sudo")
    if unreadable:
        out.append(f"? {plural(unreadable, 'file')} could not be opened, the first: {plain(first)}")
    if elsewhere:
        out.append(f"{plural(elsewhere, 'folder')} on other filesystems left out")
    return out


def fits_in_memory(dataset: Cached, room_bytes: int | None) -> bool | None:
    """Whether the dataset fits in memory; None when unknown."""
    if room_bytes is None or (dataset.unreadable and dataset.size_bytes <= room_bytes):
        return None
    return dataset.size_bytes <= room_bytes


def cached_text(dataset: Cached, room_bytes: int | None) -> list[str]:
    """The dataset, and whether it fits in the available memory, one sentence per line."""
    share = dataset.resident_ratio
    out = [f"{plain(dataset.top)}: {plural(dataset.files, 'file')}, {amount(dataset.size_bytes)}"]
    if share is not None:
        out.append(f"in memory: {percent(share)} % ({amount(dataset.resident_bytes)})")
    if room_bytes is None:
        out.append("? available memory is unknown")
    elif dataset.size_bytes <= room_bytes:
        left = amount(max(0, dataset.size_bytes - dataset.resident_bytes))
        most = "at most " if dataset.unknown_files else ""
        fits = "? without the unreadable files it fits" if dataset.unreadable else "fits"
        out.append(
            f"{fits}: {amount(room_bytes)} of memory is available; {most}{left} must still be read from storage once"
        )
    else:
        part = percent(room_bytes / dataset.size_bytes)
        out.append(
            f"does not fit: {amount(room_bytes)} of memory is available, {part} % of the dataset's size;"
            " each pass in random order reads part of it from the disk"
        )
    return out + gaps_text(dataset.unreadable, dataset.first_unreadable, dataset.elsewhere, dataset.unknown_files)


def took_text(effect: Effect) -> str:
    """The duration of a drop and of the sync before it."""
    return f"in {effect.drop_s:.1f} s, after {effect.sync_s:.1f} s of writing out"
