"""Parses TOML that users wrote. Any fault becomes a TomlError, with the number of its line."""

from __future__ import annotations

import re
from typing import Any

from iotop_ai.lazy.regex import pattern
from iotop_ai.model.errors import UsageError

_PLACE = pattern(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_LONG_NUMBER = pattern(r"\d[\d_]{4000,}")
_NESTED = pattern(r"(?:[\[{][^\[\]{}]*){100}")


class TomlError(UsageError):
    """The text is not valid TOML.

    what: the fault without its position
    line: the number of the line, starting at 1; None if unknown
    """

    def __init__(self, what: str, line: int | None) -> None:
        super().__init__(f"not TOML: {what}{'' if line is None else f' (line {line})'}")
        self.what, self.line = f"not TOML: {what}", line


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises TomlError if the text is not valid TOML."""
    import tomllib  # imported here, because it is slow and only needed with a settings file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line = int(place[1]) if place and place[1] else text.count("\n") + 1
        raise TomlError(_PLACE.sub("", str(error)), line) from None
    except ValueError:  # Python limits the number of digits of an integer
        raise TomlError("a number is too long; write a shorter one", _line_of(_LONG_NUMBER, text)) from None
    except RecursionError:
        raise TomlError("brackets are nested too deeply; close or remove some", _line_of(_NESTED, text)) from None


def _line_of(what: re.Pattern[str], text: str) -> int | None:
    found = what.search(text)
    return None if found is None else text.count("\n", 0, found.start()) + 1
