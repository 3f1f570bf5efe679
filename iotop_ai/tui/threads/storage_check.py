"""The thread of a storage check. The storage may answer late or never, which must not block the screen."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from textual.message import Message

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, IotopError, UnknownError
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import plan
from iotop_ai.preflight.storage.check import Progress, StorageCheck
from iotop_ai.preflight.storage.gather import compare_and_keep, gather
from iotop_ai.preflight.storage.other_reads import OtherReads
from iotop_ai.preflight.storage.place import ANSWER_S, read_place
from iotop_ai.preflight.storage.session import Request
from iotop_ai.present.preflight.storage import progress_text

READERS = 4
"""The number of readers of small files in the last phase, the default of ``iotop-ai check``."""


class CheckStep(Message):
    """The running phase in words, and the report so far. phases: the number of all phases."""

    def __init__(self, report: Report, step: str, phases: int) -> None:
        self.report = report
        self.step = step
        self.phases = phases
        super().__init__()


class CheckEnded(Message):
    """The end of the check. report: the figures; None if there are none. error: why there are none."""

    def __init__(self, report: Report | None, error: str = "") -> None:
        self.report = report
        self.error = error
        super().__init__()


def _expanded(path: str) -> str:
    """Replace "~" or "~name" at the start of a path by the home. Raises InputError or UnknownError.

    The name service knows the home, and does not answer while its server is down.
    """
    place = path.partition("/")[0]
    try:
        expanded = call_with_timeout(ANSWER_S, place, lambda: os.path.expanduser(path)) if place else path
    except TimeoutError as error:
        raise UnknownError(f"{clean(path)}: the home of {clean(place)} is not known: {error.strerror}") from None
    if not os.path.isabs(expanded):
        raise InputError(f"{clean(path)}: the home of {clean(place)} is not known")
    return expanded


class CheckThread:
    """Runs one check.

    path: a full path, or one that begins with "~". post_message: posts a message to the dialog that shows the check.
    """

    def __init__(self, path: str, seconds: float, *, write: bool, post_message: Callable[[Message], bool]) -> None:
        self._path, self._seconds, self._write = path, seconds, write
        self._post_message = post_message
        self._lock = threading.Lock()
        self._running: StorageCheck | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="storage-check", daemon=True)

    def start(self) -> None:
        """Start the check. Raises RuntimeError when this user has too many threads."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the check to end early. It then removes its file, and posts its end."""
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.stop()

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the check to end; returns whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        clock, root = Clock(), Root("/")
        try:
            path = _expanded(self._path)
            place = read_place(path, root, clock)
            phases = plan(self._seconds, READERS)
            report = Report(place, 0)
            self._post_message(CheckStep(report, "", len(phases)))
            with self._lock:
                if self._stopped:
                    self._post_message(CheckEnded(report))
                    return
                others = OtherReads(place, root)
                running = self._running = StorageCheck(Request(path, phases, write=self._write), clock)
            try:
                report, end = gather(report, running.messages(), clock, lambda r, p: self._show(r, p, len(phases)))
            finally:
                running.close()
        except (IotopError, OSError, ValueError, RuntimeError) as error:  # RuntimeError: too many threads
            self._post_message(CheckEnded(None, str(error)))
            return
        if self._stopped:
            report = report._replace(failed="", notes=(*report.notes, "stopped early: the figures cover only a part"))
        elif not (end.error or end.hung_s):
            report = compare_and_keep(report._replace(other_ratio=others.ratio()), self._seconds)
        self._post_message(CheckEnded(report))

    def _show(self, report: Report, step: Progress, phases: int) -> None:
        self._post_message(CheckStep(report, progress_text(*step), phases))
