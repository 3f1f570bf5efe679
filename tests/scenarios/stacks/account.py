"""The time of a job according to a recording: its data stalls each second, and its breakdown over the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from tests.scenarios.watch import row_of

WINDOW_S = 10.0
"""The window of the stall that the program reports each second, in seconds."""


def true_wait(rows: Sequence[dict[str, Any]], start: float, end: float) -> float | None:
    """Return the slowest rank's share of waiting between two moments; None if the rows do not cover them."""
    before = [row for row in rows if row["at"] <= start and None not in row["ranks"]]
    after = [row for row in rows if row["at"] >= end and None not in row["ranks"]]
    if not before or not after:
        return None
    a, b = before[-1], after[0]
    pairs = zip(a["ranks"], b["ranks"], strict=True)
    return max(float(y["wait"] - x["wait"]) for x, y in pairs) / float(b["at"] - a["at"])


def stalls_of(recording: Sequence[Snapshot], pid: int, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the verdicts of a recording, second by second.

    classes: the number of seconds for which each class came first. errors: the stall of each second less the true one.
    text: the last sentence of the screen.
    """
    classes: dict[str, int] = {}
    errors = []
    text = ""
    for tick in (row_of(frame, pid) for frame in frames(recording)):
        if tick["measuring"] or not tick["classes"]:
            continue
        text = f"{tick['state']} | {tick['because']}"
        classes[tick["classes"][0]] = classes.get(tick["classes"][0], 0) + 1
        true = true_wait(rows, tick["at"] - WINDOW_S, tick["at"])
        if tick["stall"] is not None and true is not None:
            errors.append(round(tick["stall"] - true, 4))
    return {"classes": classes, "errors": errors, "text": text}


def account_of(recording: Sequence[Snapshot], pid: int) -> dict[str, float] | None:
    """Return the shares of the job's time over a recording; None when it was not recorded."""
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for snapshot in recording:
        table = snapshot.jobs.value
        for key, counts in table.times.items() if table is not None else ():
            job = table.jobs.get(key)
            if job is not None and pid in {member.pid for member in job.members}:
                last = {name: float(value) for name, value in counts._asdict().items()}
                first = first or last
    grown = {name: last[name] - first.get(name, 0.0) for name in last}
    whole = sum(grown.values())
    return {name: round(value / whole, 4) for name, value in grown.items()} if whole else None


def other_jobs(recording: Sequence[Snapshot], pid: int) -> int:
    """Return the number of other training jobs that ran on the machine meanwhile; 0 if only the benchmark runs."""
    tables = [snapshot.jobs.value for snapshot in recording if snapshot.jobs.value is not None]
    jobs = [job for table in tables for job in table.jobs.values()]
    return len({job.key for job in jobs if pid not in {member.pid for member in job.members}})
