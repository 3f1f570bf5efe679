"""What the user chose, as frozen records; cli reads flags (and later TOML) into them."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

THEMES = ("dark", "light", "ansi", "ansi-light", "mono", "cvd")
SORT_KEYS = ("io", "read", "write", "delay", "cpu", "name", "user")
SHORTEST_S, LONGEST_S = 0.1, 3600.0
"""Between two readings."""
CMDLINE_LEVELS = ("names", "redacted", "full")


class Marks(NamedTuple):
    """From where on a figure stands out on the screen; the verdict has limits of its own. 0: never.

    io_wait: percent of a process's time. await_ms: ms of a read or a write. util: percent.
    """

    io_wait: float = 50.0
    await_ms: float = 0.0
    util: float = 0.0


class Settings(NamedTuple):
    """interval_s: 0.1 to 3600. devices: kernel names or labels to show, () all. path: the folder they came from.

    theme: one of THEMES, "" chooses by terminal. smart: whether smartctl is asked at all; smartctl: its path or "".
    smart_types: (disk, what ``smartctl -d`` is given for it), for disks behind a USB bridge or a RAID controller.
    cmdline: how much of a command line is written, printed or copied. remember: whether the screen begins as it was
    left. hidden: panels that are not shown. no_columns: ids of columns of the processes that are not shown. tree: each
    process below its parent. keymap: (action, its keys) of those that have other keys than the defaults. chosen: names
    of the fields that the user set, by whatever means. job: a process of the job that the verdict is about, 0: as the
    verdict chooses. exact: every process is read in every tick, however many there are. procfs,
    sysfs: where the machine's trees are mounted, "" for our own; others are looked at only, so ``readonly`` is set too.
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
