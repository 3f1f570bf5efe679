"""Prints one line about what a Slurm job lost. Usage: slurm_line.py JOB FILE...

Each FILE is the output of ``iotop-ai report --json`` on one node. An example of the line: "job 48213 lost 212 of 900
GPU-h: 71 % disk sda on gpu07". The percentage is the largest cause's share of the loss. Without GPUs, the line counts
the hours of the training jobs. The script needs only the standard library.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

MOST_REPORT_BYTES = 64 << 20
NOT_LOST = ("compute", "unexplained")
"""The shares of time that do not count as lost."""
WORDS = {
    "data_disk": "disk",
    "data_network": "network",
    "data_cpu": "CPU of the loader",
    "data_other": "data",
    "collective": "other ranks",
    "transfer": "copies to the GPU",
    "host": "main thread",
}
"""The words for shares of time whose names do not explain themselves."""


def jobs_of(report: Mapping[str, Any], job: str) -> list[Mapping[str, Any]]:
    """A report's training jobs that are labelled with the Slurm job; if there are none, its jobs outside Slurm."""
    jobs = report["jobs"]
    own_jobs = [training for training in jobs if f"{training['label']}.".startswith(f"slurm {job}.")]
    return own_jobs or [training for training in jobs if not training["label"].startswith("slurm ")]


def line(job: str, reports: Iterable[Mapping[str, Any]]) -> str:
    """The line about a Slurm job, in GPU-hours if every training job had GPUs.

    A training job whose number of GPUs is unknown counts only if no job's number is known.
    """
    jobs = [(report["machine"]["host"], training) for report in reports for training in jobs_of(report, job)]
    timed_jobs = [(host, training) for host, training in jobs if training["time_s"]]
    if not timed_jobs:
        return f"job {job}: {'where its time went is not known' if jobs else 'no training was seen'}"
    timed_jobs = [(host, training) for host, training in timed_jobs if training["gpus"] is not None] or timed_jobs
    on_gpus = all(training["gpus"] for _, training in timed_jobs)
    total, parts = 0.0, defaultdict[tuple[str, str, str], float](float)
    for host, training in timed_jobs:
        time_s = training["time_s"]
        watched_s = sum(time_s.values())
        hours = training["gpu_hours"] if on_gpus else watched_s / 3600
        total += hours
        for share, seconds in time_s.items():
            if share not in NOT_LOST and seconds:
                place = (
                    training["disk"] if share == "data_disk" else training["mount"] if share == "data_network" else ""
                ) or ""
                parts[share, place, host] += hours * seconds / watched_s
    lost = sum(parts.values())
    text = f"job {job} lost {figure(lost)} of {figure(total)} {'GPU-h' if on_gpus else 'h'}"
    if not lost:
        return text
    share, place, host = max(parts, key=lambda key: parts[key])
    cause = " ".join(filter(None, (WORDS.get(share, share), place)))
    return f"{text}: {100 * parts[share, place, host] / lost:.0f} % {cause} on {host}"


def figure(hours: float) -> str:
    """A number with three significant digits; from 100 upwards, a whole number."""
    return f"{hours:.0f}" if hours >= 99.95 else f"{hours:.3g}"


def main(arguments: list[str]) -> int:
    """Print the line; return 1 if no report is readable, else 0."""
    reports = []
    for path in arguments[1:]:
        try:
            with open(path, "rb") as file:
                report = json.loads(file.read(MOST_REPORT_BYTES))
            line(arguments[0], [report])  # raises if the report lacks a field
            reports.append(report)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            sys.stderr.write(f"slurm_line: {path} is not a report\n")
    if not reports:
        return 1
    sys.stdout.write(f"{line(arguments[0], reports)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
