"""Explains an unknown word of the command line: names the nearest flag or command, or the command that has the flag."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from iotop_ai.model.clean import clean

_UNKNOWN = "unrecognized arguments: "
"""The beginning of argparse's message about unknown flags and words."""
_UNKNOWN_COMMAND = re.compile(r"argument COMMAND: invalid choice: '([^']*)'")
_LEAST_SIMILARITY = 0.75
RECORDING_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


def with_hint(
    message: str, argv: Sequence[str], flags: Sequence[str], commands: Sequence[str], other_command_hint: str
) -> str:
    """Return argparse's message, with a hint if there is one.

    flags: the flags of the called command. commands: the names of all commands. other_command_hint: a sentence that
    names the command to use for a flag that the called command lacks.
    """
    if wrong := _UNKNOWN_COMMAND.match(message):
        before = argv[argv.index(wrong[1]) - 1] if wrong[1] in argv[1:] else ""
        if before[:2] != "--" or before in flags:
            return _unknown_command(clean(wrong[1]), commands)
        message = _UNKNOWN + before  # argparse took the value of an unknown flag for the command
    if not message.startswith(_UNKNOWN):
        return message
    words = message.removeprefix(_UNKNOWN).split()
    hint = next((text for word in words if word[:1] == "-" and (text := _nearest_hint(word, flags))), "")
    return clean(message, 300) + (hint or (f"; {other_command_hint}" if other_command_hint else ""))


def _unknown_command(word: str, commands: Sequence[str]) -> str:
    if word.endswith(RECORDING_SUFFIXES):
        return f"{word!r} is not a command; iotop-ai replay {word} shows a recording"
    return f"{word!r} is not a command{_nearest_hint(word, commands) or '; choose from ' + ', '.join(commands)}"


def _nearest_hint(word: str, candidates: Sequence[str]) -> str:
    matches = difflib.get_close_matches(word, candidates, 1, _LEAST_SIMILARITY)
    return f"; did you mean {matches[0]}?" if matches else ""
