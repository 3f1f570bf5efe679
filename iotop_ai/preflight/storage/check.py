"""The parent's side of a storage check: starts the child process and yields its messages."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.spawn import start_own_child
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.dataset import Dataset, Decoding
from iotop_ai.model.preflight.storage import CHILD, Latency, Measured, Phase, Target
from iotop_ai.preflight.child_messages import MessageReader
from iotop_ai.preflight.storage.reader import HANG_S
from iotop_ai.preflight.storage.session import Request

SILENT_S = 2 * HANG_S
"""If the child writes nothing for this many seconds, it hangs in a system call itself. It would have reported a hang of
its readers sooner.
"""
_STOP_S = 3.0
"""The longest wait for the child to end after SIGTERM, in seconds."""


class Progress(NamedTuple):
    """The progress of the running phase.

    ops, size_bytes: the operations and bytes so far; 0 while unknown. so_far_s: the seconds since the phase began.
    """

    phase: Phase
    ops: int
    size_bytes: int
    so_far_s: float


class Started(NamedTuple):
    """The target that is read, and the program that reads it. engine: "own" for our own reader, else fio's version."""

    target: Target
    engine: str


class DatasetFacts(NamedTuple):
    """The dataset's files, and the time that their decoding takes."""

    dataset: Dataset
    decoding: Decoding


class End(NamedTuple):
    """The end of a check. hung_s: the seconds without an answer; 0 when the storage did not hang.

    error: the text of the error that ended the check; "" without one. number: its errno; 0 if it has none. left: the
    reason why the check's own file could not be removed; "" if no file is left.
    """

    hung_s: float = 0.0
    error: str = ""
    number: int = 0
    left: str = ""


Message = Progress | Started | DatasetFacts | Measured | str | End
"""A message of the child. A string is a note."""


class StorageCheck:
    """One check. Iterate over ``messages``, then call ``close``, which stops the child; the child removes its file."""

    def __init__(self, request: Request, clock: Clock) -> None:
        self._clock = clock
        self._child = start_own_child(CHILD)
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # the child may already have ended
            self._child.stdin.write(json.dumps(request._asdict()).encode() + b"\n")
            self._child.stdin.close()

    @property
    def pid(self) -> int:
        """The pid of the child process."""
        return self._child.pid

    def messages(self) -> Iterator[Message]:
        """Yield the child's messages up to its end. The last message is an End."""
        assert self._child.stdout is not None
        source, reader = self._child.stdout.fileno(), MessageReader()
        poll = select.poll()
        poll.register(source, select.POLLIN)
        while True:
            if not poll.poll(SILENT_S * 1000):
                yield End(hung_s=SILENT_S)
                return
            more = os.read(source, 1 << 16)
            if not more:
                yield End(error="the reading process ended early")
                return
            for fields in filter(None, reader.feed(more)):
                message = message_of(fields)
                yield message
                if isinstance(message, End):
                    return

    def stop(self) -> None:
        """Ask the child to end early. May be called from any thread; ``messages`` goes on until its End."""
        with suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Stop the child, which removes its file. A child that waits for hung storage is left behind."""
        child = self._child
        if child.stdout is not None:
            child.stdout.close()
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_STOP_S)


def message_of(fields: dict[str, Any]) -> Message:
    """Return the message for a JSON object that the child wrote."""
    kind = fields.pop("message")
    if kind == "progress":
        phase = Phase(*(fields[name] for name in Phase._fields))
        return Progress(phase, fields["ops"], fields["size_bytes"], fields["so_far_s"])
    if kind == "target":
        return Started(Target(*(fields[name] for name in Target._fields)), clean(fields["engine"], 40))
    if kind == "result":
        latency = fields["latency"]
        return Measured(**{**fields, "latency": None if latency is None else Latency(**latency)})
    if kind == "dataset":
        return DatasetFacts(Dataset(**fields["dataset"]), Decoding(**fields["decoding"]))
    if kind == "note":
        return clean(fields["text"], 200)
    return End(**{name: fields[name] for name in End._fields if name in fields})
