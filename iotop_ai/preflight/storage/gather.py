"""Combines the messages of a running check into a report, and compares the report with earlier checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.state.folder import state_path
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.history import comparable, compared, kept_of, slower_than_before
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import Measured
from iotop_ai.preflight.storage.check import DatasetFacts, End, Message, Progress, Started
from iotop_ai.preflight.storage.history import keep_check, read_history

LEAST_KEPT_S = 5.0
"""The shortest check that is compared with others, in seconds. The results of a shorter check vary too much."""

MOST_OTHER_RATIO = 0.2
"""A check is not compared if other programs made at least this share of the disk's reads."""


class Gathered(NamedTuple):
    """The report with all measurements, and the message with which the check ended."""

    report: Report
    end: End


def gather(
    report: Report, messages: Iterable[Message], clock: Clock, show: Callable[[Report, Progress], None]
) -> Gathered:
    """Make a report from all messages of a check. show: called for each Progress, with the report so far."""
    end = End()
    for message in messages:
        if isinstance(message, Progress):
            show(report, message)
        elif isinstance(message, Started):
            report = report._replace(target=message.target, engine=message.engine)
        elif isinstance(message, DatasetFacts):
            report = report._replace(dataset=message.dataset, decoding=message.decoding)
        elif isinstance(message, Measured):
            report = report._replace(results=(*report.results, message))
        elif isinstance(message, str):
            report = report._replace(notes=(*report.notes, message))
        else:
            end = message
    notes = []
    if end.left:
        notes.append(f"the check's file could not be removed: {end.left}; a later check of this folder removes it")
    if end.hung_s:
        notes.append("the check's process still waits for the storage; it removes the file when the storage answers")
    if end.error and not report.results:
        end = end._replace(error=f"{report.place.path}: {end.error}")
    report = report._replace(
        wall_s=clock.wall_ns() // 10**9, notes=(*report.notes, *notes), hung_s=end.hung_s, failed=end.error
    )
    return Gathered(report, end)


def compare_and_keep(report: Report, seconds: float) -> Report:
    """Return the report with the figures that are slower than before, and store this check's figures for later checks.

    seconds: the duration of the check. A check is neither compared nor stored if it was short, read through the page
    cache or was disturbed by other programs; if its storage has no key; or if it read another program's file, which may
    lie anywhere on the disk or be compressed.
    """
    key, target = report.place.key, report.target
    if not key or target is None or target.kind == "file" or not target.direct or seconds < LEAST_KEPT_S:
        return report
    if report.other_ratio is not None and report.other_ratio >= MOST_OTHER_RATIO:
        others = f"other programs made {round(100 * report.other_ratio)} % of the disk's reads meanwhile"
        return report._replace(notes=(*report.notes, f"{others}: not compared with other checks, and not kept"))
    now = kept_of(report.results, report.engine, report.wall_s)
    folder = state_path()
    try:
        earlier = call_with_timeout(HOME_TIMEOUT_S, folder, lambda: read_history(folder, key))
    except (OSError, ValueError):
        earlier = ()
    try:
        call_with_timeout(HOME_TIMEOUT_S, folder, lambda: keep_check(folder, key, now))
    except OSError as error:
        report = report._replace(notes=(*report.notes, f"not kept for later: {clean(error.strerror or str(error))}"))
    before = comparable(earlier, now)
    return report._replace(changes=slower_than_before(before, now), earlier=len(before), compared=compared(before, now))
