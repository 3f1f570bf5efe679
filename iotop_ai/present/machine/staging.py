"""The staging of a dataset (its copy to faster storage) in words: the plan, the measured speeds, the result."""

from __future__ import annotations

from iotop_ai.model.machine.staging import FASTER, Plan, Speed, Verified
from iotop_ai.present.machine.caches import gaps_text
from iotop_ai.present.text.line import plain
from iotop_ai.present.text.units import amount, duration, plural


def plan_text(plan: Plan) -> list[str]:
    """The files to copy and whether they fit, one sentence per line."""
    out = [f"{plain(plan.source)}: {plural(plan.files, 'file')}, {amount(plan.size_bytes)} -> {plain(plan.target)}"]
    if plan.there_files:
        left = f"left to copy: {plural(plan.left_files, 'file')}, {amount(plan.left_bytes)}"
        verb = "is" if plan.there_files == 1 else "are"
        out.append(f"{plural(plan.there_files, 'file')} {verb} there already with the same size and time; {left}")
    where = "in memory" if plan.memory else plan.fstype or "an unknown filesystem"
    reserve = f"{amount(plan.floor_bytes)} stay free"
    room = f"{amount(plan.room_bytes)} of room ({where}, {reserve})"
    if plan.fits is None:
        out.append(f"? unknown whether it fits: {where} does not report its free space")
    elif plan.fits is False and plan.room_bytes is not None and plan.needed_bytes <= plan.room_bytes:
        out.append(f"does not fit: {plural(plan.inodes or 0, 'more file')} can be created there")
    elif plan.fits is False:
        needs = (
            ""
            if plan.needed_bytes <= 1.05 * plan.left_bytes
            else f"needs {amount(plan.needed_bytes)} in whole blocks, "
        )
        out.append(f"does not fit: {needs}{room}")
    else:
        out.append(f"fits: {room}")
    if plan.swap:
        out.append("this memory can be swapped out to a disk when memory gets short")
    if plan.links:
        verb = "leads" if plan.back_links == 1 else "lead"
        back = f", {plan.back_links} {verb} back into the source" if plan.back_links else ""
        out.append(
            f"{plural(plan.links, 'symbolic link')} copied as {'it is' if plan.links == 1 else 'they are'}{back}"
        )
    if plan.others:
        kind = "pipe, socket or device" if plan.others == 1 else "pipes, sockets or devices"
        out.append(f"{plan.others} {kind} left out")
    return out + gaps_text(plan.unreadable, plan.first_unreadable, plan.elsewhere, 0)


def rate(bytes_per_s: float | None) -> str:
    """A rate in words: "92 MB/s"; "?" when unknown."""
    return "?" if bytes_per_s is None else f"{amount(bytes_per_s)}/s"


def speed_text(speed: Speed, plan: Plan) -> list[str]:
    """The measured speeds and the expected duration of the copy, one sentence per line."""
    files = f"{plural(speed.sample_files, 'file')}, {amount(speed.sample_bytes)}"
    how = "past the page cache" if speed.direct else "taken out of the page cache first"
    out = [f"source reads {rate(speed.source_read)} ({files}, {how})"]
    out.append(f"target writes {rate(speed.target_write)}, reads {rate(speed.target_read)}")
    if plan.same_disk:
        out.append(f"both are on {plan.same_disk}: no gain, regardless of the measured speeds")
    elif speed.too_small:
        out.append("? cannot tell whether the target is faster: the sample is too small")
    elif speed.speedup is None:
        out.append("? could not measure whether the target is faster")
    elif speed.speedup >= FASTER:
        out.append(f"the target reads {_times(speed.speedup)} as fast")
    else:
        out.append(f"the target is not faster: {speed.speedup:.1f} times the source's rate")
    seconds = speed.seconds(plan.left_bytes)
    if seconds is not None and plan.left_bytes:
        out.append(f"the copy takes about {duration(max(1.0, seconds))}")
    return out


def _times(gain: float) -> str:
    return f"{gain:.1f} times" if gain < 9.95 else f"{gain:.0f} times"


def refusal(plan: Plan, speed: Speed | None, *, update: bool, anyway: bool) -> str:
    """Why nothing is copied, with the option that overrides the refusal if there is one; "" if the copy may start."""
    if plan.fits is False:
        return "it does not fit"
    if plan.unreadable:
        return f"{plural(plan.unreadable, 'file')} could not be read, the first: {plain(plan.first_unreadable)}"
    if plan.differing and not update:
        first = plain(plan.first_differing)
        if plan.differing == 1:
            return f"{first} differs; --update replaces it"
        return f"{plural(plan.differing, 'file')} of the target differ, the first: {first}; --update replaces them"
    if plan.same_disk and not anyway:
        return f"same disk, no gain: both are on {plan.same_disk}; use --anyway to copy"
    if speed is not None and speed.speedup is not None and not plan.same_disk and speed.speedup < FASTER and not anyway:
        return "the target is not faster; use --anyway to copy"
    return ""


def verified_text(result: Verified) -> str:
    """The result of the comparison of the copy with its source, as a sentence."""
    content = f"content of {plural(result.checked_files, 'file')}, {amount(result.checked_bytes)}"
    files, links = plural(result.files, "file"), plural(result.links, "link")
    if result.wrong:
        counts = f"{files} and {links}" if result.links else files
        return f"verified: {result.wrong} of {counts} differ, the first: {plain(result.first_wrong)}"
    return f"verified: the size of {files}, {f'the path in {links}, ' if result.links else ''}the {content}"


def progress_text(verb: str, done: int, total: int, seconds: float) -> str:
    """The progress in words: "copying 1.2 GB of 40 GB, 310 MB/s, 2 min left". done, total: numbers of bytes."""
    text = f"{verb} {amount(done)} of {amount(total)}"
    if seconds >= 1.0 and done:
        per_s = done / seconds
        text += f", {rate(per_s)}, {duration(max(0.0, (total - done) / per_s))} left"
    return text
