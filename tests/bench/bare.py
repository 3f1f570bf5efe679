"""The monitor without a screen or a file, to measure the cost of reading and judging each second.

``python tests/bench/bare.py [--ring]`` runs until it is killed. --ring keeps the last hour, as the live screen does.
"""

from __future__ import annotations

import argparse
import gc

from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.sources.live.source import LiveSource


def main() -> None:
    """Read and judge the machine until the process is killed."""
    parser = argparse.ArgumentParser(prog="python tests/bench/bare.py", description=__doc__)
    parser.add_argument("--ring", action="store_true")
    ring = None
    if parser.parse_args().ring:
        from iotop_ai.store.last_hour import Ring

        ring = Ring()
    for number, frame in enumerate(frames(LiveSource(Settings()))):
        if number == 0:
            gc.freeze()
        if ring is not None:
            ring.put(frame)


if __name__ == "__main__":
    main()
