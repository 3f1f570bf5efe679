"""The filter of processes: a regular expression, or a small query such as ``read > 10M and user = alice``.

A query compares what a row shows: ``read write io`` (bytes a second, K M G are 1024s), ``cpu delay`` (percent),
``mem`` (bytes), ``threads pid ppid`` and ``name user command state``, with ``= != > >= < <=``, ``~`` and ``!~`` for
regular expressions, joined by ``and or not`` and brackets. ``tagged`` alone means what the viewer has tagged. What is
not known is in no answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from iotop_ai.model.pattern import pattern
from iotop_ai.model.process import ProcessInfo, ProcessKey, ProcessRates, ProcessStat
from iotop_ai.model.record import NamedTuple


class Subject(NamedTuple):
    """One process as a query sees it. rates, stat None: not known."""

    key: ProcessKey
    info: ProcessInfo
    rates: ProcessRates | None
    stat: ProcessStat | None
    page_bytes: int
    tagged: bool = False


Answer = Callable[[Subject], bool | None]
"""Whether a process is meant; None where that is not known."""


class Filter(NamedTuple):
    """What was typed, understood. query: it asks for figures, else only for words of a process.

    trouble: what is wrong with a query that cannot be read, "" when all is well; every process is then shown.
    """

    answer: Answer
    query: bool = False
    trouble: str = ""


def _io(rates: ProcessRates) -> float | None:
    read, write = rates.read_bytes_per_s, rates.write_bytes_per_s
    return None if read is None and write is None else (read or 0.0) + (write or 0.0)


def _rate(value: Callable[[ProcessRates], float | None], times: float = 1.0) -> Callable[[Subject], float | None]:
    def of(one: Subject) -> float | None:
        found = None if one.rates is None else value(one.rates)
        return None if found is None else found * times

    return of


_NUMBERS: dict[str, Callable[[Subject], float | None]] = {
    "read": _rate(lambda r: r.read_bytes_per_s),
    "write": _rate(lambda r: r.write_bytes_per_s),
    "io": _rate(_io),
    "cpu": _rate(lambda r: r.cpu_ratio, 100.0),
    "delay": _rate(lambda r: r.io_delay_ratio, 100.0),
    "mem": lambda one: None if one.stat is None else one.stat.rss_pages * one.page_bytes,
    "threads": lambda one: None if one.stat is None else one.stat.threads,
    "pid": lambda one: one.key.pid,
    "ppid": lambda one: None if one.stat is None else one.stat.ppid,
}
_WORDS: dict[str, Callable[[Subject], str | None]] = {
    "name": lambda one: one.info.name,
    "user": lambda one: one.info.user,
    "command": lambda one: " ".join(one.info.cmdline),
    "state": lambda one: None if one.stat is None else one.stat.state,
}
_ALIASES = {"io-wait": "delay", "iowait": "delay", "cmd": "command", "rss": "mem", "thr": "threads", "comm": "name"}
FIELDS = (*_NUMBERS, *_WORDS)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}
_TOKEN = pattern(r"""\s*("[^"]*"|'[^']*'|[<>!]=|!~|[()=<>~]|[^\s()=<>!~]+)""")
_NUMBER = pattern(r"(\d+(?:\.\d*)?|\.\d+)([kmgt]?)(?:i?b)?(?:/s)?%?", re.IGNORECASE)
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LOOKS_LIKE = pattern(r"(?:^|[\s(])([a-z-]+)\s*(?:!=|!~|=|~|([<>]))", re.IGNORECASE)
_TAGGED = "tagged"
_ASKS_TAGS = pattern(r"(?:^|\(|\b(?:and|or|not)\s)\s*tagged\s*(?:$|\)|\s(?:and|or)\b)", re.IGNORECASE)
"""The word where a query may have it; a name that merely holds it is found as any other."""
_DEEPEST = 16


class _UnreadableError(Exception):
    """Why a query cannot be read."""


@lru_cache(maxsize=16)
def understood(text: str) -> Filter:
    """What a typed filter means; one that compares nothing by a known name is a regular expression, or plain text."""
    named = _LOOKS_LIKE.findall(text)
    if not any(_field(word) or sign for word, sign in named) and not _ASKS_TAGS.search(text):
        return Filter(_matching(_pattern(text)))
    try:
        parser = _Parser(_tokens(text))
        answer = parser.either(0)
        if parser.more():
            raise _UnreadableError(f"{parser.next()} is out of place")
    except _UnreadableError as error:
        return Filter(lambda _one: True, True, str(error))
    return Filter(answer, True)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error:
        return re.compile(re.escape(text), re.IGNORECASE)


def _matching(wanted: re.Pattern[str]) -> Answer:
    """Whether name, user or command line match."""

    def answer(one: Subject) -> bool:
        info = one.info
        return bool(wanted.search(info.name) or wanted.search(info.user) or wanted.search(" ".join(info.cmdline)))

    return answer


def _field(word: str) -> str | None:
    word = _ALIASES.get(word.lower(), word.lower())
    return word if word in FIELDS else None


def _tokens(text: str) -> list[str]:
    out, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _UnreadableError(f"{text[at:].split()[0]} cannot be read")
        out.append(found[1])
        at = found.end()
    return out


class _Parser:
    """either: both or both ...; both: one and one ...; one: not one, (either), field op value, a word."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._tokens)

    def next(self) -> str:
        if not self.more():
            raise _UnreadableError("more is to come")
        self._at += 1
        return self._tokens[self._at - 1]

    def _comes(self, word: str) -> bool:
        here = self.more() and self._tokens[self._at].lower() == word
        self._at += here
        return here

    def either(self, depth: int) -> Answer:
        parts = [self._both(depth)]
        while self._comes("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else _any(tuple(parts))

    def _both(self, depth: int) -> Answer:
        parts = [self._one(depth)]
        while self._comes("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else _all(tuple(parts))

    def _one(self, depth: int) -> Answer:
        if depth > _DEEPEST:
            raise _UnreadableError("too many brackets")
        if self._comes("not"):
            return _not(self._one(depth + 1))
        if self._comes("("):
            inside = self.either(depth + 1)
            if not self._comes(")"):
                raise _UnreadableError("a bracket is open")
            return inside
        word = self.next()
        if not self.more() or self._tokens[self._at] not in (*_COMPARE, "~", "!~"):
            return _is_tagged if word.lower() == _TAGGED else _matching(_pattern(_bare(word)))
        field, sign = _field(word), self.next()
        if field is None:
            raise _UnreadableError(f"{word} is none of {' '.join(FIELDS)}")
        if not self.more():
            raise _UnreadableError(f"{field} {sign} what?")
        return _comparison(field, sign, _bare(self.next()))


def _is_tagged(one: Subject) -> bool:
    return one.tagged


def _bare(word: str) -> str:
    return word[1:-1] if len(word) >= 2 and word[0] == word[-1] and word[0] in "\"'" else word


def _comparison(field: str, sign: str, wanted: str) -> Answer:
    if field in _WORDS:
        return _word(_WORDS[field], sign, wanted)
    number = _NUMBER.fullmatch(wanted)
    if number is None or sign not in _COMPARE:
        raise _UnreadableError(f"{field} is a number, as in {field} > 10")
    value, compare, limit = _NUMBERS[field], _COMPARE[sign], float(number[1]) * _SCALE[number[2].lower()]

    def answer(one: Subject) -> bool | None:
        found = value(one)
        return None if found is None else compare(found, limit)

    return answer


def _word(value: Callable[[Subject], str | None], sign: str, wanted: str) -> Answer:
    if sign not in ("=", "!=", "~", "!~"):
        raise _UnreadableError(f"{sign} compares numbers; words take = != ~ !~")
    expression = _pattern(wanted if "~" in sign else f"^(?:{re.escape(wanted)})$")
    negated = sign.startswith("!")

    def answer(one: Subject) -> bool | None:
        found = value(one)
        return None if found is None else (expression.search(found) is None) == negated

    return answer


def _all(parts: tuple[Answer, ...]) -> Answer:
    def answer(one: Subject) -> bool | None:
        found = [part(one) for part in parts]
        return False if False in found else None if None in found else True

    return answer


def _any(parts: tuple[Answer, ...]) -> Answer:
    def answer(one: Subject) -> bool | None:
        found = [part(one) for part in parts]
        return True if True in found else None if None in found else False

    return answer


def _not(part: Answer) -> Answer:
    def answer(one: Subject) -> bool | None:
        found = part(one)
        return None if found is None else not found

    return answer
