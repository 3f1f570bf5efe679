"""A process that reads the GPUs when told to: glibc takes LD_LIBRARY_PATH only at exec, so each library needs one.

One command a line on stdin, one JSON object a line on stdout: ``read`` (the Reading as the live source takes it),
``sweep`` (the Reading after the next sweep), ``first`` (after the first answer), ``costs``.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from iotop_ai.collectors.base import take
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.gpu import GpuCollector
from iotop_ai.model.reading import Reading


def plain(reading: Reading[Any]) -> dict[str, Any]:
    value = reading.value
    if isinstance(value, dict):
        value = {key: plain(one) for key, one in value.items()}
    elif value is not None:
        value = {**value._asdict(), "processes": value.processes and [p._asdict() for p in value.processes]}
    return {**reading._asdict(), "value": value}


def main(every_s: float, retry_s: float) -> None:
    clock = Clock()
    collector = GpuCollector(clock, every_s=every_s, retry_s=retry_s)
    for line in sys.stdin:
        command = line.strip()
        if command == "first":
            collector.wait(10.0)
        if command == "sweep":
            old = take(collector, clock)
            until = time.monotonic() + 10.0
            while time.monotonic() < until and take(collector, clock).at_ns == old.at_ns:
                time.sleep(0.005)
        if command == "costs":
            out: Any = {name: cost._asdict() for name, cost in collector.costs().items()}
        else:
            out = plain(take(collector, clock))
        out["pynvml"] = "pynvml" in sys.modules
        print(json.dumps(out), flush=True)
    collector.close()


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
