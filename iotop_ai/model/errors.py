"""The errors that the command line turns into one line and an exit code."""

from __future__ import annotations


class IotopError(Exception):
    """Says what, where and what to do in one line; ``word`` opens it on stderr."""

    word = "unknown"
    exit_code = 2


class UsageError(IotopError):
    """A flag, argument or combination that cannot be meant."""

    word = "usage"


class InputError(IotopError):
    """A file or stream that cannot be read as what it claims to be. Never quotes its content."""

    word = "input"


class UnknownError(IotopError):
    """The question was understood but cannot be answered here."""

    word = "unknown"
