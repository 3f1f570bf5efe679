"""Watches the machine as iotop-ai does, with a line of JSON per tick: ``python -m tests.scenarios.watch SECONDS PID``.

It is a separate process, because a GPU library is found through LD_LIBRARY_PATH, which is read when a program starts.
With --record FILE it also writes a recording.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.diagnosis.facts.gather import gather
from iotop_ai.model.finding import Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.model.verdict_class import State
from iotop_ai.pipeline import frames
from iotop_ai.present.verdict import headline
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink

ALARMS = (State.STARVED, State.BLOCKED, State.SLOWED)


def row_of(frame: Frame, pid: int) -> dict[str, Any]:
    """Return the figures of a tick: the classes of the findings, and the measured figures of the job of ``pid``."""
    facts = gather(frame.snapshot, frame.history)
    job = next((j for j in facts.jobs if pid in {key.pid for key in j.job.members}), None)
    verdict, sample = frame.verdict, frame.sample.jobs.value
    first = verdict.primary
    return {
        "at": frame.snapshot.at_ns / 1e9,
        "classes": [f.class_id for f in verdict.findings],
        "measuring": verdict.measuring,
        "alarm": first.state in ALARMS and first.severity is not Severity.INFO,
        "confidence": first.confidence,
        "stall": None if job is None else job.stall,
        "parts": None if job is None else (job.disk, job.running, job.net, job.other),
        "blocked_tasks": None if job is None else job.blocked_tasks,
        "state": headline.text_of(headline.headline(verdict)),
        "because": headline.text_of(headline.because(verdict)),
        "do": headline.text_of(headline.advice(verdict)),
        "cost": None if sample is None else sample.own_cpu_ratio,
        "own": frame.sample.own.cpu_ratio,
    }


@contextlib.contextmanager
def recorded(path: Path | None) -> Iterator[Recorder | None]:
    """Provide a recorder that writes to the file; None without a file."""
    if path is None:
        yield None
        return
    recorder = Recorder(FileSink(str(path)), Clock())
    try:
        yield recorder
    finally:
        recorder.close(30.0)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=int)
    parser.add_argument("pid", type=int)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--root", help="a captured machine to watch instead of this one")
    parser.add_argument("--smartctl", default="", help="the smartctl that queries disks; default: SMART is off")
    a = parser.parse_args()
    settings = Settings(interval_s=1.0, smart=bool(a.smartctl), smartctl=a.smartctl, remember=False)
    source = LiveSource(settings, Root(a.root) if a.root else None)
    with recorded(a.record) as recorder:
        for frame in islice(frames(source), a.seconds + 1):
            if recorder is not None:
                recorder.put(frame)
            print(json.dumps(row_of(frame, a.pid)), flush=True)
    source.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
