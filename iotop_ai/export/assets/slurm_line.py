"""Prints one line about what a Slurm job lost. Usage: slurm_line.py JOB FILE...

Each FILE is the output of ``iotop-ai report --json`` on one node. An example of the line: "job 48213 lost 212 of 900
GPU-h: 71 % disk sda on gpu07". Without GPUs, the line counts the hours of the training jobs. The script needs only the
standard library.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

LARGEST = 64 << 20
NOT_LOST = ("compute", "unexplained")
WORDS = {
    "data_disk": "disk",
    "data_network": "network",
    "data_cpu": "CPU of the loader",
    "data_other": "data",
    "collective": "other ranks",
    "transfer": "copies to the GPU",
    "host": "main thread",
}


def jobs_of(report: Mapping[str, Any], job: str) -> list[Mapping[str, Any]]:
    """The training jobs in a report whose cgroups belong to the Slurm job; without any, the jobs outside Slurm."""
    jobs = report["jobs"]
    mine = [one for one in jobs if one["label"] == f"slurm {job}" or one["label"].startswith(f"slurm {job}.")]
    return mine or [one for one in jobs if not one["label"].startswith("slurm ")]


def line(job: str, reports: Iterable[Mapping[str, Any]]) -> str:
    """The line about a Slurm job, in GPU-hours if every training job had GPUs.

    A training job whose number of GPUs is unknown counts only if it is unknown for all of them.
    """
    seen = [(report["machine"]["host"], one) for report in reports for one in jobs_of(report, job)]
    found = [(host, one) for host, one in seen if one["time_s"]]
    if not found:
        return f"job {job}: {'where its time went is not known' if seen else 'no training was seen'}"
    found = [(host, one) for host, one in found if one["gpus"] is not None] or found
    on_gpus = all(one["gpus"] for _, one in found)
    whole, parts = 0.0, defaultdict[tuple[str, str, str], float](float)
    for host, one in found:
        weight = one["gpus"] if on_gpus else 1
        for share, seconds in one["time_s"].items():
            whole += weight * seconds / 3600
            if share not in NOT_LOST:
                place = (one["disk"] if share == "data_disk" else one["mount"] if share == "data_network" else "") or ""
                parts[share, place, host] += weight * seconds / 3600
    lost = sum(parts.values())
    text = f"job {job} lost {figure(lost)} of {figure(whole)} {'GPU-h' if on_gpus else 'h'}"
    if not lost:
        return text
    share, place, host = max(parts, key=lambda key: parts[key])
    what = " ".join(filter(None, (WORDS.get(share, share), place)))
    return f"{text}: {100 * parts[share, place, host] / lost:.0f} % {what} on {host}"


def figure(hours: float) -> str:
    """A number with three significant digits, without trailing zeros."""
    return f"{hours:.0f}" if hours >= 99.95 else f"{hours:.3g}"


def main(words: list[str]) -> int:
    """Print the line; return 1 if no report is readable, else 0."""
    reports = []
    for path in words[1:]:
        try:
            with open(path, "rb") as file:
                report = json.loads(file.read(LARGEST))
            line(words[0], [report])
            reports.append(report)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            sys.stderr.write(f"slurm_line: {path} is not a report\n")
    if not reports:
        return 1
    sys.stdout.write(f"{line(words[0], reports)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
