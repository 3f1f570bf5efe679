"""The checks of ``iotop-ai doctor``, and its exit code."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """The result of a check; UNKNOWN means that the check could not be answered."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Check(NamedTuple):
    """One check and its result, which is one line of the output.

    area: rights, container, limits, gpu, machine, python or terminal
    name: a name that is unique among all checks
    text: what the check found
    remedy: a command or step to paste; "" without one
    """

    area: str
    name: str
    state: State
    text: str
    remedy: str = ""


def exit_code(checks: Sequence[Check]) -> int:
    """1 if a check failed, else 2 if a check could not be answered, else 0."""
    states = {check.state for check in checks}
    return 1 if State.FAIL in states else 2 if State.UNKNOWN in states else 0
