"""The errors that the command line turns into one line and an exit code."""

from __future__ import annotations

DEBUG_VARIABLE = "IOTOP_AI_DEBUG"
"""The environment variable with which an unexpected error is shown with its traceback."""


class IotopError(Exception):
    """An error whose message is one line: what failed, where, and what to do.

    word: the word before the message on stderr
    exit_code: the exit code of the program
    """

    word = "unknown"
    exit_code = 2


class UsageError(IotopError):
    """An invalid option or argument, or an invalid combination."""

    word = "usage"


class InputError(IotopError):
    """A file or stream whose content does not have the expected format. The message never quotes that content."""

    word = "input"


class UnknownError(IotopError):
    """A valid question that cannot be answered on this machine or from this recording."""

    word = "unknown"


class NotDoneError(UnknownError):
    """An action was refused or not confirmed; nothing changed.

    text: the reason, with or without "not done: " before it
    """

    word = "not done"

    def __init__(self, text: str) -> None:
        super().__init__(text.removeprefix(f"{self.word}: "))
