"""The user's settings as immutable records; cli/ reads them from options, environment and settings file."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

THEMES = ("dark", "light", "ansi", "ansi-light", "mono", "cvd")
SORT_KEYS = ("io", "read", "write", "delay", "cpu", "name", "user")
SHORTEST_S, LONGEST_S = 0.1, 3600.0
"""The shortest and the longest time between two readings, in seconds."""
UNITS = ("binary", "decimal")
"""The systems of units for rates: a MB is 1,048,576 B as in the kernel's tools, or 1,000,000 B as in data sheets."""
CMDLINE_LEVELS = ("names", "redacted", "full")


class Marks(NamedTuple):
    """Figures at or above these values are highlighted on the screen; 0 for never. The verdict does not use them.

    io_wait: how much of its time a process waits for I/O, in percent
    await_ms: the mean time of a read or a write, in ms
    util: how much of the time a device is busy, in percent
    """

    io_wait: float = 50.0
    await_ms: float = 0.0
    util: float = 0.0


class Settings(NamedTuple):
    """The effective settings of a run.

    interval_s: the seconds between two readings, 0.1 to 3600
    devices: the kernel names or labels of the devices to show; () for all
    path: the folder whose devices were selected; "" without one
    only_active: whether idle disks and processes are hidden
    accumulated: whether sums since the first Snapshot are shown instead of rates
    theme: one of THEMES; "" to choose one that fits the terminal
    readonly: whether actions that change the machine are refused
    smart: whether smartctl is used at all
    smartctl: the path of smartctl; "" to search for it
    smart_types: pairs of (disk, argument of ``smartctl -d``), for disks behind a USB bridge or a RAID controller
    cmdline: how much of a command line is written, printed or copied, one of CMDLINE_LEVELS
    remember: whether the screen restores its last view
    hidden: the panels that are not shown
    keymap: pairs of (action, its keys) for actions whose keys are not the defaults
    chosen: the names of the fields that the user has set, by option, environment or file
    job: the pid of any process of the job that the verdict is about; 0 to choose the job automatically
    tree: whether each process is listed below its parent
    no_columns: the ids of the process columns that are hidden
    exact: whether every process is read in every tick, no matter how many there are
    procfs, sysfs: the folders with the /proc and /sys to read; "" for those of this machine. ``readonly`` is always
        true with other folders
    """

    interval_s: float = 1.0
    devices: tuple[str, ...] = ()
    path: str = ""
    only_active: bool = False
    accumulated: bool = False
    sort: str = "io"
    reverse: bool = False
    theme: str = ""
    ascii_only: bool = False
    mouse: bool = True
    readonly: bool = False
    smart: bool = True
    smartctl: str = ""
    smart_interval_s: float = 300.0
    smart_types: tuple[tuple[str, str], ...] = ()
    cmdline: str = "names"
    remember: bool = True
    hidden: tuple[str, ...] = ()
    marks: Marks = Marks()
    keymap: tuple[tuple[str, tuple[str, ...]], ...] = ()
    chosen: frozenset[str] = frozenset()
    job: int = 0
    tree: bool = False
    no_columns: tuple[str, ...] = ()
    exact: bool = False
    procfs: str = ""
    sysfs: str = ""
    units: str = "binary"
