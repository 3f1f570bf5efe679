"""Parses TOML that users wrote. Any fault becomes a TomlError, with the number of its line if known."""

from __future__ import annotations

import re
from typing import Any

from iotop_ai.lazy.regex import pattern
from iotop_ai.model.errors import UsageError

_POSITION = pattern(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_LONG_NUMBER = pattern(r"\d[\d_]{4000,}")
_NESTED = pattern(r"(?:[\[{][^\[\]{}]*){100}")


class TomlError(UsageError):
    """The text is not valid TOML.

    fault: the fault without its position; as an attribute, it begins with "not TOML: "
    line: the number of the line, starting at 1; None if unknown
    """

    def __init__(self, fault: str, line: int | None) -> None:
        super().__init__(f"not TOML: {fault}{'' if line is None else f' (line {line})'}")
        self.fault, self.line = f"not TOML: {fault}", line


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises TomlError if the text is not valid TOML."""
    import tomllib  # imported here, because it is slow and only needed with a settings file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position_match = _POSITION.search(str(error))
        # A fault at the end of the document has no line number.
        line = int(position_match[1]) if position_match and position_match[1] else text.count("\n") + 1
        raise TomlError(_POSITION.sub("", str(error)), line) from None
    except ValueError:  # Python limits the number of digits of an integer
        raise TomlError("a number is too long; write a shorter one", _line_of(_LONG_NUMBER, text)) from None
    except RecursionError:
        raise TomlError("brackets are nested too deeply; close or remove some", _line_of(_NESTED, text)) from None


def _line_of(regex: re.Pattern[str], text: str) -> int | None:
    match = regex.search(text)
    return None if match is None else text.count("\n", 0, match.start()) + 1
