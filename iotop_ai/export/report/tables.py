"""The tables of a report as text cells, which all writers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from iotop_ai.export.report.money import Price
from iotop_ai.export.report.series import Stat
from iotop_ai.export.report.story import DeviceStory, GpuStory, JobStory, Story
from iotop_ai.model.job.time_shares import LOST
from iotop_ai.model.reading import Reading
from iotop_ai.present.health.summary import reading_health
from iotop_ai.present.job.time_words import parts_for_table
from iotop_ai.present.text.units import (
    UNDEFINED,
    UNKNOWN,
    amount,
    clock,
    count,
    duration,
    figure,
    link_speed,
    mib,
    percent,
    plural,
)

MOST_DEVICES, MOST_PROGRAMS, MOST_JOBS, MOST_DETAILED = 32, 16, 32, 4
"""The most rows of the tables of disks, programs and jobs, and the most jobs whose shares are shown."""
_MOST_OTHERS = 6
"""The most devices other than disks that the machine's table names."""
_SHARES_NOTE = "Shares of the time watched. The verdict's sentence gives the shares of its own window, at most 60 s."
_LEAST_MOVED_BYTES = 1 << 20
"""A disk that moved fewer bytes is listed only if no disk moved that many."""


class ReportTable(NamedTuple):
    """A table of the report.

    text_columns: the number of leading columns that contain text, left-aligned; the others are right-aligned figures.
    note: a sentence below the table. bad: the indices of the rows to mark. drop: the indices of the columns that a
    narrow page omits, in this order.
    wraps: the column of sentences, which a narrow page wraps before it omits a column; -1 without one.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    note: str = ""
    bad: frozenset[int] = frozenset()
    drop: tuple[int, ...] = ()
    wraps: int = -1


def time_text(story: Story, wall_ns: int) -> str:
    """A time within the run; the date is added if the run begins and ends on different days."""
    days = {clock(edge_ns, pattern="%F") for edge_ns in (story.begin_ns, story.end_ns)}
    return clock(wall_ns, pattern="%H:%M:%S" if len(days) == 1 else "%d %b %H:%M:%S")


def every_table(story: Story, price: Price | None) -> tuple[ReportTable, ...]:
    """All tables that have at least one row, in their order."""
    all_tables = (
        jobs_table(story, price),
        *(share_table(job, price) for job in detailed_jobs(story)),
        device_table(story),
        gpu_table(story),
        process_table(story),
        link_table(story),
        health_table(story),
        event_table(story),
        gap_table(story),
        machine_table(story),
    )
    return tuple(table for table in all_tables if table.rows)


def detailed_jobs(story: Story) -> tuple[JobStory, ...]:
    """The jobs whose shares are shown: the main job and the jobs with a GPU and a known time, at most MOST_DETAILED."""
    main = story.main_job
    others = [job for job in story.jobs if job.has_time and job.gpus and job is not main]
    return tuple(([] if main is None else [main]) + others)[:MOST_DETAILED]


def key_device(story: Story) -> DeviceStory | None:
    """The disk with the main job's data, else the first disk that a finding names, else the busiest disk.

    Of several disks that had the name one after the other, the one that was full for longest.
    """
    names = [dict(finding.finding.args).get("device") for finding in story.findings]
    for name in (story.main_job.disk if story.main_job is not None else None, *names):
        namesakes = [device for device in story.devices if device.name.partition(" (until ")[0] == name]
        if namesakes:
            return max(namesakes, key=lambda device: (device.full_s or 0.0, device.moved_bytes))
    return max(story.devices, key=lambda device: 0.0 if device.busy is None else device.busy.mean, default=None)


def jobs_table(story: Story, price: Price | None) -> ReportTable:
    """One row per job."""
    rows = [_job_row(job, price) for job in story.jobs[:MOST_JOBS]]
    columns = (
        "job",
        "user",
        "ranks",
        "workers",
        "GPUs",
        "watched",
        "computes",
        "without data",
        "lost",
        "GPU time lost",
    )
    more = len(story.jobs) - len(rows)
    note = " ".join(filter(None, (_SHARES_NOTE if rows else "", f"{plural(more, 'more job')}." if more > 0 else "")))
    return ReportTable("Jobs", columns, tuple(rows), 2, note, drop=(2, 1, 3, 4))


def _job_row(job: JobStory, price: Price | None) -> tuple[str, ...]:
    counts = job.counts
    whole, lost = counts.whole_ms, counts.lost_ms
    data = counts.data_disk + counts.data_network + counts.data_cpu + counts.data_other
    shares = [f"{percent(part / whole)} %" if whole else UNKNOWN for part in (counts.compute, data, lost)]
    name = " ".join(filter(None, (job.label, job.name, f"({job.pid})")))
    watched = duration(whole / 1000 if whole else (job.end_ns - job.begin_ns) / 1e9)
    numbers = (UNKNOWN if number is None else str(number) for number in (job.ranks, job.workers, job.gpus))
    leading = (name, job.user or UNKNOWN, *numbers)
    return (*leading, watched, *shares, gpu_time_text(job, lost, price))


def gpu_time_text(job: JobStory, milliseconds: float, price: Price | None) -> str:
    """GPU time with its price, such as "29 s" or "8.3 h, $20.75"; "?" if the GPUs are unknown.

    "-" without a GPU, or if the job's time was not recorded.
    """
    if job.gpus is None:
        return UNKNOWN
    hours = job.gpu_hours(milliseconds)
    if hours is None or not job.has_time:
        return UNDEFINED
    text = duration(hours * 3600) if hours < 1 else f"{figure(hours)} h"
    return text + (f", {price.text(hours)}" if price is not None else "")


def share_table(job: JobStory, price: Price | None) -> ReportTable:
    """One row per share of a job's time."""
    rows, worst = [], -1
    for i, part in enumerate(parts_for_table(job.counts)):
        milliseconds = getattr(job.counts, part.share)
        if worst < 0 and part.share in LOST:
            worst = i
        rows.append(
            (part.name, f"{part.figure} %", duration(milliseconds / 1000), gpu_time_text(job, milliseconds, price))
        )
    title = f"Where the time of {job.name} ({job.pid}) went"
    marks = frozenset({worst} if worst >= 0 else ())
    return ReportTable(title, ("share", "of its time", "time", "GPU time"), tuple(rows), bad=marks)


def _stat(stat: Stat | None, text: Callable[[float], str]) -> tuple[str, str, str]:
    """The mean, the coefficient of variation and the peak, as text."""
    if stat is None:
        return UNDEFINED, UNDEFINED, UNDEFINED
    return text(stat.mean), UNDEFINED if stat.cv is None else figure(stat.cv), text(stat.peak)


def _mean(stat: Stat | None, text: Callable[[float], str]) -> str:
    return UNDEFINED if stat is None else text(stat.mean)


def listed_devices(story: Story) -> tuple[DeviceStory, ...]:
    """The disks that moved enough bytes for a row, or all disks if none did; at most MOST_DEVICES of them."""
    used = [device for device in story.devices if device.moved_bytes >= _LEAST_MOVED_BYTES]
    return tuple((used or story.devices)[:MOST_DEVICES])


def device_table(story: Story) -> ReportTable:
    """One row per disk: what it moved, how fast, and how steadily.

    A disk that was full for at least half the time is marked.
    """
    columns = (
        *("disk", "what", "read", "written", "rMB/s", "CV", "peak", "wMB/s", "CV", "peak"),
        *("r_await", "CV", "peak", "w_await", "%util", "full for"),
    )
    devices = listed_devices(story)
    rows, bad = [], set()
    for i, device in enumerate(devices):
        if device.full_s is not None and device.full_s >= 0.5 * story.watched_s > 0:
            bad.add(i)
        awaits = (*_stat(device.read_await_ms, figure), _mean(device.write_await_ms, figure))
        rates = (*_stat(device.read, mib), *_stat(device.write, mib))
        full = duration(device.full_s) if device.full_s != 0 else "0"
        moved = (amount(device.read_bytes), amount(device.written_bytes))
        rows.append((device.name, device_words(device), *moved, *rates, *awaits, _mean(device.busy, percent), full))
    note = "Means over the run; an await is a mean over requests. CV: standard deviation "
    note += "divided by mean, over the intervals. Full: at least 90 % busy. MB is 1,048,576 B, as in iostat -m."
    if story.spacing_s is not None and any(device.busy and device.full_s is None for device in devices):
        note += f' Full for "?": means over {duration(story.spacing_s)} do not show it.'
    others = [device for device in story.devices if device not in devices]
    unknown = sum(device.read_bytes is None or device.written_bytes is None for device in others)
    note += f" {plural(len(others) - unknown, 'more disk')} moved less." if len(others) > unknown else ""
    note += f" How much {plural(unknown, 'more disk')} moved is unknown." if unknown else ""
    return ReportTable("Disks", columns, tuple(rows), 2, note, frozenset(bad), (8, 5, 1, 9, 6, 11, 15, 7, 3, 13, 12))


def device_words(device: DeviceStory) -> str:
    """What a disk is and where it is mounted, such as "NVMe Samsung PM9A3, /data"; "" when unknown."""
    if device.info is None:
        return ""
    mounts = ", ".join(mount.path for mount in device.info.mounts[:2])
    label = device.info.label if device.info.label != device.info.name else ""
    return ", ".join(filter(None, (" ".join(filter(None, (label, device.info.detail, device.info.model))), mounts)))


def gpu_table(story: Story) -> ReportTable:
    """One row per GPU."""
    columns = (
        *("GPU", "name", "busy %", "CV", "idle for", "SM %", "memory", "peak", "of", "C", "peak", "W", "peak"),
        *("SM MHz", "energy", "throttled"),
    )
    rows = tuple(_gpu_row(gpu) for gpu in story.gpus)
    bad = frozenset(i for i, gpu in enumerate(story.gpus) if gpu.status)
    return ReportTable("GPUs", columns, rows, 2, "Idle: less than 10 % busy.", bad, (3, 7, 8, 13, 10, 12, 5, 14, 1, 15))


def _gpu_row(gpu: GpuStory) -> tuple[str, ...]:
    busy, cv, _ = _stat(gpu.busy, percent)
    memory = (_mean(gpu.memory_bytes, amount), UNDEFINED if gpu.memory_bytes is None else amount(gpu.memory_bytes.peak))
    return (
        *(
            gpu.uuid[:12] if gpu.number is None else str(gpu.number),
            gpu.name + (f" ({gpu.status})" if gpu.status else ""),
        ),
        *(busy, cv, duration(gpu.idle_s), _mean(gpu.sm, percent), *memory),
        amount(gpu.memory_total_bytes),
        *(_mean(gpu.celsius, count), UNDEFINED if gpu.celsius is None else count(gpu.celsius.peak)),
        *(_mean(gpu.watts, count), UNDEFINED if gpu.watts is None else count(gpu.watts.peak)),
        _mean(gpu.sm_mhz, count),
        UNKNOWN if gpu.energy_j is None else f"{figure(gpu.energy_j / 3.6e6)} kWh",
        duration(gpu.throttled_s) if gpu.throttled_s != 0 else "0",
    )


def process_table(story: Story) -> ReportTable:
    """One row per program and user; those that moved the most bytes come first."""
    columns = ("program", "user", "processes", "read", "written", "CPU", "blocked")
    least_s = 0.5  # rounds to 1 s
    programs = [
        program
        for program in story.processes
        if program.moved_bytes > 0 or max(program.cpu_s or 0.0, program.blocked_s or 0.0) >= least_s
    ]
    rows = tuple(
        (
            program.name,
            program.user,
            f"{program.number:,}+" if program.more else str(program.number),
            amount(program.read_bytes),
            amount(program.written_bytes),
            duration(program.cpu_s),
            duration(program.blocked_s),
        )
        for program in programs[:MOST_PROGRAMS]
    )
    note = "Programs by bytes read from and written to disks. Blocked: waiting for disks (needs delay accounting)."
    if story.spacing_s is not None:
        note += f" A process that lived for less than {duration(story.spacing_s)} may be missing."
    return ReportTable("Processes", columns, rows, 2, note, drop=(2,))


def link_table(story: Story) -> ReportTable:
    """One row per network link that moved anything."""
    columns = ("link", "kind", "speed", "received MB/s", "CV", "peak", "sent MB/s", "CV", "peak")
    rows = tuple(
        (link.name, link.kind, link_speed(link.bits_per_s), *_stat(link.received, mib), *_stat(link.sent, mib))
        for link in story.links
    )
    return ReportTable("Network", columns, rows, 2, drop=(1, 4, 7))


def health_table(story: Story) -> ReportTable:
    """One row per disk with a SMART reading."""
    no_reading: Reading[object] = Reading()
    rows, bad = [], set()
    for i, disk in enumerate(story.health):
        health, state = reading_health(disk.reading, no_reading), disk.reading.value
        if health.token in ("bad", "warn"):
            bad.add(i)
        celsius = None if state is None else state.temperature_celsius
        temperature = UNKNOWN if celsius is None else f"{celsius} C"
        hours = UNKNOWN if state is None or state.power_on_hours is None else f"{state.power_on_hours:,} h"
        reasons = health.reason if state is None else "; ".join(state.reasons) or health.reason
        if disk.removed:
            reasons = "; ".join(filter(None, ("gone at the end of the run", reasons)))
        rows.append((disk.name, "" if state is None else state.model, health.word, reasons, temperature, hours))
    columns = ("disk", "model", "health", "because", "temperature", "power on")
    return ReportTable("Disk health (SMART)", columns, tuple(rows), 4, bad=frozenset(bad), drop=(5, 1), wraps=3)


def event_table(story: Story) -> ReportTable:
    """One row per mark or event."""
    rows = tuple((time_text(story, event.wall_ns), event.kind.replace("_", " "), event.text) for event in story.events)
    note = f"{plural(story.more_events, 'more event')}." if story.more_events else ""
    return ReportTable("Marks and events", ("time", "kind", "text"), rows, 3, note)


def gap_table(story: Story) -> ReportTable:
    """One row per gap in the data."""
    rows = tuple(
        (time_text(story, gap.begin_ns), duration((gap.end_ns - gap.begin_ns) / 1e9), gap.text) for gap in story.gaps
    )
    return ReportTable("Not recorded", ("from", "for", "why"), rows, 3)


def machine_table(story: Story) -> ReportTable:
    """Facts about the machine and the recording."""
    machine = story.machine
    gpus: dict[str, int] = {}
    for name in machine.gpus:
        gpus[name] = gpus.get(name, 0) + 1
    facts: Iterable[tuple[str, str]] = (
        ("host", machine.host.name),
        ("kernel", machine.host.kernel),
        ("container", machine.host.container),
        ("cores", "" if machine.cores is None else str(machine.cores)),
        ("memory", "" if machine.memory_bytes is None else amount(machine.memory_bytes)),
        ("GPUs", ", ".join(f"{number} x {name}" for name, number in gpus.items())),
        ("disks", _disks(story)),
        ("recording", f"{story.file}, every {story.interval_s:g} s, by {machine.tool}"),
        ("imported from", machine.origin),
        ("figures", _spacing(story.spacing_s)),
        ("not seen", "; ".join(machine.missing)),
    )
    return ReportTable("Machine", ("fact", "value"), tuple(fact for fact in facts if fact[1]), 2)


def _disks(story: Story) -> str:
    """How many disks the machine has, and its other block devices, such as "1; also loop0, dm-0"."""
    number = story.machine.disks
    if number is None:
        return ""
    others = [device.name for device in story.devices if device.info is not None and device.info.kind != "disk"]
    more = f" and {len(others) - _MOST_OTHERS} more" if len(others) > _MOST_OTHERS else ""
    # A disk behind a RAID controller answers SMART although the kernel does not list it.
    hidden = sum(not disk.removed for disk in story.health) - number
    text = f"{number}, and SMART of {hidden} more" if hidden > 0 else str(number)
    return f"{text}; also {', '.join(others[:_MOST_OTHERS])}{more}" if others else text


def _spacing(seconds: float | None) -> str:
    if seconds is None:
        return "of every reading"
    return f"means over {duration(seconds)}; GPUs: one reading in {duration(seconds)}"
