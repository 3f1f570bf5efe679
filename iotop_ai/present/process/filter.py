"""The filter of the process list: a regular expression, or a small query such as ``read > 10M and user = alice``.

A query compares the values of a row: ``read write io`` (bytes per second, K M G T are powers of 1024), ``cpu delay``
(percent), ``mem`` (bytes), ``threads pid ppid`` and ``name user command state``. The operators are ``= != > >= < <=``,
and ``~`` and ``!~`` for a regular expression; these two test both the name in /proc and the name in the list.
Comparisons are combined with ``and or not`` and brackets. A comparison with an unknown value does not match. Without
an operator, the word ``tagged`` matches the tagged processes; any other word is searched in names, users, command
lines and pids.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessRates, ProcessStat, ThreadLook
from iotop_ai.present.process.group_stats import process_state
from iotop_ai.present.process.names import listed_name
from iotop_ai.present.process.sort_value import io_rate


class Subject(NamedTuple):
    """A process that a filter tests. rates, stat: its rates and its stat; None when unknown. sampled: the states of its
    threads; None if they are not sampled.
    """

    key: ProcessKey
    info: ProcessInfo
    rates: ProcessRates | None
    stat: ProcessStat | None
    page_bytes: int
    tagged: bool = False
    sampled: ThreadLook | None = None


Predicate = Callable[[Subject], bool | None]
"""Whether a process matches; None when unknown."""


class Filter(NamedTuple):
    """A parsed filter. is_query: whether it is a query; otherwise it searches names, users, command lines and pids.

    trouble: why a query is invalid; "" if it is valid. An invalid query matches every process.
    """

    matches: Predicate
    is_query: bool = False
    trouble: str = ""


def _rate(rate_of: Callable[[ProcessRates], float | None], factor: float = 1.0) -> Callable[[Subject], float | None]:
    """A function that returns a process's rate times ``factor``; None when unknown."""

    def scaled(subject: Subject) -> float | None:
        rate = None if subject.rates is None else rate_of(subject.rates)
        return None if rate is None else rate * factor

    return scaled


_NUMBERS: dict[str, Callable[[Subject], float | None]] = {
    "read": _rate(lambda r: r.read_bytes_per_s),
    "write": _rate(lambda r: r.write_bytes_per_s),
    "io": _rate(io_rate),
    "cpu": _rate(lambda r: r.cpu_ratio, 100.0),
    "delay": _rate(lambda r: r.io_delay_ratio, 100.0),
    "mem": lambda subject: None if subject.stat is None else subject.stat.rss_pages * subject.page_bytes,
    "threads": lambda subject: None if subject.stat is None else subject.stat.threads,
    "pid": lambda subject: subject.key.pid,
    "ppid": lambda subject: None if subject.stat is None else subject.stat.ppid,
}
"""The fields that hold numbers."""
_WORDS: dict[str, Callable[[Subject], str | None]] = {
    "name": lambda subject: subject.info.name,
    "user": lambda subject: subject.info.user,
    "command": lambda subject: _command_line(subject.info),
    "state": lambda subject: _known_state(process_state(subject.stat, subject.sampled)),
}
"""The fields that hold words."""
EXAMPLE = "user = root and name ~ python"
"""A filter that shows how two comparisons are combined."""
_PERCENT_FIELDS = ("cpu", "delay")
"""The numbers that are in percent."""
_SUBSTRING_FIELDS = ("name", "command")
"""The fields whose value a user usually knows only in part."""
_ALIASES = {"io-wait": "delay", "iowait": "delay", "cmd": "command", "rss": "mem", "thr": "threads", "comm": "name"}
FIELDS = (*_NUMBERS, *_WORDS)
_FIELDS_IN_MESSAGES = (*_WORDS, *_NUMBERS)
"""The fields as a message lists them: the most wanted first, because the end may be cut."""
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
"""Matches a number with an optional unit; the groups are its digits and the letter of the unit's prefix."""
_UNIT = pattern(r"%|[kmgt]?i?b(?:/s)?", re.IGNORECASE)
"""Matches the unit of the number before it, if a blank separates the two."""
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_COMPARISON = pattern(r"(?:^|[\s(])([a-z-]+)\s*(?:!=|!~|=|~|([<>]))", re.IGNORECASE)
"""Matches a word and the operator after it. The second group is < or > if the operator begins with that sign."""
_TAGGED = "tagged"
_TAGGED_TERM = pattern(r"(?:^|\(|\b(?:and|or|not)\s)\s*tagged\s*(?:$|\)|\s(?:and|or)\b)", re.IGNORECASE)
"""Matches the word ``tagged`` as a term of a query, not as a part of a longer name."""
_MOST_NESTING = 16
"""The deepest nesting of brackets and ``not``."""
_MOST_CHARACTERS = 200
"""A longer text is taken as plain text, and cut to this many characters."""
_SEARCH_LENGTHS = (1 << 15, 2048, 512)
"""How many characters of a text are searched, by the number of unbounded repeats in the regular expression."""
_PARTS = pattern(r"\\(?:\d+|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P=\w+\)|\(\?\(|[*+][?+]?|\{\d*,?\d*\}|.", re.DOTALL)
"""The parts of a regular expression: an escape, a character class, a back reference, a condition, a repeat, or another
character.
"""
_BACK_REFERENCE = pattern(r"\\[1-9]|\(\?P=|\(\?\(")
"""Matches a back reference or a condition, for which the time of a search cannot be bounded."""


class _QueryError(Exception):
    """The reason why a query is invalid."""


@lru_cache(maxsize=16)
def parse_filter(text: str) -> Filter:
    """The filter that the user typed.

    Text is a query if it compares a known field, compares any word with < or >, or asks for tagged processes. Other
    text is a regular expression, or plain text if it is not a valid expression.
    """
    comparisons = _COMPARISON.findall(text)
    if not any(_field(word) or sign for word, sign in comparisons) and not _TAGGED_TERM.search(text):
        return Filter(_matching(_Search(text)))
    try:
        parser = _Parser(_tokens(text))
        predicate = parser.expression(0)
        if parser.has_more():
            raise _QueryError(f"before {parser.next_token()}: write 'and' or 'or', as in user = root and read > 1M")
    except _QueryError as error:
        return Filter(lambda _subject: True, True, str(error))
    return Filter(predicate, True)


def hint_for(text: str) -> str:
    """What to write instead of a filter that matches no process; "" if the text gives no clue."""
    comparisons = _COMPARISON.findall(text)
    if hint := next((_suggestion(word) for word, _ in comparisons if not _field(word)), ""):
        return hint
    if comparisons:
        return ""
    words = text.split()
    parts = [(_field(field), value) for field, colon, value in (word.partition(":") for word in words) if colon]
    if parts and len(parts) == len(words) and all(field and value for field, value in parts):
        return "write " + " and ".join(
            f"{field} {'~' if field in _SUBSTRING_FIELDS else '='} {value}" for field, value in parts
        )
    return f"to combine words: {EXAMPLE}" if len(words) > 1 or parts else ""


def _suggestion(word: str) -> str:
    """A suggestion of fields with a similar name, "raed: did you mean read?"; "" if there are none."""
    from difflib import get_close_matches  # rarely needed

    fields = get_close_matches(word.lower(), FIELDS, 2)
    return f"{word}: did you mean {' or '.join(fields)}?" if fields else ""


class _Search:
    """A search for a regular expression, or for plain text if the expression is invalid or could take hours.

    The searched text may be hostile, since a process sets its command line, and ``re`` has no time limit. Each further
    character can double the time of a nested repeat, and each unbounded repeat multiplies the time by the text's
    length.
    """

    def __init__(self, text: str) -> None:
        unbounded = _unbounded_repeats(text)
        try:
            if unbounded is None or len(text) > _MOST_CHARACTERS:
                raise re.error("takes too long")
            self._expression = re.compile(text, re.IGNORECASE)
        except (re.error, RecursionError, OverflowError):
            self._expression, unbounded = re.compile(re.escape(text[:_MOST_CHARACTERS]), re.IGNORECASE), 0
        self._length = _SEARCH_LENGTHS[unbounded or 0]

    def __call__(self, text: str) -> bool:
        return self._expression.search(text[: self._length]) is not None


def _unbounded_repeats(text: str) -> int | None:
    """The number of possibly unbounded repeats in an expression: ``*``, ``+`` and any with braces. None if repeats may
    be nested, if there are too many, or if the expression has a back reference or a condition.
    """
    count = 0
    previous = ""
    for part in _PARTS.findall(text):
        repeats = part[0] in "*+{" and part != "{"
        if _BACK_REFERENCE.match(part) or (repeats and previous == ")"):
            return None
        count += repeats
        previous = part
    return count if count < len(_SEARCH_LENGTHS) else None


def _known_state(state: str) -> str | None:
    return None if state == "?" else state


def _command_line(info: ProcessInfo) -> str:
    return " ".join(info.cmdline)


def _matching(matches: Callable[[str], bool]) -> Predicate:
    """The predicate that is true if ``matches`` accepts the process's name, user, command line or pid."""

    def predicate(subject: Subject) -> bool:
        info = subject.info
        return any(map(matches, (info.name, info.user, _command_line(info), str(subject.key.pid))))

    return predicate


def _field(word: str) -> str | None:
    """The field with this name or alias; None if there is none."""
    word = _ALIASES.get(word.lower(), word.lower())
    return word if word in FIELDS else None


def _tokens(text: str) -> list[str]:
    out, at = [], 0
    text = text.rstrip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _QueryError(f"{text[at:].split()[0]} cannot be read")
        out.append(token[1])
        at = token.end()
    return out


class _Parser:
    """Parses a query by recursive descent.

    The grammar: expression = conjunction or conjunction ...; conjunction = term and term ...; term = not term,
    (expression), field operator value, or a word. The methods raise _QueryError for any other query.
    """

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def has_more(self) -> bool:
        return self._at < len(self._tokens)

    def next_token(self) -> str:
        """Skip the next token, and return it."""
        if not self.has_more():
            raise _QueryError("the filter is not complete")
        self._at += 1
        return self._tokens[self._at - 1]

    def _accept(self, word: str) -> bool:
        """Skip the next token if it is this word, and return whether it is."""
        matches = self.has_more() and self._tokens[self._at].lower() == word
        self._at += matches
        return matches

    def expression(self, depth: int) -> Predicate:
        parts = [self._conjunction(depth)]
        while self._accept("or"):
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else _any(tuple(parts))

    def _conjunction(self, depth: int) -> Predicate:
        parts = [self._term(depth)]
        while self._accept("and"):
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else _all(tuple(parts))

    def _term(self, depth: int) -> Predicate:
        if depth > _MOST_NESTING:
            raise _QueryError("too many brackets")
        if self._accept("not"):
            return _not(self._term(depth + 1))
        if self._accept("("):
            inside = self.expression(depth + 1)
            if not self._accept(")"):
                raise _QueryError("a bracket is not closed")
            return inside
        word = self.next_token()
        named, colon, value = word.partition(":")
        if colon and _field(named):
            raise _QueryError(f"{word}: write {named} = {value or 'VALUE'}, as in user = root and read > 1M")
        if not self.has_more() or self._tokens[self._at] not in (*_COMPARE, "~", "!~"):
            return _is_tagged if word.lower() == _TAGGED else _matching(_Search(_unquoted(word)))
        field, sign = _field(word), self.next_token()
        if field is None:
            raise _QueryError(_suggestion(word) or f"{word}: write one of {' '.join(_FIELDS_IN_MESSAGES)}")
        if not self.has_more():
            raise _QueryError(f"a value is missing after {field} {sign}")
        value = _unquoted(self.next_token())
        if field in _NUMBERS and self.has_more() and _UNIT.fullmatch(self._tokens[self._at]):
            value += self.next_token()
        return _comparison(field, sign, value)


def _is_tagged(subject: Subject) -> bool:
    return subject.tagged


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) >= 2 and word[0] == word[-1] and word[0] in "\"'" else word


def _comparison(field: str, sign: str, value: str) -> Predicate:
    if field in _WORDS:
        return _text_comparison(field, sign, value)
    number = _NUMBER.fullmatch(value)
    if number is None or sign not in _COMPARE:
        raise _QueryError(f"{field} is a number, as in {field} > 10")
    if value.endswith("%") and field not in _PERCENT_FIELDS:
        raise _QueryError(f"{field} takes no %; only {' and '.join(_PERCENT_FIELDS)} do")
    number_of, compare, limit = _NUMBERS[field], _COMPARE[sign], float(number[1]) * _SCALE[number[2].lower()]

    def predicate(subject: Subject) -> bool | None:
        measured = number_of(subject)
        return None if measured is None else compare(measured, limit)

    return predicate


def _text_comparison(field: str, sign: str, value: str) -> Predicate:
    if sign not in ("=", "!=", "~", "!~"):
        raise _QueryError(f"{sign} compares numbers; words take = != ~ !~")
    matches = _Search(value) if "~" in sign else re.compile(re.escape(value), re.IGNORECASE).fullmatch
    word_of, negated = _WORDS[field], sign.startswith("!")
    as_listed = field == "name" and "~" in sign  # the list shows "python train.py" for a process with the name "python"

    def predicate(subject: Subject) -> bool | None:
        text = word_of(subject)
        if text is None:
            return None
        found = matches(text) or (as_listed and matches(listed_name(subject.info)))
        return (not found) == negated

    return predicate


def _all(parts: tuple[Predicate, ...]) -> Predicate:
    def predicate(subject: Subject) -> bool | None:
        results = [part(subject) for part in parts]
        return False if False in results else None if None in results else True

    return predicate


def _any(parts: tuple[Predicate, ...]) -> Predicate:
    def predicate(subject: Subject) -> bool | None:
        results = [part(subject) for part in parts]
        return True if True in results else None if None in results else False

    return predicate


def _not(part: Predicate) -> Predicate:
    def predicate(subject: Subject) -> bool | None:
        result = part(subject)
        return None if result is None else not result

    return predicate
