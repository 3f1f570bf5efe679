"""The end of a configuration that gave no figures, from which its failure is judged."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple


class Stuck(NamedTuple):
    """A process of the loader at the end. state: as in /proc/PID/stat. wchan: the kernel function it sleeps in.

    frame: the user's line of Python. "" is unknown. exit_status: wait(2)'s status of a process that ended; else None.
    """

    pid: int
    worker: bool
    state: str
    wchan: str = ""
    frame: str = ""
    exit_status: int | None = None


class Outcome(NamedTuple):
    """The end of a loader's run.

    phase: import, build, start, batches. silent_s: time without a batch or a step; 0 when it did not hang.

    returncode: the loader process's own, None while it ran. error, text, trace: the exception. refused: why the
    factory cannot be swept, or gave no batch (empty). stderr: the end of its output. shm_free_bytes: the least
    free space of /dev/shm. workers: the configuration's.
    """

    phase: str
    start: str = ""
    silent_s: float = 0.0
    returncode: int | None = None
    error: str = ""
    text: str = ""
    trace: str = ""
    refused: str = ""
    stderr: str = ""
    stuck: tuple[Stuck, ...] = ()
    busy_cores: float | None = None
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    workers: int = 0
    empty: bool = False
