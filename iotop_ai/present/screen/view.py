"""The state of the screen: everything besides the Frame that its rows depend on."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Severity
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.sample import Sample
from iotop_ai.model.settings import Marks
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.screen.keymap import Keymap, first_key
from iotop_ai.present.text.frame_cache import FrameCache


class Timeline(NamedTuple):
    """The timeline of a recording or of the last hour. All times are wall-clock times in nanoseconds.

    known_ns: the end of the part that was read. changes: (time, state) of each change of the verdict, the oldest first.
    marks: (time, text). gaps: (begin, end) of each stretch without a Snapshot. ends: (time, text, whether it is bad) of
    each fault, each end of a trainer and each crash of a worker. alerts: (time, text, whether it is critical) of each
    rule that fired.
    """

    begin_ns: int
    end_ns: int
    known_ns: int
    changes: tuple[tuple[int, str], ...] = ()
    marks: tuple[tuple[int, str], ...] = ()
    gaps: tuple[tuple[int, int], ...] = ()
    ends: tuple[tuple[int, str, bool], ...] = ()
    alerts: tuple[tuple[int, str, bool], ...] = ()


class RecordingState(NamedTuple):
    """The state of a recording.

    path: its newest file. seconds: its duration. trouble: why writing stopped; "" while it works. lost: the number of
    Snapshots that could not be written. lost_events: the number of their events that later Snapshots do not repeat.
    first_path: its first file, if errors made it continue in others; otherwise ``path`` or "".
    """

    path: str
    seconds: float
    size_bytes: int
    trouble: str = ""
    lost: int = 0
    lost_events: int = 0
    first_path: str = ""


class FiringAlert(NamedTuple):
    """An alert rule that fires."""

    rule: str
    severity: Severity


class Problem(NamedTuple):
    """A problem of this machine that doctor found. name: doctor's id of the problem, by which the user dismisses it."""

    name: str
    text: str


class View(NamedTuple):
    """The state of the screen, which the app passes to every ``*_rows`` function."""

    interval_s: float = 1.0
    device: str = ""
    """The kernel name of the selected disk; "" for the disk that the verdict names, or else the busiest."""
    sort: str = "io"
    """The order of the processes, one of model.settings.SORT_KEYS."""
    reverse: bool = False
    only_active: bool = False
    pattern: str = ""
    """The filter as typed; "" for none."""
    typing: bool = False
    """Whether the user is typing the filter."""
    pattern_selected: bool = False
    """Whether the filter is still the previous one, which the next character replaces."""
    base: Snapshot | None = None
    """The Snapshot at which accumulation began: figures are totals since then. None while figures are rates."""
    mode: str = "live"
    """ "live", "paused", "replay", "back" (looking back), or "ended" for a remote source that has ended."""
    focus: str = "banner"
    """The focused panel: "banner", "timeline", "path", "graphs", "gpu", "disk", "process" or "system"."""
    cursor: str = ""
    """The key of the row under the cursor in the focused panel; "" for none."""
    scroll: int = 0
    """The index of the first row shown in the focused panel."""
    devices: tuple[str, ...] = ()
    """The kernel names of the disks to show; () for all."""
    ascii_only: bool = False
    hidden: frozenset[str] = frozenset()
    """The panels that the user has hidden."""
    zoom: str = ""
    """The panel that fills the whole window; "" for all panels."""
    message: str = ""
    """The answer to the last key ("done: sorted by cpu"), or an alert, shown beside the keys for 4 s; "" for none."""
    past: tuple[Sample, ...] = ()
    """The Samples older than the Frame's history, the oldest first, for graphs longer than a minute; () for none."""
    utc_offset_s: int | None = None
    """The offset of the times shown, in seconds east of UTC; None for this machine's time zone."""
    timeline: Timeline | None = None
    """The timeline of the recording or of the last hour; None if none is shown."""
    playing: bool = False
    """Whether the recording plays."""
    speed: float = 1.0
    """The speed at which the recording plays, as a multiple of real time."""
    back_s: float = 0.0
    """When the user looks back: the seconds between the time shown and now."""
    recording: RecordingState | None = None
    """The recording being written; None if there is none."""
    readonly: bool = False
    """Whether the keys that change the machine are disabled."""
    remote: bool = False
    """Whether the source is a live remote machine, which does not take requests."""
    time_input: str | None = None
    """The time that the user is typing; None if the input row is closed."""
    mark_input: str | None = None
    """The text of the mark that the user is typing; None if the input row is closed."""
    text_right: int = 0
    """The characters to the right of the cursor in the filter, time or mark that the user is typing."""
    keymap: Keymap = ()
    """The actions whose keys differ from the defaults."""
    marks: Marks = Marks()
    """Figures at or above these values are highlighted; a value of 0 highlights none."""
    cmdline: str = "names"
    """How much of a command line is recorded, or copied from the screen."""
    job: int = 0
    """The pid of a process of the job that the user chose for the verdict; 0 if the verdict chooses the job."""
    follow_job: bool = False
    """Whether ``device`` is always the disk that the verdict's job reads from."""
    tree: bool = False
    """Whether each process has a row, under its parent."""
    no_columns: frozenset[str] = frozenset()
    """The ids of the process panel's hidden columns."""
    silent_s: int | None = None
    """The seconds since the last reading, if the next one is overdue; otherwise None."""
    silent_in: str = ""
    """The field of the Snapshot whose read hangs; "" when unknown."""
    tagged: frozenset[ProcessKey] = frozenset()
    """The tagged processes."""
    unredacted: Snapshot | None = None
    """While the screen is drawn for a screenshot file, which must not show environment variables: the Snapshot with
    whole command lines, in which the filter searches; otherwise None.
    """
    firing: tuple[FiringAlert, ...] = ()
    """The alerts that fire now, the oldest first."""
    problems: tuple[Problem, ...] = ()
    """The problems that doctor found and the user has not dismissed, the worst first."""
    dismissed: frozenset[str] = frozenset()
    """The names of the problems that the user dismissed."""
    units: str = "binary"
    """The unit system of rates, one of model.settings.UNITS."""
    listed: int = 0
    """The number of rows that the last layout kept for the process list; 0 before the first layout."""
    cache: FrameCache | None = None
    """The cache of this screen's panels; None if nothing is cached."""

    @property
    def why_not_live(self) -> str:
        """Why actions that need this machine as it is now are not available; "" if they are."""
        if self.mode == "back":
            key = first_key("cursor.last", self.keymap)
            return "not available for the past" + (f": {key} returns to now" if key else "")
        if self.remote or self.mode == "ended":
            return "not available from another machine"
        return "not available in a replay" if self.mode == "replay" else ""
