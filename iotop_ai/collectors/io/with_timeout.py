"""Uses a daemon thread for each call that may hang, so that a dead server blocks only that thread.

While a server is down, any access outside /proc, /sys and /dev may hang: access to the user's home, a name service, or
a mount (statvfs). The sampling thread, the screen and the exit must not wait for such an access.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.job.task_states import REMOTE

if TYPE_CHECKING:
    from iotop_ai.model.block.counters import Mount

T = TypeVar("T")
HOME_TIMEOUT_S = 1.0
"""How long start-up, a key press or the exit waits for the user's home, in seconds."""

_stuck: dict[str, tuple[threading.Thread, Mount | None]] = {}
"""The thread of each call that exceeded its timeout, and the mount that contained the place at that time, by place.

A place names what a call accesses: a path or another name (see ``call_with_timeout``). While such a thread hangs, new
calls for the same place fail at once, unless another mount contains the place now: a thread that hangs in a dead mount
keeps hanging after the mount is replaced.
"""


def call_with_timeout(seconds: float, place: str | os.PathLike[str], call: Callable[[], T]) -> T:
    """Return the result of ``call``.

    place: the path that ``call`` accesses, or another name for what it accesses. Raises the exceptions of ``call``, and
    TimeoutError after ``seconds``, or at once when no thread can start. While Python exits, the call has no timeout.
    The thread of a late call goes on; until it ends or another filesystem is mounted at the place, further calls for
    the same place fail at once.
    """
    if sys.is_finalizing():  # no thread can start any more, and we would wait for the result forever
        return call()
    place = os.fspath(place)
    before = _stuck.get(place)
    if before is not None:
        earlier, mount = before
        earlier.join(0.0)
        if earlier.is_alive() and mount == _mount_of(place):
            raise TimeoutError(errno.ETIMEDOUT, "no answer", place)
        _stuck.pop(place, None)
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # the thread of the caller raises it again
            errors.append(error)

    thread = threading.Thread(target=run, name="with-timeout", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # this user has too many threads; on our own thread, the call could block us forever
        raise TimeoutError(errno.EAGAIN, str(error), place) from None
    thread.join(seconds)
    if thread.is_alive():
        _stuck[place] = thread, _mount_of(place)
        raise TimeoutError(errno.ETIMEDOUT, f"no answer for {seconds:g} s", place)
    if errors:
        raise errors[0]
    return results[0]


def _mount_of(place: str) -> Mount | None:
    """Return the mount that contains a place, without access to it; None if unknown or if the place is not a path."""
    if not place.startswith("/"):
        return None
    from iotop_ai.collectors.machine.mounts import every_mount, mount_of  # imported here, because it is rarely needed

    try:
        mount = mount_of(place, every_mount(Root().read("proc/self/mountinfo")))
    except OSError:
        return None
    # A mount that becomes read-only is still the same.
    return None if mount is None else mount._replace(read_only=False)


def blocked_threads() -> int:
    """Return how many of our own threads cannot be stopped by a signal.

    These threads are in state D, or wait for the server of a FUSE or cluster filesystem. Source:
    /proc/self/task/TID/stat and wchan.
    """
    root, blocked = Root(), 0
    for tid in root.names("proc/self/task"):
        state = root.text_or(f"proc/self/task/{tid}/stat").rpartition(")")[2][1:2]
        blocked += state == "D" or root.text_or(f"proc/self/task/{tid}/wchan").encode().startswith(REMOTE)
    return blocked


class BackgroundWorker:
    """A daemon thread that runs one job at a time for a thread that must not wait. The first job starts the thread.

    A job must store its result itself and must not raise an exception. Only one thread may use a BackgroundWorker.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._job: Callable[[], None] | None = None
        # ``_submitted`` is held while no job waits, and ``_running`` while a job waits or runs. These are plain locks,
        # because a semaphore and an event would add 0.1 ms to each tick.
        self._submitted, self._running = threading.Lock(), threading.Lock()
        self._submitted.acquire()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, job: Callable[[], None]) -> bool:
        """Start a job; return whether it was started.

        The job is not started while the previous job runs, when no thread can be started, and after ``close``.
        """
        if self._closed or not self._running.acquire(blocking=False):
            return False
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # this user has too many threads; a later job may be able to start one
                self._running.release()
                return False
            self._thread = thread
        self._job = job
        self._submitted.release()
        return True

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the job to end; return whether it has ended. True if there is no job."""
        if not self._running.acquire(timeout=seconds):
            return False
        self._running.release()
        return True

    @property
    def busy(self) -> bool:
        """Whether a job waits or runs."""
        return self._running.locked()

    def close(self) -> None:
        """End the thread, after its job if one is running. A job that has not begun may never run.

        A second call does nothing.
        """
        if not self._closed:
            self._closed = True
            if self._submitted.locked():
                self._submitted.release()

    def _run(self) -> None:
        while True:
            self._submitted.acquire()
            job = self._job
            if self._closed or job is None:
                return
            job()
            self._running.release()
            if self._closed:
                return
