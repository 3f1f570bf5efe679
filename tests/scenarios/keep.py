"""Keeps one recording of each cause for CI: ``python -m tests.scenarios.keep [RESULTS]``.

It takes the best correct run of each cause from a results folder, reduces it to the data that a verdict reads, and
packs it into tests/data/verdicts/ with its label. tests/test_verdicts.py diagnoses it again. A cause without a correct
run keeps its earlier recording.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.frame import Frame
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.compress import compress
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.scenarios.figures import Scored, scored
from tests.scenarios.plan import KINDS, Run
from tests.scenarios.results import read_all
from tests.scenarios.run import RESULTS
from tests.scenarios.score import score
from tests.scenarios.slim import Slim
from tests.scenarios.watch import row_of

VERDICTS = Path(__file__).resolve().parents[1] / "data/verdicts"
INDEX = "index.json"
LARGEST_BYTES = 250_000
FALSE_ALARMS = 0.1


def snapshots(path: Path) -> list[Snapshot]:
    """Return the Snapshots of a recording."""
    recording = FileRecording(str(path))
    try:
        items = list(recording.items(adopt=False))
    finally:
        recording.close()
    return [item.snapshot if isinstance(item, Keyframe) else item for item in items]


def write(source: Iterable[Snapshot], target: Path) -> None:
    """Write the Snapshots as a packed recording to ``target`` (.iotop.jsonl.gz)."""
    with tempfile.TemporaryDirectory() as place:
        plain = Path(place) / target.name.removesuffix(".gz")
        recorder = Recorder(FileSink(str(plain)), Clock())
        for count, frame in enumerate(frames(source), 1):
            recorder.put(frame)
            while recorder.alive and recorder.state().snapshots < count:
                os.sched_yield()
        if not recorder.close(60.0) or recorder.state().trouble:
            raise OSError(f"{target}: {recorder.state().trouble}")
        shutil.copyfile(compress(str(plain)), target)


def best(runs: Iterable[Scored]) -> Iterator[Scored]:
    """Yield the steadiest correct run of each cause: a plain run if possible, else one of another kind."""
    order = sorted(
        (run for run in runs if run.right),
        key=lambda r: (r.record["name"], KINDS.index(r.record["kind"]), -r.score.right, r.score.flaps),
    )
    done: set[str] = set()
    for run in order:
        if run.record["name"] not in done:
            done.add(run.record["name"])
            yield run


def entry(run: Scored, file: str) -> dict[str, Any]:
    """Return the index entry of a kept recording."""
    r = run.record
    fields = ("label", "negative", "also", "captured", "window_s", "setting", "started", "kind")
    return {"file": file, **{key: r[key] for key in fields}}


def row(frame: Frame) -> dict[str, Any]:
    """Return a tick of a recording, as the score reads it."""
    return {**row_of(frame, 0), "truth": None}


def wrong(kept: Mapping[str, Any], ticks: Sequence[Mapping[str, Any]]) -> str:
    """Return what the current rules get wrong about a kept recording; "" if nothing is wrong."""
    out = score(kept["label"], ticks, window_s=kept["window_s"], started=kept["started"], also=tuple(kept["also"]))
    if out.got != kept["label"]:
        return f"named {out.got}: {ticks[-1]['because']}" if ticks else "empty"
    if kept["negative"] and out.alarms > FALSE_ALARMS * out.decided:
        return f"{out.alarms} false alarms in {out.decided} s"
    return ""


def keep(results: Path, target: Path) -> list[str]:
    """Keep the best runs of a results folder; return a line about each."""
    target.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = json.loads((target / INDEX).read_text()) if (target / INDEX).exists() else {}
    lines = []
    for run in best(scored(read_all(results))):
        r = run.record
        name = Run(*(r[field] for field in Run._fields)).file
        source, packed = results / f"{name}.iotop.jsonl", target / f"{name.rsplit('-', 1)[0]}.iotop.jsonl.gz"
        fresh = packed.with_name(f"new-{packed.name}")
        slim = Slim(snapshots(source), r.get("pid"))
        write(slim.all(), fresh)
        size, kept = fresh.stat().st_size, entry(run, packed.name)
        trouble = (
            f"{size} bytes" if size > LARGEST_BYTES else wrong(kept, [row(frame) for frame in frames(snapshots(fresh))])
        )
        if trouble:
            # The earlier recording is kept.
            fresh.unlink()
            lines.append(f"left out {r['name']}: {trouble}")
            continue
        os.replace(fresh, packed)
        index[r["name"]] = kept
        lines.append(f"kept {r['name']}: {size} bytes")
    ordered = dict(sorted(index.items()))
    (target / INDEX).write_text(json.dumps(ordered, indent=1) + "\n")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", default=RESULTS)
    a = parser.parse_args()
    print("\n".join(keep(a.results, VERDICTS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
