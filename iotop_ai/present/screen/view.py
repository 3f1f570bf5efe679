"""The state of the screen: all that a picture depends on besides the Frame."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Severity
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.sample import Sample
from iotop_ai.model.settings import Marks
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.screen.keymap import Keymap
from iotop_ai.present.text.frame_cache import FrameCache


class Timeline(NamedTuple):
    """The time line of a recording; all times are wall times in ns.

    changes: (time, state word) at each change of the verdict, oldest first; known_ns: end of the part that was read.
    marks: (time, text). gaps: (begin, end) of spans without a Snapshot. ends: (time, text, whether it is bad) of
    a job's processes that ended, and of kills by the OOM killer. alerts: (time, text, whether it is critical) of rules
    that fired.
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
    """A recording in progress. trouble: why writing stopped, "" while it works.

    lost: Snapshots that could not be written. lost_events: those of their events that no later Snapshot carries.
    """

    path: str
    seconds: float
    size_bytes: int
    trouble: str = ""
    lost: int = 0
    lost_events: int = 0


class FiringAlert(NamedTuple):
    """A rule that fires."""

    rule: str
    severity: Severity


class Problem(NamedTuple):
    """A fault of this machine that doctor finds. name: doctor's id for it, by which it is dismissed."""

    name: str
    text: str


class View(NamedTuple):
    """The screen's state, which the app owns and passes to every ``*_rows`` function."""

    interval_s: float = 1.0
    device: str = ""
    """Kernel name of the selected device; "" follows the busiest."""
    sort: str = "io"
    """One of model.settings.SORT_KEYS."""
    reverse: bool = False
    only_active: bool = False
    pattern: str = ""
    """The filter as typed; "" none."""
    typing: bool = False
    """Whether the filter is being typed."""
    pattern_selected: bool = False
    """Whether the filter is the previous one, which the next character replaces."""
    base: Snapshot | None = None
    """Start of accumulation, since which figures are totals; None: figures are rates."""
    mode: str = "live"
    """ "live", "paused", "replay", "back", or "ended" for a remote source that has ended."""
    focus: str = "banner"
    """The focused panel: "banner", "timeline", "path", "graphs", "gpu", "disk", "process" or "system"."""
    cursor: str = ""
    """Key of the row under the cursor of the focused panel."""
    scroll: int = 0
    """First row of the focused panel."""
    devices: tuple[str, ...] = ()
    """Only these kernel names; () all."""
    ascii_only: bool = False
    hidden: frozenset[str] = frozenset()
    """Panels toggled off."""
    zoom: str = ""
    """The panel that has the whole window; "" for all panels."""
    message: str = ""
    """The answer to the last key ("done: sorted by cpu"), beside the keys for 4 s."""
    past: tuple[Sample, ...] = ()
    """Samples older than the Frame's history, oldest first, for graphs longer than a minute; () without any."""
    utc_offset_s: int | None = None
    """Seconds east of UTC for displayed times; None: this machine's time zone."""
    timeline: Timeline | None = None
    """The time line of the recording or of the last hour; None without one."""
    playing: bool = False
    """Whether a recording plays."""
    speed: float = 1.0
    """Playback speed."""
    back_s: float = 0.0
    """While looking back: seconds before now."""
    recording: RecordingState | None = None
    """The recording in progress; None without one."""
    readonly: bool = False
    """Whether the keys that change the machine are off."""
    remote: bool = False
    """Whether the source is a live remote machine, which takes no requests."""
    time_input: str | None = None
    """The time being typed; None outside the input row."""
    mark_input: str | None = None
    """The text of a mark being typed; None outside the input row."""
    keymap: Keymap = ()
    """The actions whose keys are not the defaults."""
    marks: Marks = Marks()
    """The values from which figures are highlighted."""
    cmdline: str = "names"
    """The part of a command line that is written or copied from the screen."""
    job: int = 0
    """A pid of the job for the verdict; 0: the verdict chooses the job."""
    follow_job: bool = False
    """Whether ``device`` follows the job."""
    tree: bool = False
    """Whether each process has its own row, under its parent's."""
    no_columns: frozenset[str] = frozenset()
    """Hidden columns of the process panel, by id."""
    silent_s: int | None = None
    """Seconds without a reading, once they are too many; else None."""
    silent_in: str = ""
    """The Snapshot's field whose read hangs; "" when unknown."""
    tagged: frozenset[ProcessKey] = frozenset()
    """The tagged processes."""
    for_picture: bool = False
    """Whether the screen is drawn for a picture file, which must not show environment variables."""
    firing: tuple[FiringAlert, ...] = ()
    """The alerts that fire now, oldest first."""
    problems: tuple[Problem, ...] = ()
    """The problems that doctor finds and the user has not dismissed, the worst first."""
    dismissed: frozenset[str] = frozenset()
    """Names of problems that the user dismissed."""
    units: str = "binary"
    """One of model.settings.UNITS: the size of a MB in rates."""
    listed: int = 0
    """Rows that the newest layout kept for the list of processes; 0 before the first."""
    cache: FrameCache | None = None
    """The cache of this screen's panels; None: nothing is cached."""

    @property
    def not_live(self) -> str:
        """Why actions that need this machine as it is now are not available; "" where they are."""
        if self.mode == "back":
            return "not available for the past: End returns to now"
        if self.remote or self.mode == "ended":
            return "not available from another machine"
        return "not available in a replay" if self.mode == "replay" else ""
