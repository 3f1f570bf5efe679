"""The GPUs of a stack's trainers. The library in the place of NVML answers by what the trainers do."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from tests.scenarios.stacks.clock import COLLECTIVE, STATES, STEP, Truth, read

PERIOD_S = 1 / 6
"""The period of the samples that the driver takes, in seconds."""
KEPT_SAMPLES = 32
IDLE_W, COMPUTE_EXTRA_W, SPIN_EXTRA_W = 70.0, 530.0, 28.0
MEMORY_BYTES = 8 << 30


class Gpus:
    """A thread that writes ``conf``, from which the library answers, and the truth.

    The utilisation of each GPU is the share of the last second in which its trainer computed or was in a collective.
    Each of the driver's samples is that share over a sixth of a second. truth: the file that gets a line of JSON per
    second, with the seconds of each state so far for each rank.
    """

    def __init__(self, conf: Path | None, clocks: Sequence[Path], truth: Path) -> None:
        self._conf, self._clocks, self._truth = conf, clocks, truth
        self._base = [] if conf is None else conf.read_text().splitlines()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._samples: list[deque[tuple[int, float]]] = [deque(maxlen=KEPT_SAMPLES) for _ in clocks]

    def __enter__(self) -> Gpus:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        before: list[Truth | None] = [None] * len(self._clocks)
        at, turn = time.monotonic(), 0
        with self._truth.open("w", buffering=1) as log:
            while not self._stop.wait(max(0.0, at + PERIOD_S - time.monotonic())):
                now = time.monotonic()
                truths = [read(clock, round(now * 1e9)) for clock in self._clocks]
                if self._conf is not None:
                    self._write(self._conf, before, truths, now - at)
                turn += 1
                if turn % 6 == 0:
                    log.write(json.dumps({"at": now, "ranks": [truth_object(truth) for truth in truths]}) + "\n")
                before, at = truths, now

    def _write(
        self, conf: Path, before: Sequence[Truth | None], truths: Sequence[Truth | None], seconds: float
    ) -> None:
        wall_us = time.time_ns() // 1000
        lines: dict[str, object] = {}
        for number, (old, new) in enumerate(zip(before, truths, strict=True)):
            computed = spun = 0.0
            if old is not None and new is not None:
                computed = min(1.0, (new.seconds[STEP] - old.seconds[STEP]) / seconds)
                spun = min(1.0 - computed, (new.seconds[COLLECTIVE] - old.seconds[COLLECTIVE]) / seconds)
            samples = self._samples[number]
            samples.append((wall_us, computed + spun))
            last = [share for _, share in list(samples)[-6:]]
            lines |= {
                f"gpu{number}.util": round(100 * sum(last) / len(last)),
                f"gpu{number}.samples": ",".join(f"{us}:{round(100 * share)}" for us, share in samples),
                f"gpu{number}.power_mw": round(1000 * (IDLE_W + COMPUTE_EXTRA_W * computed + SPIN_EXTRA_W * spun)),
            }
            if new is not None and new.pid:
                lines[f"gpu{number}.procs"] = f"{new.pid}:{MEMORY_BYTES}"
        kept = [line for line in self._base if line.partition("=")[0] not in lines]
        fresh = conf.with_suffix(".new")
        fresh.write_text("\n".join([*kept, *(f"{key}={value}" for key, value in lines.items())]) + "\n")
        os.replace(fresh, conf)


def truth_object(truth: Truth | None) -> dict[str, object] | None:
    """Return the truth in a form for JSON; None before the trainer has begun."""
    if truth is None:
        return None
    return {**dict(zip(STATES, truth.seconds, strict=True)), "batches": truth.batches, "pid": truth.pid}
