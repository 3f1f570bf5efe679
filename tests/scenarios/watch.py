"""Watches the machine as the product does, a line of JSON a tick: ``python -m tests.scenarios.watch SECONDS PID``.

A process of its own, since a GPU library is found through LD_LIBRARY_PATH, which is read at exec.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import islice

from iotop_ai.diagnosis.facts import gather
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.present import finding
from iotop_ai.sources.live import LiveSource


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=int)
    parser.add_argument("pid", type=int)
    a = parser.parse_args()
    source = LiveSource(Settings(interval_s=1.0, smart=False))
    for frame in islice(frames(source), a.seconds + 1):
        facts = gather(frame.snapshot, frame.history)
        job = next((j for j in facts.jobs if a.pid in {key.pid for key in j.job.members}), None)
        verdict = frame.verdict
        sample = frame.sample.jobs.value
        row = {
            "at": frame.snapshot.at_ns / 1e9,
            "classes": [f.class_id for f in verdict.findings],
            "measuring": verdict.measuring,
            "confidence": verdict.primary.confidence,
            "stall": None if job is None else job.stall,
            "parts": None if job is None else (job.disk, job.running, job.net, job.other),
            "blocked_tasks": None if job is None else job.blocked_tasks,
            "state": finding.text_of(finding.headline(verdict, frame)),
            "because": finding.text_of(finding.because(verdict, frame)),
            "do": finding.text_of(finding.advice(verdict, frame)),
            "cost": None if sample is None else sample.own_cpu_ratio,
            "own": frame.sample.own.cpu_ratio,
        }
        print(json.dumps(row), flush=True)
    source.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
