"""The user's settings, as frozen records; cli reads them from flags, environment and file."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

THEMES = ("dark", "light", "ansi", "ansi-light", "mono", "cvd")
SORT_KEYS = ("io", "read", "write", "delay", "cpu", "name", "user")
SHORTEST_S, LONGEST_S = 0.1, 3600.0
"""Shortest and longest seconds between two readings."""
UNITS = ("binary", "decimal")
"""The sizes of a MB in rates: 1,048,576 B as the kernel tools have it, or 1,000,000 B as data sheets have it."""
CMDLINE_LEVELS = ("names", "redacted", "full")


class Marks(NamedTuple):
    """The values from which figures are highlighted on the screen; the verdict has its own limits. 0: never.

    io_wait: percent of a process's time. await_ms: ms of a read or a write. util: percent.
    """

    io_wait: float = 50.0
    await_ms: float = 0.0
    util: float = 0.0


class Settings(NamedTuple):
    """The effective settings of a run.

    interval_s: 0.1 to 3600. devices: kernel names or labels to show, () all. path: the folder that selected them.
    theme: one of THEMES, "" chooses by terminal. smart: whether smartctl is used at all; smartctl: its path or "".
    smart_types: (disk, argument of ``smartctl -d``), for disks behind a USB bridge or a RAID controller. cmdline: the
    part of a command line that is written, printed or copied. remember: whether the screen restores its last view.
    hidden: panels that are not shown. no_columns: ids of hidden columns of the processes. tree: each process below its
    parent. keymap: (action, its keys) where they are not the defaults. chosen: names of the fields that the user set,
    by whatever means. job: a process of the job for the verdict, 0: the verdict chooses. exact: every process is read
    in every tick, however many there are. procfs, sysfs: mount points of the machine's trees, "" for our own; other
    trees are only read, so ``readonly`` is set too.
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
