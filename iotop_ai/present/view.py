"""What the viewer chose: everything that decides how a Frame is shown and is not in the Frame."""

from __future__ import annotations

from iotop_ai.model.process import ProcessKey
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample
from iotop_ai.model.settings import Marks
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.keymap import Keymap


class Timeline(NamedTuple):
    """What a recording's time line shows; all times are wall times in ns.

    changes: (time, state word) at each change of the verdict, oldest first; known_ns: how far they have been read.
    marks: (time, text). gaps: (begin, end) of stretches without a Snapshot. ends: (time, text, whether it is bad) of
    a job's processes that ended, and kills for memory.
    """

    begin_ns: int
    end_ns: int
    known_ns: int
    changes: tuple[tuple[int, str], ...] = ()
    marks: tuple[tuple[int, str], ...] = ()
    gaps: tuple[tuple[int, int], ...] = ()
    ends: tuple[tuple[int, str, bool], ...] = ()


class Recorded(NamedTuple):
    """A recording that is being written. trouble: why nothing is written now, "" when all is well."""

    path: str
    seconds: float
    size_bytes: int
    trouble: str = ""


class View(NamedTuple):
    """The screen's state, held by the front and handed to every ``*_rows`` function.

    device: kernel name of the chosen device, "" follows the busiest. sort: one of model.settings.SORT_KEYS.
    pattern: the filter as typed, "" none. base: start of accumulation (then figures are since base), else None.
    mode: "live", "paused", "replay", "back", "ended" (a remote source that is through). focus: name of the focused
    panel ("banner", "timeline", "path", "graphs", "gpu", "disk", "process", "system"). cursor: row key under the
    cursor of the focused panel. scroll: first row shown. devices: only these kernel names, () all. ascii_only: no
    glyph beyond ASCII. hidden: panels toggled off.
    """

    interval_s: float = 1.0
    device: str = ""
    sort: str = "io"
    reverse: bool = False
    only_active: bool = False
    pattern: str = ""
    typing: bool = False
    base: Snapshot | None = None
    mode: str = "live"
    focus: str = "banner"
    cursor: str = ""
    scroll: int = 0
    devices: tuple[str, ...] = ()
    ascii_only: bool = False
    hidden: frozenset[str] = frozenset()
    message: str = ""
    """A short answer to the last key ("done: sorted by cpu"), shown above the keys for 4 s."""
    past: tuple[Sample, ...] = ()
    """Samples older than the Frame's history, oldest first, for graphs longer than a minute; () when none are kept."""
    utc_offset_s: int | None = None
    """Seconds east of UTC of the times shown; None is the zone of the machine that shows them."""
    timeline: Timeline | None = None
    """Of what is looked at, a recording or the last hour; None where there is no time line."""
    playing: bool = False
    """While looking at a recording: whether it runs."""
    speed: float = 1.0
    """How fast it runs."""
    back_s: float = 0.0
    """While looking back: how long before now."""
    recorded: Recorded | None = None
    """The recording that is being written; None when none is."""
    readonly: bool = False
    """Whether no key changes anything on the machine."""
    remote: bool = False
    """Whether what is shown comes from elsewhere as it happens: nothing can be asked of its source."""
    asking: str | None = None
    """A time that is being typed, None when none is."""
    keymap: Keymap = ()
    """The actions that have other keys than the defaults."""
    marks: Marks = Marks()
    """From where on a figure stands out."""
    cmdline: str = "names"
    """How much of a command line is written or copied from the screen."""
    job: int = 0
    """A process of the job that the verdict is about; 0 is the one that the verdict chooses by itself."""
    follow_job: bool = False
    """Whether ``device`` is that of the job, whichever it is."""
    tree: bool = False
    """Whether each process has a row of its own, under its parent's."""
    no_columns: frozenset[str] = frozenset()
    """Columns of the processes that are not shown, by id."""
    tagged: frozenset[ProcessKey] = frozenset()
    """The processes that are tagged."""
