"""Calls that may hang run on daemon threads, so that a dead server blocks only its own thread.

Access outside /proc, /sys and /dev (the user's home, a name service, statvfs of a mount) may hang while a server is
down. The sampling thread, the screen and the exit must not wait for it.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.job.task_states import REMOTE

T = TypeVar("T")
HOME_TIMEOUT_S = 1.0
"""How long the start, a key or the exit waits for the user's home."""

_stuck: dict[str, threading.Thread] = {}
"""Thread of each call that exceeded its timeout, by place. While it hangs, new calls for that place fail at once."""


def call_with_timeout(seconds: float, place: str | os.PathLike[str], call: Callable[[], T]) -> T:
    """The result of ``call``, which accesses ``place``. Raises its exceptions, and TimeoutError after ``seconds``.

    After a timeout its thread stays; until it ends, further calls for the same place fail at once.
    """
    if sys.is_finalizing():  # no thread can start any more, so waiting for one would never end
        return call()
    place = os.fspath(place)
    before = _stuck.get(place)
    if before is not None:
        before.join(0.0)
        if before.is_alive():
            raise TimeoutError(errno.ETIMEDOUT, "no answer", place)
        _stuck.pop(place, None)
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # raised in the caller below
            errors.append(error)

    thread = threading.Thread(target=run, name="with-timeout", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _stuck[place] = thread
        raise TimeoutError(errno.ETIMEDOUT, f"no answer for {seconds:g} s", place)
    if errors:
        raise errors[0]
    return results[0]


def blocked_threads() -> int:
    """Number of our own threads that no signal can stop: in state D, or asleep until a FUSE server answers.

    Source: /proc/self/task/TID/stat and wchan.
    """
    root, blocked = Root(), 0
    for tid in root.names("proc/self/task"):
        state = root.text_or(f"proc/self/task/{tid}/stat").rpartition(")")[2][1:2]
        blocked += state == "D" or root.text_or(f"proc/self/task/{tid}/wchan").encode().startswith(REMOTE)
    return blocked


class BackgroundWorker:
    """A daemon thread that runs one job at a time for a thread that may not wait. The first job starts it.

    A job stores its result itself and raises nothing. Used by one thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._job: Callable[[], None] | None = None
        # Plain locks: a semaphore and an event would cost each tick 0.1 ms more.
        self._submitted, self._running = threading.Lock(), threading.Lock()
        self._submitted.acquire()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, job: Callable[[], None]) -> bool:
        """Start a job; False while the previous job runs, while no thread can start, and after ``close``."""
        if self._closed or not self._running.acquire(blocking=False):
            return False
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # this user has too many threads; the next job may start one
                self._running.release()
                return False
            self._thread = thread
        self._job = job
        self._submitted.release()
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for the job to end, at most ``seconds``; returns whether it has. True without a job."""
        if not self._running.acquire(timeout=seconds):
            return False
        self._running.release()
        return True

    @property
    def busy(self) -> bool:
        """Whether a job is running."""
        return self._running.locked()

    def close(self) -> None:
        """End the thread, now or after its job. Safe to call twice."""
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
