"""``iotop-ai snapshot``: one interval of all figures, as text or JSON."""

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

SLOWEST_S = 1.0
"""Period of the collectors that run on threads; at a shorter interval the command waits for one more reading."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``snapshot``."""
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    add_source_flags(parser, sub=True)


def run(args: argparse.Namespace) -> int:
    """Take two Snapshots one interval apart and print the second with its rates."""
    settings = resolve_devices(settings_of(args))
    frame = take_frame(LiveSource(settings, marks=True))
    if args.json:
        text = render_snapshot_json(frame, settings.devices, settings.cmdline) + "\n"
    else:
        text = heading(frame) + render_block(frame, Block(devices=settings.devices, smart=True))
    sys.stdout.write(text)
    return 0


def heading(frame: Frame) -> str:
    """Return the machine, the time and the interval, in one line."""
    snapshot = frame.snapshot
    seconds = frame.sample.seconds
    over = "" if seconds is None else f", {seconds:.2f} s"
    return f"{snapshot.host.name} ({snapshot.host.kernel}) {rfc3339(snapshot.wall_ns)}{over}\n"


def take_frame(source: LiveSource) -> Frame:
    """Return the Frame of one interval. Waits some seconds for late SMART and GPUs; later they stay pending."""
    stream = iter(source)
    try:
        before, after = next(stream), next(stream)
        if late_parts(after):
            source.wait_smart(SMART_WAIT_S)
            source.wait_gpu(GPU_WAIT_S)
            after = completed(after, source.snapshot())
        for later in stream if after.interval_s < SLOWEST_S else ():
            if not late_parts(after) or later.at_ns - after.at_ns > SLOWEST_S * 1e9:
                break
            after = completed(after, later)
    finally:
        source.close()
        for _ in stream:
            pass
    return judged_frame(before, after)


def judged_frame(before: Snapshot, after: Snapshot) -> Frame:
    """Return the pair's Frame with a fresh verdict.

    The fold would keep the first Snapshot's verdict, which has no rates, for its shortest stay.
    """
    *_, frame = frames((before, after))
    carry, verdict = fold(FoldState(started_ns=before.at_ns), after, frame.history)
    return frame._replace(carry=carry, verdict=verdict)


def completed(after: Snapshot, later: Snapshot) -> Snapshot:
    """Return the Snapshot with its pending fields filled from a later one; the counters stay as they are."""
    return after._replace(**{name: getattr(later, name) for name in late_parts(after)})
