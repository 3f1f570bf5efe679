"""Staging in words: the plan, what was measured, what came of it."""

from __future__ import annotations

from iotop_ai.model.stage import FASTER, Plan, Speed, Verified
from iotop_ai.present.caches import lacks_text
from iotop_ai.present.line import plain
from iotop_ai.present.units import amount, counted, duration


def plan_text(plan: Plan) -> list[str]:
    """What would be copied, and whether it fits, a sentence a line."""
    out = [f"{plain(plan.source)}: {counted(plan.files, 'file')}, {amount(plan.size_bytes)} -> {plain(plan.target)}"]
    if plan.there_files:
        left = f"{counted(plan.left_files, 'file')}, {amount(plan.left_bytes)} are left"
        out.append(f"{counted(plan.there_files, 'file')} there already with the same size and time; {left}")
    where = "in memory" if plan.memory else plan.fstype or "an unknown filesystem"
    kept = f"{amount(plan.floor_bytes)} stay free"
    room = f"{amount(plan.room_bytes)} of room ({where}, {kept})"
    if plan.fits is None:
        out.append(f"? whether it fits: {where} does not say how much room there is")
    elif plan.fits is False and plan.room_bytes is not None and plan.left_bytes <= plan.room_bytes:
        out.append(f"does not fit: {plan.inodes} more files may be made there")
    elif plan.fits is False:
        out.append(f"does not fit: {room}")
    else:
        out.append(f"fits: {room}")
    if plan.swap:
        out.append("this memory can be swapped out to a disk when it gets short")
    if plan.links:
        back = f", {plan.back_links} of them lead back into the source" if plan.back_links else ""
        out.append(f"{counted(plan.links, 'symbolic link')} copied as they are{back}")
    if plan.others:
        out.append(f"{plan.others} pipes, sockets or devices left out")
    return out + lacks_text(plan.unreadable, plan.first_unreadable, plan.elsewhere, 0)


def rate(bytes_per_s: float | None) -> str:
    """Bytes per second: "92 MB/s", "?"."""
    return "?" if bytes_per_s is None else f"{amount(bytes_per_s)}/s"


def speed_text(speed: Speed, plan: Plan) -> list[str]:
    """What was measured and how long the copy takes."""
    files = f"{counted(speed.sample_files, 'file')}, {amount(speed.sample_bytes)}"
    how = "past the page cache" if speed.direct else "taken out of the page cache first"
    out = [f"source reads {rate(speed.source_read)} ({files}, {how})"]
    out.append(f"target writes {rate(speed.target_write)}, reads {rate(speed.target_read)}")
    if speed.gain is None:
        out.append("? whether the target is faster could not be measured")
    elif speed.gain >= FASTER:
        out.append(f"the target reads {_times(speed.gain)} as fast")
    else:
        out.append(f"the target is not faster: {speed.gain:.1f} times the source's rate")
    seconds = speed.seconds(plan.left_bytes)
    if seconds is not None and plan.left_bytes:
        out.append(f"the copy takes about {duration(max(1.0, seconds))}")
    return out


def _times(gain: float) -> str:
    return f"{gain:.1f} times" if gain < 9.95 else f"{gain:.0f} times"


def refusal(plan: Plan, speed: Speed | None, *, update: bool, anyway: bool) -> str:
    """Why it is not copied, with what would change that; "" when it is."""
    if plan.fits is False:
        return "it does not fit"
    if plan.unreadable:
        return f"{plan.unreadable} could not be read, the first: {plain(plan.first_unreadable)}"
    if plan.differing and not update:
        first = plain(plan.first_differing)
        verb = "differs" if plan.differing == 1 else "differ"
        return f"{counted(plan.differing, 'file')} of the target {verb}, the first: {first}; --update replaces them"
    if speed is not None and speed.gain is not None and speed.gain < FASTER and not anyway:
        return "the target is not faster; --anyway copies nevertheless"
    return ""


def verified_text(done: Verified) -> str:
    """What was compared."""
    content = f"content of {counted(done.checked_files, 'file')}, {amount(done.checked_bytes)}"
    if done.wrong:
        return f"verified: {done.wrong} of {counted(done.files, 'file')} differ, the first: {plain(done.first_wrong)}"
    return f"verified: the size of {counted(done.files, 'file')}, the {content}"


def progress_text(what: str, done: int, whole: int, seconds: float) -> str:
    """ "copying 1.2 GB of 40 GB, 310 MB/s, 2 min left"."""
    text = f"{what} {amount(done)} of {amount(whole)}"
    if seconds >= 1.0 and done:
        per_s = done / seconds
        text += f", {rate(per_s)}, {duration(max(0.0, (whole - done) / per_s))} left"
    return text
