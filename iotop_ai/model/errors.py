"""The errors that the command line turns into one line and an exit code."""

from __future__ import annotations


class IotopError(Exception):
    """Its message is one line: what failed, where, what to do; ``word`` precedes it on stderr."""

    word = "unknown"
    exit_code = 2


class UsageError(IotopError):
    """An invalid flag, argument or combination."""

    word = "usage"


class InputError(IotopError):
    """A file or stream that is not in its format. The message never quotes its content."""

    word = "input"


class UnknownError(IotopError):
    """A valid question that cannot be answered here."""

    word = "unknown"


class NotDoneError(UnknownError):
    """An action that was refused or not confirmed; nothing changed. text: the reason, with or without "not done: "."""

    word = "not done"

    def __init__(self, text: str) -> None:
        super().__init__(text.removeprefix(f"{self.word}: "))
