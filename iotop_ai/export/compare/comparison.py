"""Compares two runs figure by figure: the means over comparable parts, and how certain each difference is."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from iotop_ai.export.compare.bootstrap import Interval, Points, difference_interval, least_run_s
from iotop_ai.export.report.series import Curve
from iotop_ai.export.report.story import DeviceStory, Story
from iotop_ai.export.report.tables import key_device, listed_devices
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.block.same_device import is_same_device, telling_field
from iotop_ai.model.errors import UsageError
from iotop_ai.model.job.time_shares import DATA, LOST, SHARES
from iotop_ai.playback.timeline_reader import MARK
from iotop_ai.present.job.time_words import Part

MARKS, JOB, TIME = "marks", "job", "time"
ALIGNMENTS = (MARKS, JOB, TIME)
STEPS, DATA_WAIT, LOST_TIME, JOB_DISK = "steps_per_s", "data_wait", "lost", "job_disk"
GPU_BUSY, GPU_CLOCK, GPU_THROTTLED = "gpu_busy", "gpu_sm_mhz", "gpu_throttled"
LEAST_SHARE_CHANGE = 0.03
"""A change of a share is clear only if it is at least this large, because two equal runs may differ by almost as much.
"""
LEAST_CHANGE = 0.05
"""A change of any other figure is clear only if it is at least this part of the larger value."""
LEAST_SHOWN_SHARE = 0.005
"""A lost share of time, or of slowed GPUs, that is smaller in both runs has no row."""
_MOST_DEVICES = 4
"""The maximum number of disks that are compared per run, besides the most important one."""
_BEGIN_SHARES = ("startup", "compile")
"""The shares of a job's time that are left out at its beginning."""
_JOB_DISK_FIGURES = ("read_bytes_per_s", "read_await_ms", "busy_ratio")
_DISK_FIGURES = ("read_bytes_per_s", "read_await_ms", "write_bytes_per_s", "write_await_ms", "busy_ratio")


class Window(NamedTuple):
    """The part of a run that is compared, as wall times."""

    begin_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """The length of the part in seconds."""
        return (self.end_ns - self.begin_ns) / 1e9


class Change(NamedTuple):
    """A figure in both runs.

    name: the figure's name, as in JSON. before, after: its means; None if unknown or undefined (a mean over
    no requests). interval: the 95 % confidence interval of after - before; None if unknown.
    """

    name: str
    title: str
    unit: str
    before: float | None
    after: float | None
    interval: Interval | None = None

    @property
    def difference(self) -> float | None:
        """The mean after minus the mean before; None if either is unknown."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def is_known(self) -> bool:
        """Whether the difference and its interval are known; if not, it is unknown whether the change is clear."""
        return self.difference is not None and self.interval is not None

    @property
    def clear(self) -> bool:
        """Whether the change is more than chance, and large enough to matter."""
        difference = self.difference
        if difference is None or self.interval is None or self.interval.has_zero:
            return False
        return abs(difference) >= self._min_clear_difference

    @property
    def _min_clear_difference(self) -> float:
        """The smallest difference that is large enough to matter."""
        if self.unit == "ratio":
            return LEAST_SHARE_CHANGE
        return LEAST_CHANGE * max(abs(self.before or 0.0), abs(self.after or 0.0))

    @property
    def relative(self) -> float | None:
        """The difference divided by the value before; None if unknown or if the value before is 0.

        For a ratio, it is the difference itself.
        """
        difference = self.difference
        if difference is None or self.unit == "ratio":
            return difference
        return difference / self.before if self.before else None


class ChangedDisk(NamedTuple):
    """A kernel name that belongs to another disk in the second run. field: the field of BlockInfo that differs."""

    name: str
    before: BlockInfo
    after: BlockInfo
    field: str


class Comparison(NamedTuple):
    """The comparison of two runs.

    aligned_by: one of ALIGNMENTS. job_disks: for each run, the disk with the data of the main job; "" if unknown or if
    there is none. same_disk: whether both are the same disk, as far as its identity was recorded; True if both are "".
    not_compared: the disks whose figures are left out, because the name belongs to another disk in the second run.
    """

    before: Story
    after: Story
    aligned_by: str
    windows: tuple[Window, Window]
    changes: tuple[Change, ...]
    job_disks: tuple[str, str]
    same_disk: bool
    not_compared: tuple[ChangedDisk, ...] = ()

    def change(self, name: str) -> Change | None:
        """The figure with this name; None if neither run has it."""
        return next((change for change in self.changes if change.name == name), None)


def compare_runs(before: Story, after: Story, align: str | None = None) -> Comparison:
    """Compare two runs.

    align: one of ALIGNMENTS. None tries the common marks, then the main jobs, then the whole time. Raises UsageError if
    the runs cannot be aligned as requested.
    """
    aligned_by, windows = _windows(before, after, align)
    changed_disks = tuple(_changed_disks(before, after))
    changes = tuple(_changes(before, after, windows, [disk.name for disk in changed_disks]))
    names = (job_disk(before), job_disk(after))
    if names[0] == names[1]:
        same = _is_same(_device(before, names[0]), _device(after, names[1]))
    else:
        serial = _unique_serial(before, names[0])
        same = serial != "" and serial == _unique_serial(after, names[1])
    return Comparison(before, after, aligned_by, windows, changes, names, same, changed_disks)


def _windows(before: Story, after: Story, align: str | None) -> tuple[str, tuple[Window, Window]]:
    if align in (None, MARKS):
        between_marks, least_s = _mark_windows(before, after), least_window_s(before, after)
        # A part between marks that is too short for an answer is compared only on request.
        if between_marks is not None and (align or all(window.seconds >= least_s for window in between_marks)):
            return MARKS, between_marks
        if align == MARKS:
            raise UsageError("the runs have fewer than two marks in common, in the same order; align by job or time")
    if align in (None, JOB):
        first, second = _job_window(before), _job_window(after)
        if first is not None and second is not None:
            return JOB, (first, second)
        if align == JOB:
            raise UsageError("a run has no job whose time was recorded; align by time or marks")
    return TIME, (Window(before.begin_ns, before.end_ns), Window(after.begin_ns, after.end_ns))


def least_window_s(before: Story, after: Story) -> float:
    """The shortest part of each run that gives an answer, in seconds; readings further apart need a longer part."""
    spacings = [story.steps.spacing_s for story in (before, after) if story.steps is not None and story.steps.curve]
    if len(spacings) < 2:  # without steps, the shares of the jobs' time decide
        jobs = (before.main_job, after.main_job)
        spacings = [curve.step_s for job in jobs if job is not None for curve in job.shares.values()]
    return max(least_run_s(spacing_s) for spacing_s in (1.0, *spacings))


def _mark_windows(before: Story, after: Story) -> tuple[Window, Window] | None:
    """For each run, the window from the first to the last common mark.

    None if there are fewer than two common marks, or if no time passes between them.
    """
    marks_by_run = []
    for story in (before, after):
        marks: dict[str, int] = {}
        for event in story.events:
            if event.kind == MARK:
                marks.setdefault(event.text, event.wall_ns)
        marks_by_run.append(marks)
    common = sorted(
        (text for text in marks_by_run[0] if text in marks_by_run[1]), key=lambda text: marks_by_run[0][text]
    )
    if len(common) < 2:
        return None
    windows = [Window(marks[common[0]], marks[common[-1]]) for marks in marks_by_run]
    return (windows[0], windows[1]) if all(window.seconds > 0 for window in windows) else None


def _job_window(story: Story) -> Window | None:
    """The time of the main job after its start-up and compilation; all its time if nothing remains.

    None without a main job, or if the curves of its shares were not recorded.
    """
    job = story.main_job
    if job is None or not job.shares:
        return None
    first = next(iter(job.shares.values()))
    begin_ns, end_ns, step_ns = max(job.begin_ns, story.begin_ns), job.end_ns, round(first.step_s * 1e9)
    starting = [job.shares[name] for name in _BEGIN_SHARES if name in job.shares]
    for i in range(len(first.values)):
        at_ns = first.begin_ns + i * step_ns
        shares = [curve.values[i] for curve in starting]
        if at_ns + step_ns <= begin_ns:
            continue
        if first.values[i] is None:  # as in the job's first interval, because shares need two readings
            continue
        if not any(share is not None and share > 0.5 for share in shares):
            break
        begin_ns = at_ns + step_ns
    return Window(begin_ns, end_ns) if end_ns > begin_ns else Window(job.begin_ns, job.end_ns)


def points_of(curve: Curve, window: Window) -> Points:
    """The points of a curve in the window. A point is in the window if the middle of its interval is."""
    values: list[float] = []
    weights: list[float] = []
    for i, (value, weight) in enumerate(zip(curve.values, curve.weights, strict=True)):
        middle = curve.begin_ns + (i + 0.5) * curve.step_s * 1e9
        if window.begin_ns <= middle <= window.end_ns:
            values.append(value or 0.0)
            weights.append(weight if value is not None else 0.0)
    return Points(tuple(values), tuple(weights), curve.step_s)


def _changed_disks(before: Story, after: Story) -> Iterator[ChangedDisk]:
    """The disks to compare whose names belong to other disks in the second run."""
    for name in _disks_to_compare(before, after):
        first, second = _device(before, name), _device(after, name)
        if first is None or second is None or first.info is None or second.info is None:
            continue
        if field := telling_field(first.info, second.info):
            yield ChangedDisk(name, first.info, second.info, field)


def _changes(
    before: Story, after: Story, windows: tuple[Window, Window], changed_disks: Sequence[str]
) -> Iterator[Change]:
    same_disks = [name for name in _disks_to_compare(before, after) if name not in changed_disks]
    figures_before, figures_after = (
        _figures(story, window, same_disks) for story, window in zip((before, after), windows, strict=True)
    )
    for name in dict.fromkeys((*figures_before, *figures_after)):
        either = figures_before.get(name) or figures_after[name]
        pair = [figures[name].points if name in figures else None for figures in (figures_before, figures_after)]
        yield _change(name, either.title, either.unit, *pair)


def job_disk(story: Story) -> str:
    """The disk with the data of the main job; "" if unknown."""
    return "" if story.main_job is None else story.main_job.disk


def _device(story: Story, name: str) -> DeviceStory | None:
    return next((device for device in story.devices if device.name == name), None)


def _is_same(first: DeviceStory | None, second: DeviceStory | None) -> bool:
    """Whether two devices with the same kernel name are the same disk; True if unknown."""
    if first is None or second is None or first.info is None or second.info is None:
        return True
    return is_same_device(first.info, second.info)


def _unique_serial(story: Story, name: str) -> str:
    """The serial number of a disk; "" if it is unknown, or if another disk has it too.

    The namespaces of an NVMe disk and the paths to a disk share one serial number.
    """
    serials = {device.name: device.info.serial for device in story.devices if device.info is not None}
    serial = serials.get(name, "")
    return serial if list(serials.values()).count(serial) == 1 else ""


def _change(name: str, title: str, unit: str, first: Points | None, second: Points | None) -> Change:
    before, after = (None if points is None or not points.values else points.mean for points in (first, second))
    interval = None
    if first is not None and second is not None and before is not None and after is not None:
        interval = difference_interval(first, second, zlib.crc32(name.encode()))
    return Change(name, title, unit, before, after, interval)


class _Figure(NamedTuple):
    """A figure of one run."""

    title: str
    unit: str
    points: Points


def _figures(story: Story, window: Window, disks: Sequence[str]) -> dict[str, _Figure]:
    """The figures of a run by name, in the order of the table. disks: the disks to compare, besides the job's disk."""
    out: dict[str, _Figure] = {}
    if story.steps is not None and story.steps.curve is not None:
        points = points_of(story.steps.curve, window).spaced(story.steps.reading_s)
        out[STEPS] = _Figure("steps/s", "1/s", points)
    out |= _shares(story, window)
    for name, figure, title, unit in _TOTALS:
        if name in story.totals:
            out[figure] = _Figure(title, unit, points_of(story.totals[name], window))
    job_device = _device(story, job_disk(story))
    for name in _JOB_DISK_FIGURES:
        if job_device is not None and name in job_device.curves:
            points = points_of(job_device.curves[name], window)
            out[f"{JOB_DISK}.{name}"] = _Figure(f"job's disk: {_TITLES[name]}", _UNITS[name], points)
    for device in story.devices:
        if device.name not in disks:
            continue
        for name in _DISK_FIGURES:
            if name in device.curves:
                title = f"{device.name}: {_TITLES[name]}"
                points = points_of(device.curves[name], window)
                out[f"disks.{device.name}.{name}"] = _Figure(title, _UNITS[name], points)
    if "rx_bytes_per_s" in story.totals:
        points = points_of(story.totals["rx_bytes_per_s"], window)
        out["network.rx_bytes_per_s"] = _Figure("received over the network", "B/s", points)
    return out


_TOTALS = (
    ("gpu_busy_ratio", GPU_BUSY, "GPUs busy", "ratio"),
    ("gpu_sm_mhz", GPU_CLOCK, "clock of busy GPUs", "MHz"),
    ("gpu_throttled_ratio", GPU_THROTTLED, "busy GPUs slowed by heat or brake", "ratio"),
    ("gpu_power_watts", "gpu_power_watts", "power of a GPU", "W"),
    ("gpu_temperature_celsius", "gpu_temperature_celsius", "hottest GPU", "celsius"),
    ("cpu_busy_ratio", "cpu.all.busy_ratio", "CPUs busy", "ratio"),
)
"""The figures of the machine: the name of the curve in ``Story.totals``, the figure's name, its title and its unit."""
GPU_UNITS: Mapping[str, str] = {figure: unit for name, figure, _, unit in _TOTALS if name.startswith("gpu_")}
"""The units of the figures of all GPUs together, by the names of these figures."""
_TITLES: Mapping[str, str] = {
    "read_bytes_per_s": "read",
    "read_await_ms": "r_await",
    "write_bytes_per_s": "written",
    "write_await_ms": "w_await",
    "busy_ratio": "%util",
}
_UNITS: Mapping[str, str] = {
    name: "B/s" if "bytes" in name else "ms" if name.endswith("_ms") else "ratio" for name in _TITLES
}


def _disks_to_compare(before: Story, after: Story) -> list[str]:
    """The ``_key_disks`` of both runs, each once."""
    return list(dict.fromkeys((*_key_disks(before), *_key_disks(after))))


def _key_disks(story: Story) -> list[str]:
    """The names of the most important disk (``key_device``) and of the disks that moved the most bytes."""
    key = key_device(story)
    return [*([] if key is None else [key.name]), *(device.name for device in listed_devices(story)[:_MOST_DEVICES])]


def _shares(story: Story, window: Window) -> dict[str, _Figure]:
    """The shares of the main job's time, and the sums of all waits for data and of all lost time."""
    job = story.main_job
    if job is None or not job.shares:
        return {}
    points = {name: points_of(curve, window) for name, curve in job.shares.items()}
    first = next(iter(points.values()))

    def sum_of(names: Sequence[str]) -> Points:
        values = (sum(points[name].values[i] for name in names if name in points) for i in range(len(first.values)))
        return first._replace(values=tuple(values))

    zero = first._replace(values=(0.0,) * len(first.values))
    out = {
        "compute": _Figure("compute", "ratio", points.get("compute", zero)),
        DATA_WAIT: _Figure("without data", "ratio", sum_of(DATA)),
        LOST_TIME: _Figure("lost", "ratio", sum_of(LOST)),
    }
    for name in SHARES:
        if name != "compute":
            out[name] = _Figure(Part(name, 0.0, "").name, "ratio", points.get(name, zero))
    return out


def listed_changes(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The changes that get a row: all except the sum of lost time.

    Shares of lost time, or of slowed GPUs, have no row if they are near 0 in both runs.
    """
    omitted_if_small = {*SHARES, GPU_THROTTLED} - {"compute"}
    return tuple(
        change
        for change in changes
        if change.name != LOST_TIME
        and (change.name not in omitted_if_small or max(change.before or 0.0, change.after or 0.0) >= LEAST_SHOWN_SHARE)
    )
