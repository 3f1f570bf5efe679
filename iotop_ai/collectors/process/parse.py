"""Parses /proc/PID files. The functions are pure: they take bytes and return records.

Formats: proc_pid_stat(5), proc_pid_io(5), proc_pid_status(5), https://docs.kernel.org/filesystems/proc.html. Kernel
sources: fs/proc/array.c, fs/proc/base.c.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeVar

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.job.batch_ids import first_batch_path
from iotop_ai.model.process.records import ProcessIo, ProcessStat

T = TypeVar("T", bound=Hashable)

PF_KTHREAD = 0x00200000
"""The bit in the flags field of /proc/PID/stat that marks a kernel thread (include/linux/sched.h)."""
MOST_ARGUMENTS = 64
"""The most arguments that are kept of a command line. More arguments would only enlarge recordings."""


class ParsedStat(NamedTuple):
    """One line of /proc/PID/stat.

    comm: the raw bytes between the outermost parentheses, with any control characters. exit_status: field 52, the wait
    status of a zombie; also 0 when we cannot read it.
    """

    comm: bytes
    flags: int
    start_ticks: int
    record: ProcessStat
    exit_status: int = 0


def parse_stat(raw: bytes) -> ParsedStat:
    """Parse fields 1 to 52 of /proc/PID/stat: ``9663 (cat) R 9657 9657 4140 0 -1 4194304 100 0 0 ...``.

    comm is the text between the first "(" and the last ")", and may contain spaces, parentheses and line ends. Raises
    ValueError when the line has fewer than the 42 fields of Linux 2.6.18.
    """
    opening, closing = raw.find(b"("), raw.rfind(b")")
    fields = raw[closing + 1 :].split()
    if opening < 0 or closing < 0 or len(fields) < 40:
        raise ValueError("a stat line has fewer than 42 fields")
    return ParsedStat(
        raw[opening + 1 : closing],
        int(fields[6]),
        int(fields[19]),
        ProcessStat(
            clean_bytes(fields[0], 1),
            int(fields[1]),
            int(fields[7]),
            int(fields[8]),
            int(fields[9]),
            int(fields[11]),
            int(fields[12]),
            int(fields[17]),
            int(fields[21]),
            int(fields[39]),
        ),
        int(fields[49]) if len(fields) > 49 else 0,
    )


def parse_state(raw: bytes) -> tuple[str, int]:
    """Return the state letter and delayacct_blkio_ticks from /proc/PID/task/TID/stat.

    Raises ValueError like ``parse_stat``.
    """
    fields = raw[raw.rfind(b")") + 1 :].split()
    if len(fields) < 40:
        raise ValueError("a stat line has fewer than 42 fields")
    return clean_bytes(fields[0], 1), int(fields[39])


def parse_io(raw: bytes) -> ProcessIo:
    """Parse the seven lines from ``rchar: 6976`` to ``cancelled_write_bytes: 0``.

    Raises ValueError if a line is missing.
    """
    fields = raw.split()
    if len(fields) < 14:
        raise ValueError("an io file has fewer than seven lines")
    return ProcessIo(
        int(fields[1]),
        int(fields[3]),
        int(fields[5]),
        int(fields[7]),
        int(fields[9]),
        int(fields[11]),
        int(fields[13]),
    )


def parse_status(raw: bytes) -> tuple[int, int]:
    """Return (Tgid, effective UID) from /proc/PID/status.

    The lines are ``Tgid:\\t9663`` and ``Uid:\\t0\\t0\\t0\\t0`` (real, effective, ...). The Name line comes first and
    escapes line ends, so a process's name cannot imitate these lines. Raises ValueError when one of them is missing.
    """
    group = raw.find(b"\nTgid:")
    user = raw.find(b"\nUid:")
    if group < 0 or user < 0:
        raise ValueError("a status file lacks Tgid or Uid")
    tgid = int(raw[group + 6 : raw.index(b"\n", group + 1)])
    return tgid, int(raw[user + 5 : raw.index(b"\n", user + 1)].split()[1])


def interned(value: T) -> T:
    """Return an earlier value that equals ``value``, so that thousands of workers of a program share one record."""
    cached: T = _cached(value)
    return cached


@lru_cache(256)
def _cached(value: Hashable) -> Any:
    return value


@lru_cache(64)  # many processes often run the same few programs
def parse_cmdline(raw: bytes) -> tuple[str, ...]:
    """Return the arguments of a command line, without control characters; at most ``MOST_ARGUMENTS``.

    The arguments are separated by NUL bytes. A kernel thread or a zombie has none: (). A program may overwrite its
    title (setproctitle); the result is then usually one argument with spaces.
    """
    trimmed = raw.rstrip(b"\0")
    return tuple(clean_bytes(part) for part in trimmed.split(b"\0")[:MOST_ARGUMENTS]) if trimmed else ()


@lru_cache(256)  # most processes share a cgroup with others
def parse_cgroup(raw: bytes) -> str:
    """Return the path of the cgroup that identifies a process; "" without a cgroup.

    This is the path in ``0::/user.slice`` (v2), or the v1 path of the controller blkio, memory or any other. On a
    machine that uses both versions, the v2 line is often "/" while the v1 controllers have the real path. The first
    path with the ID of a Slurm job, pod or container comes before all others, because the remaining controllers may
    be in the cgroup of the daemon that started the job, pod or container.
    """
    paths: dict[str, str] = {}
    for line in raw.splitlines():
        _, _, rest = line.partition(b":")
        controllers, _, path = rest.partition(b":")
        for name in clean_bytes(controllers).split(","):
            paths[name] = clean_bytes(path)
    ordered = (*(paths.get(name, "/") for name in ("", "blkio", "memory")), *paths.values())
    distinct = [path for path in dict.fromkeys(ordered) if path != "/"]
    if not distinct:
        return "/" if paths else ""
    return distinct[0] if len(distinct) == 1 else first_batch_path(distinct) or distinct[0]
