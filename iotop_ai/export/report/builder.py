"""Builds the Story of a run from its items, in one pass and in bounded memory. It reads no files or clocks.

An item is a Frame, a Snapshot with its rates, or the verdicts of a span of time. A fold adds up one kind of figure.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.export.json.diagnosis import Diagnosis
from iotop_ai.export.report.folds import DeviceFold, GpuFold, HealthFold, LinkFold, MachineFold, ProcessFold
from iotop_ai.export.report.jobs import JobFold
from iotop_ai.export.report.series import Grid
from iotop_ai.export.report.story import FindingStory, Gap, Machine, Story
from iotop_ai.model.condition.over_run import ConditionOverRun
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.finding import Finding
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample, is_pair
from iotop_ai.model.snapshot import NOT_RECORDED, Event, Snapshot
from iotop_ai.playback.run_reader import JudgedSpan, RunItem
from iotop_ai.playback.timeline_reader import is_trouble
from iotop_ai.present.verdict.headline import advice, because, text_of
from iotop_ai.present.verdict.plain_text import ruled_out_text
from iotop_ai.store.format.redact import event_text

MOST_EVENTS = 1000
"""The most faults that are kept, and the most other events. The limits are separate, so that many marks do not displace
a later fault."""
MOST_GAPS = 1000
_SET_AHEAD_NS = 2_000_000_000
"""There is a gap if the wall time grows by more than this beyond the monotonic time. Smaller differences come from
clock adjustments."""
_QUIET_EVENTS = frozenset(("ack", "ack_undone"))
"""The kinds of events that a report leaves out."""


class StoryBuilder:
    """Builds a Story from RunItems that are added in order.

    begin_ns, end_ns: the wall times between which the run is read; None when unknown.
    """

    def __init__(self, begin_ns: int | None, end_ns: int | None, conditions: tuple[ConditionOverRun, ...] = ()) -> None:
        self.diagnosis = Diagnosis(conditions)
        self._span = (begin_ns, end_ns)
        self._grid: Grid | None = None
        self._frame: Frame | None = None
        self._newest: Snapshot | None = None
        self._health = HealthFold()
        self._first_ns = 0
        """The wall time at which the Story begins."""
        self._covered_ns = 0
        """The monotonic time up to which figures have been added."""
        self._watched_s = 0.0
        self._events: list[Event] = []
        self._events_kept = {True: 0, False: 0}
        """The number of events kept, by whether they are faults."""
        self._more_events = 0
        self._gaps: list[Gap] = []
        self._judged_ns = 0
        """The wall time at which the newest JudgedSpan ends; after the newest Snapshot if only keyframes are read."""

    def add(self, item: RunItem) -> None:
        """Add a Frame, a RatedSnapshot or a JudgedSpan."""
        if isinstance(item, JudgedSpan):
            self.diagnosis.join(item.totals)
            self._add_events(item.events)
            self._judged_ns = item.end_ns
            if self._grid is not None:
                self._jobs.add_span(item.totals.jobs, item.events, item.end_ns)
            return
        if isinstance(item, Frame):
            self.diagnosis.add(item)
            self._frame = item
        self._add_events(item.snapshot.events)
        self._add_figures(item.snapshot, item.sample, after_gap=isinstance(item, Frame) and item.after_gap)

    def _add_events(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.kind in _QUIET_EVENTS:
                continue
            is_fault = is_trouble(event)
            if self._events_kept[is_fault] < MOST_EVENTS:
                self._events_kept[is_fault] += 1
                self._events.append(event._replace(text=event_text(event)))
            else:
                self._more_events += 1

    def _add_figures(self, snapshot: Snapshot, sample: Sample, *, after_gap: bool) -> None:
        before, self._newest = self._newest, snapshot
        self._health.add(snapshot)
        if self._grid is None:
            self._begin(snapshot, sample)
        assert self._grid is not None
        if before is not None and (before.host.boot_id != snapshot.host.boot_id or snapshot.at_ns < before.at_ns):
            self._covered_ns = 0
        begins = sample.seconds is None and before is not None and snapshot.at_ns != before.at_ns
        if sample.gap or after_gap or begins or _ahead_ns(before, snapshot) > _SET_AHEAD_NS:
            self._add_gap(before, snapshot, sample)
        if sample.seconds is None or sample.gap or snapshot.at_ns <= self._covered_ns:
            return
        self._covered_ns = snapshot.at_ns
        interval = self._grid.interval(snapshot.wall_ns, sample.seconds)
        if interval is None:
            return
        self._watched_s += sample.seconds
        for fold in (self._devices, self._gpus, self._links, self._machine, self._jobs):
            fold.add(interval, snapshot, sample)
        self._processes.add(snapshot, sample)

    def _begin(self, snapshot: Snapshot, sample: Sample) -> None:
        begin_ns, end_ns = self._span
        self._first_ns = snapshot.wall_ns - round((sample.seconds or 0.0) * 1e9)
        if begin_ns is not None:
            self._first_ns = max(begin_ns, self._first_ns)
        self._grid = grid = Grid(self._first_ns, end_ns, snapshot.interval_s)
        self._devices, self._gpus, self._links = DeviceFold(grid), GpuFold(grid), LinkFold(grid)
        self._machine, self._jobs, self._processes = MachineFold(grid), JobFold(grid), ProcessFold()

    def _add_gap(self, before: Snapshot | None, after: Snapshot, sample: Sample) -> None:
        # The Sample may begin within the gap; its own time is not missing.
        end_ns = after.wall_ns - (0 if sample.gap else round((sample.seconds or 0.0) * 1e9))
        if before is not None and len(self._gaps) < MOST_GAPS and end_ns > before.wall_ns:
            begin_ns = self._judged_ns if before.wall_ns < self._judged_ns < end_ns else before.wall_ns
            notes = [event.text for event in after.events if event.kind == NOT_RECORDED]
            text = "; ".join(notes) or _why_missing(before, after, end_ns - before.wall_ns)
            self._gaps.append(Gap(begin_ns, end_ns, text))

    def story(
        self, file: str, about: Mapping[str, str], spacing_s: float | None = None, selected_pid: int = 0
    ) -> Story:
        """The Story of the items added so far. Raises UnknownError if there is no Frame among them.

        about: facts about the recording from its header. spacing_s: the seconds between the Snapshots, as in RunReader.
        selected_pid: the pid of the job that the items were judged for; 0 if none was selected.
        """
        newest, frame = self._newest, self._frame
        if newest is None or self._grid is None or frame is None:
            raise UnknownError(f"{file}: no data in that period")
        diagnosis = self.diagnosis
        diagnosis.selected_pid = selected_pid
        return Story(
            file=file,
            begin_ns=self._first_ns,
            end_ns=newest.wall_ns,
            watched_s=self._watched_s,
            interval_s=float(about.get("interval_s", newest.interval_s)),
            spacing_s=spacing_s,
            machine=_machine(newest, frame, about.get("recorded_by", "")),
            findings=tuple(_finding(finding, diagnosis, frame) for finding in diagnosis.findings),
            timeline=tuple(diagnosis.spans),
            data_stall_ratio=diagnosis.data_stall_ratio,
            jobs=self._jobs.stories(diagnosis.jobs),
            devices=self._devices.stories(is_spaced=spacing_s is not None),
            gpus=self._gpus.stories(),
            links=self._links.stories(),
            processes=self._processes.stories(),
            health=self._health.stories(),
            events=tuple(sorted(self._events, key=lambda event: event.wall_ns)),
            more_events=self._more_events,
            gaps=tuple(self._gaps),
            totals=self._machine.curves(
                **self._gpus.totals, rx_bytes_per_s=self._links.received, tx_bytes_per_s=self._links.sent
            ),
            selected_pid=selected_pid,
        )


def _ahead_ns(before: Snapshot | None, after: Snapshot) -> int:
    """How much more the wall time grew than the monotonic time; 0 if the two Snapshots are not from the same boot.

    It grows more while the machine is suspended, and if the clock is set ahead.
    """
    if before is None or not is_pair(before, after):
        return 0
    return (after.wall_ns - before.wall_ns) - (after.at_ns - before.at_ns)


def _why_missing(before: Snapshot, after: Snapshot, gap_ns: int) -> str:
    """The reason for a gap between two Snapshots that no event explains.

    In an imported log, each run of the logging program has its own boot id, so a new boot id does not show a restart.
    """
    if before.host.boot_id != after.host.boot_id:
        restarted = not after.host.origin and before.host.name == after.host.name
        return "the machine was restarted" if restarted else "nothing was recorded"
    ahead_ns = _ahead_ns(before, after)
    if 2 * ahead_ns <= gap_ns:
        return "nothing was recorded"
    suspended_ns = (after.suspended_ns or 0) - (before.suspended_ns or 0)
    return "the machine was suspended" if 2 * suspended_ns > ahead_ns else "the clock was set ahead"


def _machine(snapshot: Snapshot, frame: Frame, tool: str) -> Machine:
    cpu, memory = snapshot.cpu.value, snapshot.memory.value
    disks = snapshot.disks.value
    return Machine(
        snapshot.host,
        None if cpu is None else len(cpu.cores),
        None if memory is None else memory.total_bytes,
        tuple(gpu.value.name for gpu in (snapshot.gpu.value or {}).values() if gpu.value is not None),
        None if disks is None else sum(info.kind == "disk" for info in disks.values()),
        frame.verdict.missing,
        tool,
        snapshot.host.origin,
    )


def _finding(finding: Finding, diagnosis: Diagnosis, frame: Frame) -> FindingStory:
    total = diagnosis.total_of(finding)
    # The whole run is judged, so the verdict is not "measuring".
    verdict = frame.verdict._replace(findings=(finding,), watched_s=frame.verdict.needed_s)
    return FindingStory(
        finding,
        total.active_ns / 1e9,
        total.primary_ns / 1e9,
        total.lost_ns / 1e9,
        text_of(diagnosis.headline(finding)),
        text_of(because(verdict)),
        ruled_out_text(verdict),
        text_of(advice(verdict)),
    )
