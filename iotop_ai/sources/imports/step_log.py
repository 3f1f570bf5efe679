"""Reads the steps of a training log that was not written for this program.

The log is printed lines, a trainer_state.json of Hugging Face, or an event file of TensorBoard.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.parse import parse_moment_ns
from iotop_ai.sources.imports.common import SET_BACK_NS, check_json_values, open_log
from iotop_ai.sources.imports.event_file import StepEvent, is_event_file, step_events

MOST_POINTS = 2_000_000
LARGEST_STATE = 256 << 20
"""The largest trainer_state.json or file of printed lines that is read, in bytes."""
LONGEST_LINE = 1 << 16
"""The longest line that is searched for a step, in bytes."""
PRINTED, STATE, EVENTS = "printed lines", "trainer_state.json", "TensorBoard events"
"""The kinds of logs."""
_SECOND = 1_000_000_000
_STEP = re.compile(
    r"\b((?:global[_ ]?)?(?:steps?|iter(?:ation)?s?|batch(?:es)?))\b[\"']?\s{0,4}[=:#\[(]?\s{0,4}"
    r"([1-9]\d{0,2}(?:,\d{3}){1,3}(?!,?\d)|\d{1,12})\b(?!(?:,\d{3})*\.\d)",
    re.IGNORECASE,
)
"""A step in a line. A fraction ("step 0.5") is not a step, but a duration or a part of an epoch."""
_RANK = re.compile(r"(?<![a-z])rank\W{0,3}(\d{1,6})\b|^\s*\[default(\d{1,6})\]", re.IGNORECASE)
"""The rank in a line. torchrun begins each line with "[default3]:"."""
_EVALUATION = re.compile(
    r"(?<![a-z])(?:val(?:id(?:at(?:e|ion|ing))?)?|eval(?:uat(?:e|ion|ing))?)(?![a-z])", re.IGNORECASE
)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[-+]\d{2}:?\d{2})?")
_TIME_KEYS = ("timestamp", "wall_time", "time", "ts", "t", "_timestamp", "created_at")
_STEP_KEYS = ("global_step", "step", "iteration", "iter", "_step", "batch")
_RANK_KEYS = ("rank", "global_rank", "local_rank")
_PHASE_KEYS = ("phase", "split", "mode", "stage")
_BAR = re.compile(r"\b(\d{1,12})/(\d{1,12}|\?) \[(?:(\d{1,5}):)?(\d{1,2}):(\d{2})<")
"""The progress bar of tqdm: "450/1000 [02:30<03:03,  3.02it/s]"."""
_MOST_PER_S = 1e9
"""The limit below which a recorded rate is plausible, in steps per second."""
_FIRST_UNIX_S, _LAST_UNIX_S = 1_000_000_000, 8_000_000_000
"""A number outside this range is not a Unix time in seconds."""


class StepSeries(NamedTuple):
    """A count of steps that a log keeps under one name.

    is_training: whether the steps are those of training rather than of an evaluation
    rank: the rank; "" if the log does not name it
    keyword: the name of the count
    """

    is_training: bool = True
    rank: str = ""
    keyword: str = ""


_UNNAMED = StepSeries()


class StepPoint(NamedTuple):
    """A step in a log.

    wall_ns: the Unix time of the step in ns; None if the log has no time
    elapsed_s: the seconds since the step's progress bar began; None without a bar
    total: the number of steps of the bar; "?" if the bar does not know it; "" without a bar
    series: the count that the step belongs to
    after_evaluation: whether the log shows an evaluation between the previous step and this one, or with this one
    """

    step: int
    wall_ns: int | None
    elapsed_s: float | None = None
    total: str = ""
    series: StepSeries = _UNNAMED
    after_evaluation: bool = False


class StepLog(NamedTuple):
    """The steps of a training log.

    kind: PRINTED, STATE or EVENTS
    points: the steps in the order of the log
    per_s: the steps per second; None if the log does not have this rate
    """

    kind: str
    points: tuple[StepPoint, ...]
    per_s: float | None = None


def read_step_log(path: str, *, allow_root: bool = False) -> StepLog:
    """Read the steps of a log.

    Raises InputError for a file that cannot be read or has no steps, with a message that does not quote the file.

    allow_root: whether root may open a log of any owner
    """
    descriptor = open_log(path, allow_root=allow_root)
    try:
        with open(descriptor, "rb") as file:
            begin = file.read(256)
            file.seek(0)
            if is_event_file(begin):
                events = (event for event in step_events(file) if _is_unix_time(event.wall_s))
                log = StepLog(EVENTS, _check_count(map(_from_event, events)))
            elif os.path.basename(path) == STATE or b'"log_history"' in begin:
                log = _parse_state(file.read(LARGEST_STATE + 1))
            else:
                log = _parse_state_or_lines(file.read(LARGEST_STATE + 1))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not log.points:
        raise InputError(
            f"{path}: no steps; expected 'step 120' in a line, JSON Lines, a tqdm bar, {STATE} or an event file"
        )
    return log


def _check_count(points: Iterable[StepPoint]) -> tuple[StepPoint, ...]:
    """Return the points as a tuple. Raises InputError if they are more than MOST_POINTS."""
    out: list[StepPoint] = []
    for point in points:
        if len(out) >= MOST_POINTS:
            raise InputError(f"more than {MOST_POINTS} steps")
        out.append(point)
    return tuple(out)


def _parse_state_or_lines(data: bytes) -> StepLog:
    if len(data) > LARGEST_STATE:
        raise InputError(f"larger than {LARGEST_STATE >> 20} MiB")
    if data[:1] == b"{" and b'"log_history"' in data:
        return _parse_state(data)
    return StepLog(PRINTED, _check_count(_parse_lines(data)))


def _parse_state(data: bytes) -> StepLog:
    """Read Hugging Face's trainer_state.json, which has the steps without times, and the mean rate."""
    if len(data) > LARGEST_STATE:
        raise InputError(f"larger than {LARGEST_STATE >> 20} MiB")
    check_json_values(data)
    try:
        raw = json.loads(data)
        history = [entry for entry in raw["log_history"] if isinstance(entry, dict)]
        steps = [entry["step"] for entry in history if isinstance(entry.get("step"), int)]
        last = raw.get("global_step")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"not a {STATE}") from None
    rates: list[Any] = [rate for entry in history if type(rate := entry.get("train_steps_per_second")) in (int, float)]
    per_s = next((float(rate) for rate in reversed(rates) if 0 < rate < _MOST_PER_S), None)
    all_steps = [*steps, *([last] if isinstance(last, int) and last > 0 else [])]
    return StepLog(STATE, _check_count(StepPoint(step, None) for step in all_steps if 0 <= step < 1 << 62), per_s)


def _parse_lines(data: bytes) -> Iterator[StepPoint]:
    """Yield the steps in printed lines. A progress bar overwrites its line with carriage returns."""
    after_evaluation = False
    before_ns: int | None = None
    for match in re.finditer(rb"[^\r\n]+", data):
        if match.end() - match.start() > LONGEST_LINE:
            continue
        line = match[0].decode("utf-8", "replace")
        point = _from_json(line, before_ns) if line[:1] == "{" else None
        point = point or _from_bar(line) or _from_text(line, before_ns)
        after_evaluation = after_evaluation or _is_about_evaluation(line)
        if point is not None:
            before_ns = before_ns if point.wall_ns is None else point.wall_ns
            yield point._replace(after_evaluation=True) if after_evaluation else point
            after_evaluation = False


def _is_about_evaluation(text: str) -> bool:
    return "val" in text.lower() and _EVALUATION.search(text) is not None  # the first test is the faster one


def _from_event(event: StepEvent) -> StepPoint:
    after_evaluation = any(map(_is_about_evaluation, event.tags))
    return StepPoint(event.step, round(event.wall_s * _SECOND), after_evaluation=after_evaluation)


def _from_json(line: str, before_ns: int | None) -> StepPoint | None:
    """The step in a line of JSON. before_ns: as in ``_moment_ns``."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    keyword = next((key for key in _STEP_KEYS if type(record.get(key)) is int), None)
    if keyword is None or not 0 <= record[keyword] < 1 << 62:
        return None
    rank = next((str(record[key]) for key in _RANK_KEYS if type(record.get(key)) is int), "")
    phases = [record[key] for key in _PHASE_KEYS if isinstance(record.get(key), str)]
    series = StepSeries(not any(map(_EVALUATION.search, phases)), rank, keyword)
    wall_ns = next((ns for key in _TIME_KEYS if (ns := _time_ns(record.get(key), before_ns)) is not None), None)
    return StepPoint(record[keyword], wall_ns, series=series)


def _time_ns(value: Any, before_ns: int | None) -> int | None:
    """Return the Unix time in ns from a number of seconds, or from a text with date and time; None for other values.

    before_ns: as in ``_moment_ns``
    """
    if isinstance(value, str):
        match = _MOMENT.fullmatch(value.strip())
        return None if match is None else _moment_ns(match[0], before_ns)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_unix_time(value):
        return None
    return round(value * _SECOND)


def _is_unix_time(seconds: float) -> bool:
    return _FIRST_UNIX_S <= seconds <= _LAST_UNIX_S


def _from_bar(line: str) -> StepPoint | None:
    bar = None
    for bar in _BAR.finditer(line):  # noqa: B007 - the last of several bars in a line
        pass
    if bar is None:
        return None
    hours, minutes, seconds = int(bar[3] or 0), int(bar[4]), int(bar[5])
    series = StepSeries(rank=_rank_in(line[: bar.start()]))
    return StepPoint(int(bar[1]), None, hours * 3600.0 + minutes * 60 + seconds, bar[2], series)


def _from_text(line: str, before_ns: int | None) -> StepPoint | None:
    """The step in a line of text. before_ns: as in ``_moment_ns``."""
    match = _STEP.search(line)
    if match is None:
        return None
    moment = _MOMENT.search(line)
    before = line[: match.start()]
    series = StepSeries(_EVALUATION.search(before) is None, _rank_in(before), match[1].lower())
    wall_ns = None if moment is None else _moment_ns(moment[0], before_ns)
    return StepPoint(int(match[2].replace(",", "")), wall_ns, series=series)


def _rank_in(text: str) -> str:
    match = _RANK.search(text)
    return "" if match is None else match[1] or match[2]


def _moment_ns(moment: str, before_ns: int | None) -> int | None:
    """Return the Unix time in ns of a text with date and time; None if no moment has this date and time.

    before_ns: the previous time in the log; the later of two times with the same text is found as in ``logged_time_ns``
    """
    moment = moment.replace(",", ".")
    try:
        ns = parse_moment_ns(moment)
        if before_ns is not None and ns < before_ns - SET_BACK_NS:
            ns = max(ns, parse_moment_ns(moment, fold=1))
        return ns
    except UsageError:
        return None
