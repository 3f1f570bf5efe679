"""A trainer for a limited time that prints its steps: ``python trainer.py FOLDER --seconds 20 --truth FILE ...``.

It prints lines as a training script does ("2026-11-22 20:41:03,120 step 40 loss 0.512"). The file of --truth gets a
line of JSON for each step, with its wait for data and its length as measured around the loader. --threads N reads with
N threads instead of worker processes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import queue
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.scenarios import trainer


class ThreadLoader:
    """Threads that read batches ahead, as tf.data and grain do."""

    def __init__(self, dataset: trainer.Dataset, threads: int, batch: int, ahead: int) -> None:
        self.dataset, self.batch = dataset, batch
        self.ready: queue.Queue[int] = queue.Queue(maxsize=ahead)
        for _ in range(threads):
            threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            for i in range(self.batch):
                self.dataset.load(i)
            self.ready.put(1)

    def get(self) -> None:
        self.ready.get()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--steps", type=int, default=0, help="end after this number of steps instead")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=trainer.CHUNK)
    parser.add_argument("--cpu-ms", type=float, default=0.0)
    parser.add_argument("--step", type=float, default=0.05)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--every", type=int, default=10, help="print once in this number of steps")
    parser.add_argument("--gpu", type=Path)
    parser.add_argument("--truth", type=Path, required=True)
    a = parser.parse_args()
    if a.gpu:
        threading.Thread(target=trainer.report, args=(a.gpu,), daemon=True).start()
    more = {"sweep": False, "keep": a.warm, "stream": False, "anon_mb": 0}
    dataset = trainer.Dataset(SimpleNamespace(**vars(a), **more))  # type: ignore[arg-type]
    if a.threads:
        get = ThreadLoader(dataset, a.threads, a.batch, 2 * a.threads).get
    else:
        get = trainer.Loader(dataset, a.workers, a.batch, 2, "fork").get
    end, step = time.monotonic() + a.seconds, 0
    with a.truth.open("w", buffering=1) as truth:
        while step < a.steps if a.steps else time.monotonic() < end:
            start = time.monotonic()
            get()
            ready = time.monotonic()
            time.sleep(a.step)
            trainer.COMPUTED[0] += time.monotonic() - ready
            step += 1
            truth.write(json.dumps({"t": time.time(), "wait": ready - start, "all": time.monotonic() - start}) + "\n")
            if step % a.every == 0:
                now = datetime.datetime.now().isoformat(" ", "milliseconds").replace(".", ",")
                print(f"{now} step {step} loss {2 / (1 + step / 50):.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
