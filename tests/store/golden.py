"""The golden recording of a format number, which is made once and must be readable for ever.

``python -m tests.store.golden`` writes ``tests/data/recordings/format-N.iotop.jsonl.gz``, and each value in it as
``format-N.values.json``. It does not overwrite these files: those of a released format are never made again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.store.format.codec import FORMAT
from iotop_ai.store.write.compress import compress
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.bench.server import Server

FOLDER = Path(__file__).resolve().parents[1] / "data" / "recordings"
TICKS = 64
SAMPLED = (1, 60, 63)
"""The Snapshots of which every value is stored: a change, a keyframe and the last one."""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar in a record, with the path of names that leads to it. A set or an empty container counts as one."""
    if hasattr(value, "_fields"):
        for name in value._fields:
            yield from leaves(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, Mapping) and value:
        for key, part in value.items():
            name = "/".join(map(str, key)) if isinstance(key, tuple) else key
            yield from leaves(part, f"{path}[{name}]")
    elif isinstance(value, tuple) and value:
        for i, part in enumerate(value):
            yield from leaves(part, f"{path}[{i}]")
    elif isinstance(value, Enum):
        yield path, value.value
    elif isinstance(value, frozenset | dict | tuple):
        yield path, sorted(value)
    else:
        yield path, value


def values(snapshots: list[Snapshot]) -> dict[str, Any]:
    """The scalars of the selected Snapshots."""
    return {f"{i}{path}": leaf for i in SAMPLED for path, leaf in leaves(snapshots[i])}


def session() -> list[Frame]:
    """The recorded session of a small busy server, which has events of several kinds."""
    server = Server("two", processes=12, gpus=2, disks=2, cores=2)
    snapshots = [server.snapshot() for _ in range(TICKS)]
    events = [(1, "mark", "epoch 1"), (30, "device_added", "sdz"), (60, "process_ended", "python3 (pid 1000): SIGKILL")]
    for i, kind, text in events:
        at = snapshots[i]
        snapshots[i] = at._replace(events=(Event(at.at_ns - 5, at.wall_ns - 5, kind, text),))
    return list(frames(snapshots))


def main() -> int:
    path = FOLDER / f"format-{FORMAT}.iotop.jsonl"
    if path.with_name(path.name + ".gz").exists():
        print(f"format {FORMAT} already has its recording, which is never replaced", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    live = session()
    recorder = Recorder(FileSink(str(path)), Clock(), min_free_bytes=0)
    for frame in live:
        recorder.put(frame)
    recorder.close()
    compress(str(path))
    kept = values([frame.snapshot for frame in live])
    (FOLDER / f"format-{FORMAT}.values.json").write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
