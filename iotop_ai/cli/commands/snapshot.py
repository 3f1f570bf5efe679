"""``iotop-ai snapshot``: print all figures of one interval, as text or JSON."""

from __future__ import annotations

import argparse
import sys

from iotop_ai.cli.options.common import add_source_flags, settings_of
from iotop_ai.cli.options.devices import resolve_devices
from iotop_ai.diagnosis.engine import fold
from iotop_ai.export.json.snapshot import render_snapshot_json, rfc3339
from iotop_ai.export.text.block import Block, render_block
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.sources.live.late import GPU_WAIT_S, SMART_WAIT_S, late_parts
from iotop_ai.sources.live.source import LiveSource

THREAD_PERIOD_S = 1.0
"""How often the collectors on threads read, in seconds. At a shorter interval the command waits for their values."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``snapshot``."""
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print a JSON object instead of text"
    )
    add_source_flags(parser, sub=True)


def run(args: argparse.Namespace) -> int:
    """Take two Snapshots one interval apart and print the second one with its rates; return 0."""
    settings = resolve_devices(settings_of(args))
    frame = take_frame(LiveSource(settings, marks=True))
    if args.json:
        text = render_snapshot_json(frame, settings.devices, settings.cmdline) + "\n"
    else:
        block = Block(devices=settings.devices, smart=True, cmdline=settings.cmdline)
        text = heading(frame) + render_block(frame, block)
    sys.stdout.write(text)
    return 0


def heading(frame: Frame) -> str:
    """Return one line with the machine, the time and the interval."""
    snapshot = frame.snapshot
    seconds = frame.sample.seconds
    interval_text = "" if seconds is None else f", {seconds:.2f} s"
    return f"{snapshot.host.name} ({snapshot.host.kernel}) {rfc3339(snapshot.wall_ns)}{interval_text}\n"


def take_frame(source: LiveSource) -> Frame:
    """Return the Frame of one interval.

    Waits a few seconds for SMART values and GPUs that answer late. If they do not answer, their fields stay pending.
    """
    stream = iter(source)
    try:
        before, after = next(stream), next(stream)
        if late_parts(after):
            source.wait_smart(SMART_WAIT_S)
            source.wait_gpu(GPU_WAIT_S)
            after = with_late_parts(after, source.snapshot())
        for later in stream if after.interval_s < THREAD_PERIOD_S else ():
            if not late_parts(after) or later.at_ns - after.at_ns > THREAD_PERIOD_S * 1e9:
                break
            after = with_late_parts(after, later)
    finally:
        source.close()
        for _ in stream:  # running the iterator to its end releases the source's resources
            pass
    return judged_frame(before, after)


def judged_frame(before: Snapshot, after: Snapshot) -> Frame:
    """Return the Frame of the two Snapshots, with a verdict that ignores the first Snapshot's verdict.

    The first Snapshot has no rates, but the hysteresis of verdicts would keep its verdict for a while.
    """
    *_, frame = frames((before, after))
    carry, verdict = fold(FoldState(started_ns=before.at_ns), after, frame.history)
    return frame._replace(carry=carry, verdict=verdict)


def with_late_parts(after: Snapshot, later: Snapshot) -> Snapshot:
    """Return ``after`` with its pending fields filled from the later Snapshot. The counters stay as they are."""
    return after._replace(**{name: getattr(later, name) for name in late_parts(after)})
