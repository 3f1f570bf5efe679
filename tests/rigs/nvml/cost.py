"""A child that runs the whole monitor for a while, and prints its cost and the share of the NVML calls in it.

``python -m tests.rigs.nvml.cost SECONDS WIDTH HEIGHT`` prints one JSON object: the number of GPUs, the CPU time in ms
per second, in total and in the NVML calls, and the calls per second.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.present.screen.layout import screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.sources.live.source import LiveSource

LAST_WARM_UP_FRAME = 7
"""The last Frame that is left out. Until then, the library is opened and every call is made for the first time."""


def main(seconds: int, width: int, height: int) -> None:
    source = LiveSource(Settings(smart=False))
    calls = source._slow.gpu._nvml._calls
    original, spent = calls.timed, [0, 0]  # spent: nanoseconds, calls

    def timed(label: str, call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        start = time.thread_time_ns()
        try:
            return original(label, call, *args, **keywords)
        finally:
            spent[0] += time.thread_time_ns() - start
            spent[1] += 1

    calls.timed = timed  # type: ignore[method-assign]
    begin: tuple[int, int, int, float] | None = None
    view = View()
    for i, frame in enumerate(frames(source)):
        screen_rows(width, height, frame, view)
        if i == LAST_WARM_UP_FRAME:
            begin = time.process_time_ns(), *spent, time.monotonic()
        if begin is not None and i >= LAST_WARM_UP_FRAME + seconds:
            break
    assert begin is not None
    wall = time.monotonic() - begin[3]
    print(
        json.dumps(
            {
                "gpus": len(frame.snapshot.gpu.value or {}),
                "cpu_ms_per_s": (time.process_time_ns() - begin[0]) / 1e6 / wall,
                "calls_ms_per_s": (spent[0] - begin[1]) / 1e6 / wall,
                "calls_per_s": (spent[1] - begin[2]) / wall,
            }
        ),
        flush=True,
    )
    source.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
