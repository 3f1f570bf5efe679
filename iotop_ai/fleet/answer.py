"""Parses the answers of Prometheus's HTTP API. They come from outside, so they are limited in size and cleaned.

Source: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError

MOST_SERIES = 200_000
"""The maximum number of series in one answer."""
_VALUES_PER_SERIES = 16
"""The maximum number of JSON values per series, on average over an answer; a series with eight labels has 13."""
MOST_LABELS = 64
"""The maximum number of labels of one series."""
LONGEST_LABEL = 128
"""The length in characters to which the names and values of labels are cut."""
_LONGEST_ERROR = 160
_LARGEST = 2.0**64
"""The largest accepted value. Counters have 64 bits, and the sums and products of such values stay finite."""
_LATEST_S = 1e11
"""The latest accepted Unix time in seconds; a larger number is in milliseconds."""


class BadAnswerError(UnknownError):
    """The answer is not Prometheus's JSON, or it reports an error."""


class Series(NamedTuple):
    """One series of an instant query. value: None for NaN, infinity and values larger than any counter."""

    labels: Mapping[str, str]
    value: float | None

    def label(self, name: str) -> str:
        """The value of a label; "" if the series does not have the label."""
        return self.labels.get(name, "")


class Answer(NamedTuple):
    """The answer to an instant query. at_s: the Unix time at which the query was evaluated; None without series."""

    series: tuple[Series, ...]
    at_s: float | None = None


class Points(NamedTuple):
    """One series of a range query, as pairs of Unix time and value. A value is None as in ``Series``."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float | None], ...]


def parse_vector(body: bytes) -> Answer:
    """Parse the answer to an instant query. Raises BadAnswerError."""
    series, at_s = [], None
    labels_of = _Labels()
    for entry in _result(body, "vector"):
        pair = entry.get("value")
        if not (isinstance(pair, list) and len(pair) == 2):
            raise BadAnswerError("the answer has a series without a value")
        if at_s is None:
            at_s = number(pair[0])
            if at_s is None or not 0 <= at_s <= _LATEST_S:
                raise BadAnswerError("the answer's time is not Unix time in seconds; does a proxy change it?")
        series.append(Series(labels_of(entry), number(pair[1])))
    return Answer(tuple(series), at_s)


def parse_matrix(body: bytes) -> list[Points]:
    """Parse the answer to a range query. Raises BadAnswerError."""
    out = []
    labels_of = _Labels()
    for entry in _result(body, "matrix"):
        pairs = entry.get("values")
        if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise BadAnswerError("the answer has a series without values")
        points = ((number(at_s), number(value)) for at_s, value in pairs)
        out.append(Points(labels_of(entry), tuple((at_s, value) for at_s, value in points if at_s is not None)))
    return out


def error_text(body: bytes) -> str:
    """The error message in an answer; "" if it has none."""
    try:
        message = _object(body).get("error")
    except BadAnswerError:
        return ""
    return clean(message, _LONGEST_ERROR) if isinstance(message, str) else ""


def number(value: object) -> float | None:
    """The value as a number; None if it is not a finite number, or if it is larger than any counter.

    Prometheus sends values as strings, because JSON has no NaN and no infinity.
    """
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if abs(result) <= _LARGEST else None


def _object(body: bytes) -> dict[str, Any]:
    # The objects are counted before parsing, because "{}," needs 30 times as much memory once it is parsed. A series
    # has two objects. Texts may also contain some braces and commas; the limits leave room for them in any real answer.
    objects = body.count(b"{")
    values = objects + body.count(b"[") + body.count(b",")
    if objects > 2 * MOST_SERIES + 1000 or values > _VALUES_PER_SERIES * MOST_SERIES:
        raise BadAnswerError(f"the answer is too large: it has more than {MOST_SERIES:,} series, or too many values")
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise BadAnswerError("the answer is not Prometheus's JSON") from None
    if not isinstance(parsed, dict):
        raise BadAnswerError("the answer is not Prometheus's JSON")
    return parsed


def _result(body: bytes, kind: str) -> list[dict[str, Any]]:
    """The series of a successful answer."""
    answer = _object(body)
    if answer.get("status") != "success":
        raise BadAnswerError(error_text(body) or "the answer is not Prometheus's JSON")
    data = answer.get("data")
    result = data.get("result") if isinstance(data, dict) and data.get("resultType") == kind else None
    if not isinstance(result, list) or not all(isinstance(entry, dict) for entry in result):
        raise BadAnswerError("the answer is not Prometheus's JSON")
    if len(result) > MOST_SERIES:
        raise BadAnswerError(f"the answer has more than {MOST_SERIES:,} series")
    return result


class _Labels:
    """Cleans the labels of series. Equal strings become the same object, which saves memory."""

    def __init__(self) -> None:
        self._cleaned: dict[str, str] = {}

    def __call__(self, entry: Mapping[str, Any]) -> Mapping[str, str]:
        metric = entry.get("metric")
        if not isinstance(metric, dict):
            raise BadAnswerError("the answer has a series without labels")
        if len(metric) > MOST_LABELS:
            raise BadAnswerError(f"the answer has a series with more than {MOST_LABELS} labels")
        return {self._clean(name): self._clean(value) for name, value in metric.items()}

    def _clean(self, text: object) -> str:
        if not isinstance(text, str):
            raise BadAnswerError("the answer has a label that is not text")
        cleaned = self._cleaned.get(text)
        if cleaned is None:
            cleaned = self._cleaned[text] = clean(text, LONGEST_LABEL)
        return cleaned
