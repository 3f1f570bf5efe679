"""How a loader's run ended if it gave no figures. The reason for the failure is derived from these facts."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple


class LoaderProcess(NamedTuple):
    """A process of the loader at the end of the run.

    state: the letter in /proc/PID/stat
    wchan: the kernel function in which it sleeps; "" if unknown
    frame: the line of the user's Python code that it executes; "" if unknown
    exit_status: the status from wait(2) if it has ended; otherwise None
    """

    pid: int
    worker: bool
    state: str
    wchan: str = ""
    frame: str = ""
    exit_status: int | None = None


class Outcome(NamedTuple):
    """The end of a loader's run.

    phase: the last phase: import, build, start or batches
    start: the start method of the workers; "" for Python's default
    silent_s: the seconds without a batch or a step; 0 if the run did not hang
    returncode: the exit code of the loader's main process; None if it had not ended
    error, text, trace: the exception's class, message and traceback; "" without one
    refused: why the factory's loader cannot be run in several configurations
    stderr: the end of the output on stderr
    processes: the processes of the loader at the end of the run
    busy_cores: the mean number of cores that they used during ``silent_s``; None if the run did not hang
    shm_bytes: the size of /dev/shm
    least_shm_free_bytes: the least free space of /dev/shm during the run
    workers: the number of workers in the configuration
    container: the kind of container that it ran in; "" outside a container
    empty: whether the loader gave no batch; ``refused`` has the reason
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
    processes: tuple[LoaderProcess, ...] = ()
    busy_cores: float | None = None
    shm_bytes: int | None = None
    least_shm_free_bytes: int | None = None
    workers: int = 0
    container: str = ""
    empty: bool = False
