"""A comparison in one sentence: "3.1x faster: waiting for data 71 % -> 9 %, because r_await of sda fell ..."."""

from __future__ import annotations

from math import log

from iotop_ai.export.compare.comparison import (
    DATA_WAIT,
    GPU_BUSY,
    GPU_CLOCK,
    GPU_THROTTLED,
    JOB_DISK,
    STEPS,
    TIME,
    Change,
    Comparison,
    least_window_s,
    listed_changes,
)
from iotop_ai.export.report import words
from iotop_ai.model.gpu.activity import IDLE
from iotop_ai.model.job.time_shares import DATA, LOST
from iotop_ai.present.job.time_words import Part
from iotop_ai.present.text.units import brief, figure, percent, plural, rate
from iotop_ai.present.verdict.advice import milliseconds

_LEAST_READ_RATIO = 0.1
"""A run counts as not reading from a disk if its read rate is below this part of the other run's rate."""
_FULL = 0.95
"""CPUs that are busy for at least this part of the time are full."""
_LEAST_CAUSE_CHANGE = 0.5
"""A disk's await or rate is a cause only if it changed by at least this part of the larger value."""
_LEAST_CLOCK_PART = 0.5
"""The clock of the GPUs is a cause only if it changed by at least this part of the change of the speed."""
_LEAST_THROTTLED = 0.1
"""The least share of the time in which GPUs must be slowed in the slower run to be mentioned."""
_SIDE_UNITS = ("celsius", "W")
"""The units of figures that follow from others: a sentence about equal runs does not name them."""
_LEAST_FACTOR = 1.5
"""The least factor between two rates that is given as a factor. Below it, a factor of two digits is too coarse."""
_MOST_NAMED = 3
"""The most figures that a sentence names."""


def sentence(comparison: Comparison) -> str:
    """The result of the comparison. It claims only differences that are clear."""
    result = outcome(comparison)
    if result is None:
        return f"{_unknown_words(comparison)}; {_verdicts(comparison)}"
    if result.interval is None:
        least_s = least_window_s(comparison.before, comparison.after)
        if all(window.seconds >= least_s for window in comparison.windows):
            return f"Cannot tell: too few values of {result.title} are known in one of the runs ({_pair(result)})"
        needed = f"each run needs {least_s:.0f} s or more"
        return f"Cannot tell: the runs are too short for a comparison, {needed} ({_pair(result)})"
    if not result.clear:
        figures = ", ".join(filter(None, (_pair(result), interval_text(result))))
        return f"No clear difference: {figures}{_clear_elsewhere(comparison)}"
    reason = _reason(comparison)
    return f"{_outcome_words(result)}{': ' + reason if reason else ''}"


def _unknown_words(comparison: Comparison) -> str:
    """Why it is unknown which run is faster. The text begins with the wait for data, if it is known for both runs.

    This wait is known only for a whole run. It is known even if the other shares of the time were not counted.
    """
    stories = (comparison.before, comparison.after)
    waits = [story.data_stall_ratio for story in stories if story.jobs and story.data_stall_ratio is not None]
    if len(waits) < len(stories) or comparison.aligned_by != TIME:
        return "Cannot tell which is faster: neither steps nor where the time went is recorded in both runs"
    before, after = (value_text(wait, "ratio") for wait in waits)
    unknown = "cannot tell which is faster, because neither steps nor computing time is recorded in both runs"
    return f"Waiting for data {before} -> {after} of the time; {unknown}"


def _verdicts(comparison: Comparison) -> str:
    """The verdicts of both runs, which are known even if no figure tells which run is faster."""
    before, after = (words.verdict_name(story) for story in (comparison.before, comparison.after))
    return f"both runs are {after}" if before == after else f"verdict {before} -> {after}"


def outcome(comparison: Comparison) -> Change | None:
    """The figure that decides which run is better: steps per second, else the share of time spent computing.

    None if neither is known in both runs.
    """
    for name in (STEPS, "compute"):
        change = comparison.change(name)
        if change is not None and change.difference is not None:
            return change
    return None


def _clear_elsewhere(comparison: Comparison) -> str:
    """The figures that changed clearly although the outcome did not: "; clear elsewhere: vda written +269 %"."""
    # The figures with this prefix are left out, because they are the same as those of the job's disk.
    job_disk_prefix = f"disks.{comparison.job_disks[0]}." if comparison.same_disk else None
    clear = [
        change
        for change in listed_changes(comparison.changes)
        if change.clear
        and change.unit not in _SIDE_UNITS
        and not (job_disk_prefix and change.name.startswith(job_disk_prefix))
    ]
    if not clear:
        return ""
    texts = [f"{change.title.replace(': ', ' ')} {_change_words(change)}" for change in clear[:_MOST_NAMED]]
    more = f" and {len(clear) - _MOST_NAMED} more" if len(clear) > _MOST_NAMED else ""
    return f"; clear elsewhere: {', '.join(texts)}{more}"


def _change_words(change: Change) -> str:
    return _pair(change, name=False) if change.relative is None else change_text(change)


def _outcome_words(change: Change) -> str:
    """The outcome in words, such as "3.1x faster", "25 % slower", or "The second run computes for more of its time,
    40 % -> 71 %".
    """
    assert change.before is not None
    assert change.after is not None
    if change.name == STEPS:
        faster = change.after > change.before
        return f"{_amount(change.before, change.after)} {'faster' if faster else 'slower'} ({_pair(change)})"
    amount = "more" if change.after > change.before else "less"
    return f"The second run computes for {amount} of its time, {_pair(change, name=False)}"


def _amount(before: float, after: float) -> str:
    """By how much a rate differs: "25 %" of the rate before, or from _LEAST_FACTOR on "1.7x"."""
    smaller, larger = sorted((before, after))
    if smaller <= 0:
        return "many times"
    if larger < _LEAST_FACTOR * smaller:
        return f"{100 * (larger - smaller) / before:.0f} %"
    return f"{larger / smaller:{'.2g' if larger < 10 * smaller else '.0f'}}x"


def _pair(change: Change, name: bool = True) -> str:
    """The figure before and after, such as "without data 71 % -> 9 %"."""
    if change.name == STEPS:
        return f"{words.step_rate(change.before)} -> {words.step_rate(change.after)} steps/s"
    values = f"{value_text(change.before, change.unit)} -> {value_text(change.after, change.unit)}"
    return f"{change.title} {values}" if name else values


def value_text(value: float | None, unit: str) -> str:
    """A value with its unit; "-" if it is unknown or undefined."""
    if value is None:
        return "-"
    if unit == "ratio":
        return f"{percent(value)} %"
    if unit == "B/s":
        return " ".join(rate(value))
    if unit == "ms":
        return f"{milliseconds(value)} ms"
    if unit == "celsius":
        return f"{brief(value)} C"
    return words.step_rate(value) if unit == "1/s" else f"{figure(value)} {unit}".rstrip()


def change_text(change: Change) -> str:
    """The change as text: "+210 %", or for a share "-62 points"; "-" if unknown."""
    if change.relative is None:
        return "-"
    return f"{_signed(100 * change.relative)}{' points' if change.unit == 'ratio' else ' %'}"


def _signed(value: float) -> str:
    """The value as a whole number with its sign; 0 has no sign."""
    return f"{value:+z.0f}".replace("+0", "0") if abs(value) < 1 else f"{value:+.0f}"


def interval_text(change: Change) -> str:
    """The 95 % interval of a change: "-2 to +5 %", or for a share "-2 to +5 points"; "" if unknown."""
    if change.interval is None:
        return ""
    scale = 1.0 if change.unit == "ratio" else change.before
    if not scale:
        return ""
    # The value before is uncertain too, so the interval may extend below -100 %; but no figure falls by more.
    low, high = (max(-100.0, 100 * edge / scale) for edge in change.interval)
    sign = " points" if change.unit == "ratio" else " %"
    return f"{_signed(low)} to {_signed(high)}{sign}"


def _reason(comparison: Comparison) -> str:
    """The share of time that explains the outcome, with its cause if a cause is visible; else how the GPUs changed.

    "" if neither explains it.
    """
    share = _explaining_share(comparison)
    if share is None:
        return _gpu_reason(comparison)
    name = "waiting for data" if share.name == DATA_WAIT else Part(share.name, 0.0, "").short_name
    cause = _cause(comparison, share)
    return f"{name} {_pair(share, name=False)}{', because ' + cause if cause else ''}"


def _gpu_reason(comparison: Comparison) -> str:
    """How the GPUs changed, if it explains why the job makes more or fewer steps: another model, or another clock.

    "" for a job without a GPU.
    """
    steps, stories = comparison.change(STEPS), (comparison.before, comparison.after)
    if steps is None or not steps.clear or any(s.main_job is not None and not s.main_job.gpus for s in stories):
        return ""
    before, after = (
        sorted({gpu.name for gpu in story.gpus if gpu.name and gpu.busy is not None and gpu.busy.mean >= IDLE})
        for story in stories
    )
    if before and after and before != after:
        return f"it runs on {' and '.join(after)} instead of {' and '.join(before)}"
    return _clock_reason(comparison, steps)


def _clock_reason(comparison: Comparison, steps: Change) -> str:
    """How the clock of the busy GPUs changed, if it explains the change of the steps; else "".

    Both changes are compared as ratios, so that the two runs can be exchanged.
    """
    clock, busy = comparison.change(GPU_CLOCK), comparison.change(GPU_BUSY)
    if clock is None or not clock.clear or not (clock.before and clock.after and steps.before and steps.after):
        return ""
    if log(clock.after / clock.before) / log(steps.after / steps.before) < _LEAST_CLOCK_PART:
        return ""
    less = clock.after < clock.before
    if busy is not None and busy.clear and ((busy.difference or 0.0) < 0) == less:
        return ""  # GPUs that have less to do lower their clock
    change = f"{'fell' if less else 'rose'} from {figure(clock.before)} to {value_text(clock.after, clock.unit)}"
    return f"the clock of busy GPUs {change}{_throttled_text(comparison.change(GPU_THROTTLED), less=less)}"


def _throttled_text(throttled: Change | None, *, less: bool) -> str:
    """How long the GPUs were slowed in the run with the lower clock, if they were so clearly longer; else "".

    less: whether the second run has the lower clock
    """
    if throttled is None or not throttled.clear or ((throttled.difference or 0.0) > 0) != less:
        return ""
    share = (throttled.after if less else throttled.before) or 0.0
    if share < _LEAST_THROTTLED:
        return ""
    return f"; heat or the power brake slowed them {percent(share)} % of the time{'' if less else ' before'}"


def _explaining_share(comparison: Comparison) -> Change | None:
    """The share of lost time that explains the outcome best; all waits for data count as one share.

    It is the share with the largest clear change that fits the outcome: a fall if the second run is better, else a
    rise. None if there is no such share.
    """
    result = outcome(comparison)
    assert result is not None
    sign = -1 if (result.difference or 0.0) > 0 else 1
    names = (DATA_WAIT, *(name for name in LOST if name not in DATA))
    changes = [change for name in names if (change := comparison.change(name)) is not None and change.clear]
    explaining = [change for change in changes if (change.difference or 0.0) * sign > 0]
    return max(explaining, key=lambda change: abs(change.difference or 0.0), default=None)


def _cause(comparison: Comparison, share: Change) -> str:
    """Why a share changed; "" if no cause is found.

    For the wait for data, the cause is the disk, else the workers, else the machine's CPUs; for other shares, only the
    CPUs are considered.
    """
    better = (share.difference or 0.0) < 0  # whether the second run is the better one
    if share.name != DATA_WAIT:
        return _cpu_cause(comparison, better)
    parts = {name: comparison.change(name) for name in DATA}
    largest = max(
        (change for change in parts.values() if change is not None),
        key=lambda change: abs(change.difference or 0.0),
        default=None,
    )
    kind = "" if largest is None else largest.name
    disk_cause = _disk_cause(comparison, better) if kind == "data_disk" else ""
    # The CPUs do not explain why a wait for a disk or a server changed.
    cpu_cause = _cpu_cause(comparison, better) if kind in ("", "data_cpu") else ""
    return disk_cause or _worker_cause(comparison, better) or cpu_cause


def _disk_cause(comparison: Comparison, better: bool) -> str:
    """How the disk with the job's data changed; "" if no change is found.

    Either its await or its read rate changed, or the job reads from another disk.
    """
    first, second = comparison.job_disks
    await_ms, read = comparison.change(f"{JOB_DISK}.read_await_ms"), comparison.change(f"{JOB_DISK}.read_bytes_per_s")
    if read is None:
        return ""
    if first and second:
        await_cause = "" if await_ms is None else _await_cause(comparison, await_ms, better)
        return await_cause or _cache_cause(comparison, read, better)
    if first and better and _is_read_in_one_run(comparison, first, before=True):
        return f"it no longer reads from {first} ({_disk_words(await_ms, read, before=True)} before)"
    if second and not better and _is_read_in_one_run(comparison, second, before=False):
        return f"it reads from {second} now ({_disk_words(await_ms, read, before=False)})"
    return ""


def _await_cause(comparison: Comparison, await_ms: Change, better: bool) -> str:
    """How the r_await of the disk changed, if it is much lower in the better run; else ""."""
    if not await_ms.clear or not await_ms.before or not await_ms.after:
        return ""
    less = await_ms.after < await_ms.before
    if less != better or abs(await_ms.difference or 0.0) < _LEAST_CAUSE_CHANGE * max(await_ms.before, await_ms.after):
        return ""
    first, second = comparison.job_disks
    before, after = milliseconds(await_ms.before), milliseconds(await_ms.after)
    if comparison.same_disk:
        return f"r_await of {_same_disk_words(comparison)} {'fell' if less else 'rose'} from {before} to {after} ms"
    if first == second:  # the kernel gave the name to another disk, as after a restart
        return f"its data lies on another disk, named {second} too (r_await {before} -> {after} ms)"
    return f"its data lies on {second} (r_await {after} ms) instead of {first} ({before} ms)"


def _same_disk_words(comparison: Comparison) -> str:
    """The name of the disk with the data of both jobs, such as "sda", or "sdb (sda before)" if its name changed."""
    first, second = comparison.job_disks
    return first if first == second else f"{second} ({first} before)"


def _cache_cause(comparison: Comparison, read: Change, better: bool) -> str:
    """How the reads from the disk changed, if the faster run reads less; else "".

    A run reads less from the disk if more of its data is in the page cache, or if it needs less data.
    """
    if not read.clear or read.before is None or read.after is None:
        return ""
    less = read.after < read.before
    if less != better or abs(read.difference or 0.0) < _LEAST_CAUSE_CHANGE * max(read.before, read.after):
        return ""
    disk = _same_disk_words(comparison) if comparison.same_disk else "its disk"
    pair = f"{value_text(read.before, read.unit)} -> {value_text(read.after, read.unit)}"
    why = "a warmer cache, or less data" if less else "a colder cache, or more data"
    return f"it reads {'less' if less else 'more'} from {disk} ({pair}): {why}"


def _disk_words(await_ms: Change | None, read: Change, *, before: bool) -> str:
    """A disk's figures in words, such as "5.8 MB/s, r_await 21 ms"."""
    texts = [value_text(read.before if before else read.after, read.unit)]
    value = None if await_ms is None else await_ms.before if before else await_ms.after
    return ", ".join([*texts, *([] if value is None else [f"r_await {milliseconds(value)} ms"])])


def _is_read_in_one_run(comparison: Comparison, disk: str, *, before: bool) -> bool:
    """Whether only one run reads from a disk: the first if ``before``, else the second; False if unknown."""
    read = comparison.change(f"disks.{disk}.read_bytes_per_s")
    if read is None:
        return False
    rate_here, rate_there = (read.before, read.after) if before else (read.after, read.before)
    devices_there = (comparison.after if before else comparison.before).devices
    if devices_there and all(device.name != disk for device in devices_there):
        rate_there = 0.0
    return rate_here is not None and rate_there is not None and rate_there < _LEAST_READ_RATIO * rate_here


def _worker_cause(comparison: Comparison, better: bool) -> str:
    """How the number of workers changed, if the run that waits less has more of them; else ""."""
    first, second = comparison.before.main_job, comparison.after.main_job
    if first is None or second is None or first.workers is None or second.workers is None:
        return ""
    if first.workers == second.workers or (second.workers > first.workers) != better:
        return ""
    verb = "loads" if second.workers == 1 else "load"
    return f"{plural(second.workers, 'worker')} {verb} instead of {first.workers}"


def _cpu_cause(comparison: Comparison, better: bool) -> str:
    """How the machine's CPUs changed, if they are full in the slower run only; else ""."""
    busy = comparison.change("cpu.all.busy_ratio")
    if busy is None or not busy.clear or busy.before is None or busy.after is None:
        return ""
    slower, faster = (busy.before, busy.after) if better else (busy.after, busy.before)
    if not faster < _FULL <= slower:
        return ""
    return f"the machine's CPUs are {'no longer' if better else 'now'} full ({_pair(busy, name=False)} busy)"
