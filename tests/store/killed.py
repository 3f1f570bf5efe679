"""Records made-up Snapshots of many processes, as fast as the file can be written, until this process is killed.

``python -m tests.store.killed FILE PROCESSES`` prints "up" before the first Snapshot.
"""

from __future__ import annotations

import itertools
import sys

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.pipeline import frames
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.bench.server import Server


def main() -> None:
    server = Server("two", processes=int(sys.argv[2]), gpus=1, disks=4, cores=8)
    recorder = Recorder(FileSink(sys.argv[1]), Clock(), min_free_bytes=0)
    print("up", flush=True)
    for i, frame in enumerate(frames(server.snapshot() for _ in itertools.count())):
        recorder.put(frame)
        while recorder.state().snapshots <= i:
            pass


if __name__ == "__main__":
    main()
