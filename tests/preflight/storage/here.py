"""Storage checks in the test's own process, for tests of the figures, which need no separate program."""

from __future__ import annotations

from pathlib import Path

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.preflight.storage import MIB, Phase, plan
from iotop_ai.preflight.storage.check import DatasetFacts, Message, Progress, Started
from iotop_ai.preflight.storage.reader import Stop
from iotop_ai.preflight.storage.session import Emit, Request, Session

BRIEF = tuple(phase for phase in plan(0.3, 2) if phase.depth == 1)
"""Each kind of phase, for a short time and with one reader, because forking a reader costs more than its reads."""


def session_here(path: Path, phases: tuple[Phase, ...] = BRIEF, **more: object) -> tuple[Session, list[Message]]:
    """A session that runs in this process, and the list of its messages."""
    messages: list[Message] = []
    emit = Emit(
        lambda target, engine: messages.append(Started(target, engine)),
        lambda *step: messages.append(Progress(*step)),
        messages.append,
        messages.append,
        lambda *both: messages.append(DatasetFacts(*both)),
    )
    request = Request(str(path), phases, "own", most_bytes=24 * MIB)._replace(**more)
    return Session(request, emit, Stop(), Clock()), messages


def measured_here(path: Path, phases: tuple[Phase, ...] = BRIEF, **more: object) -> list[Message]:
    """Run a session to its end. Raises the OSError that a program would report in its last message."""
    session, messages = session_here(path, phases, **more)
    try:
        session.run()
    finally:
        session.close()
    return messages
