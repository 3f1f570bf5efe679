"""A process that reads the GPUs on request. Each library needs a new process: LD_LIBRARY_PATH is read only at exec.

It reads one command per line from stdin and prints one JSON object per line: ``read`` (the Reading as the live source
takes it), ``sweep`` (the Reading after the next sweep), ``first`` (the Reading after the first answer), ``details``,
``events``, ``costs``, ``rates`` (those between the next two sweeps), and ``xid UUID NUMBER`` (note an Xid, as from the
kernel's log). Its arguments are the seconds between two sweeps, the seconds between two tries to open the library, and
optionally the folder that contains proc and sys.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.gpu.collector import GpuCollector, GpuDetailCollector
from iotop_ai.collectors.gpu.nvml.xid_events import XidEvent
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.gpu.state import gpu_rates
from iotop_ai.model.reading import Reading


def plain(reading: Reading[Any]) -> dict[str, Any]:
    value = reading.value
    if isinstance(value, dict):
        value = {key: plain(one) for key, one in value.items()}
    elif value is not None:
        value = {
            key: [one._asdict() for one in item] if isinstance(item, tuple) else item
            for key, item in value._asdict().items()
        }
    return {**reading._asdict(), "value": value}


def next_sweep(collector: GpuCollector, clock: Clock) -> Reading[Any]:
    old = take_reading(collector, clock)
    until = time.monotonic() + 60.0
    while time.monotonic() < until and (new := take_reading(collector, clock)).at_ns == old.at_ns:
        time.sleep(0.005)
    return new


def main(every_s: float, retry_s: float, folder: str) -> None:
    clock = Clock()
    root = Root(folder) if folder else None
    collector = GpuCollector(clock, every_s=every_s, retry_s=retry_s, root=root)
    detail = GpuDetailCollector(collector)
    for line in sys.stdin:
        command = line.strip()
        if command == "first":
            collector.wait(10.0)
        if command == "sweep":
            next_sweep(collector, clock)
        if command == "costs":
            out: Any = {name: cost._asdict() for name, cost in collector.costs().items()}
        elif command == "details":
            out = plain(take_reading(detail, clock))
        elif command.startswith("xid "):
            _, uuid, number = command.split()
            collector.note_xid(XidEvent(uuid, int(number), 1, 1))
            out = {}
        elif command == "events":
            out = {"events": [event._asdict() for event in collector.events()]}
        elif command == "rates":
            before = next_sweep(collector, clock)
            after = next_sweep(collector, clock)
            rates = gpu_rates(before.value, after.value, (after.at_ns - before.at_ns) / 1e9)
            out = {uuid: one._asdict() for uuid, one in rates.items()}
        else:
            out = plain(take_reading(collector, clock))
        out["pynvml"] = "pynvml" in sys.modules
        print(json.dumps(out), flush=True)
    collector.close()


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
