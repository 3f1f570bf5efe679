"""The child process of a storage check: ``python -m iotop_ai.preflight.storage.child``.

It reads one request, a JSON object, from its standard input. It writes JSON objects, one per line: ``target``,
``progress``, ``dataset``, ``result``, ``note`` and finally ``end``. When the storage hangs, the child first reports
the hang, then waits until it can remove its file. It ends when its parent ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.dataset import Dataset, Decoding
from iotop_ai.model.preflight.storage import Measured, Phase, Target
from iotop_ai.preflight.storage.fio import FioError
from iotop_ai.preflight.storage.reader import HangError, Stop
from iotop_ai.preflight.storage.session import Emit, Request, Session

_PR_SET_PDEATHSIG = 1
PROGRESS_EVERY_NS = 100_000_000


class Lines:
    """Writes messages to standard output, one per line. Stops the session when the reader of the messages is gone."""

    def __init__(self, stop: Stop, clock: Clock) -> None:
        self._stop, self._clock = stop, clock
        self._last_progress_ns = 0
        self._lock = threading.Lock()

    def put(self, message: str, **fields: Any) -> None:
        """Write one line to the parent."""
        raw = json.dumps({"message": message, **fields}).encode() + b"\n"
        try:
            with self._lock:
                os.write(1, raw)
        except OSError:
            self._stop.set()

    def emit(self) -> Emit:
        """Return the functions with which the session reports."""
        return Emit(self._put_target, self._put_progress, self._put_result, self._put_note, self._put_dataset)

    def _put_note(self, text: str) -> None:
        self.put("note", text=text)

    def _put_dataset(self, dataset: Dataset, decoding: Decoding) -> None:
        self.put("dataset", dataset=dataset._asdict(), decoding=decoding._asdict())

    def _put_target(self, target: Target, engine: str) -> None:
        self.put("target", engine=engine, **target._asdict())

    def _put_result(self, result: Measured) -> None:
        latency = None if result.latency is None else result.latency._asdict()
        self.put("result", **{**result._asdict(), "latency": latency})

    def _put_progress(self, phase: Phase, ops: int, size_bytes: int, seconds: float) -> None:
        now = self._clock.monotonic_ns()
        if now - self._last_progress_ns >= PROGRESS_EVERY_NS:
            self._last_progress_ns = now
            self.put("progress", **phase._asdict(), ops=ops, size_bytes=size_bytes, so_far_s=seconds)


def main() -> int:
    """Run one session and return 0. The last message describes how the session ended."""
    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    raw = json.loads(sys.stdin.buffer.readline())
    request = Request(**{**raw, "phases": tuple(Phase(*phase) for phase in raw["phases"])})
    lines = Lines(stop, Clock())
    session = Session(request, lines.emit(), stop, Clock())
    end: dict[str, Any] = {}
    try:
        session.run()
    except HangError as error:
        # Reported before the file is removed, because the removal waits for the same storage.
        lines.put("end", hung_s=error.seconds)
        os.close(1)
    except FioError as error:
        end = {"error": str(error), "number": 0}
    except OSError as error:
        end = {"error": clean(error.strerror or str(error)), "number": error.errno or 0}
    except Exception as error:  # the file must be removed after any error
        end = {"error": f"unexpected: {error!r}", "number": 0}
    left = ""
    try:
        session.close()
    except OSError as error:
        left = clean(error.strerror or "")
    lines.put("end", left=left, **end)
    return 0


if __name__ == "__main__":
    sys.exit(main())
