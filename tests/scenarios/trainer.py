"""A trainer with loader workers, without any framework: ``python trainer.py FOLDER --workers 2 --step 0.05 ...``.

The workers are processes with index queues and one result queue, named pt_data_worker as PyTorch names its own
(prctl PR_SET_NAME); with --workers 0 the trainer loads by itself. A step is a sleep, as in MLPerf Storage. Each step
appends its wait for data and its length to --log as a line of JSON: the truth that a verdict is measured against.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import queue
import random
import sys
import threading
import time
from multiprocessing.queues import Queue
from pathlib import Path

PR_SET_NAME = 15
CHUNK = 128 * 1024


def name_thread(name: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def spin(seconds: float) -> None:
    """Compute for so much CPU time of this thread."""
    end = time.thread_time() + seconds
    x = 1
    while time.thread_time() < end:
        for _ in range(2000):
            x = x * 1103515245 + 12345 & 0x7FFFFFFF


class Dataset:
    """Samples: a read of ``size`` bytes at a random place of a random file, cold each time, then some computing."""

    def __init__(self, folder: Path, size: int, cpu_s: float, warm: bool) -> None:
        self.files = sorted(folder.glob("*.bin"))
        self.size = size
        self.cpu_s = cpu_s
        self.warm = warm
        self.random = random.Random(os.getpid())

    def load(self) -> int:
        total = 0
        if self.files and self.size:
            path = self.random.choice(self.files)
            with path.open("rb", buffering=0) as file:
                fd = file.fileno()
                most = os.fstat(fd).st_size
                if not self.warm:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
                place = self.random.randrange(max(1, most - self.size + 1)) // 4096 * 4096
                left = self.size
                while left > 0:
                    got = len(os.pread(fd, min(CHUNK, left), place))
                    if not got:
                        break
                    total, place, left = total + got, place + got, left - got
                if not self.warm:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if self.cpu_s:
            spin(self.cpu_s)
        return total


def worker(dataset: Dataset, indices: Queue[int], results: Queue[int], batch: int) -> None:
    name_thread("pt_data_worker")
    while True:
        try:
            index = indices.get(timeout=5.0)
        except queue.Empty:
            if os.getppid() == 1:
                return
            continue
        if index < 0:
            return
        for _ in range(batch):
            dataset.load()
        results.put(index)


class Loader:
    def __init__(self, dataset: Dataset, workers: int, batch: int, prefetch: int, method: str) -> None:
        self.dataset, self.batch = dataset, batch
        self.next = 0
        if not workers:
            return
        context = multiprocessing.get_context(method)
        self.results: Queue[int] = context.Queue()
        self.queues: list[Queue[int]] = [context.Queue() for _ in range(workers)]
        self.processes = [
            context.Process(target=worker, args=(dataset, q, self.results, batch), daemon=True) for q in self.queues
        ]
        for process in self.processes:
            process.start()
        for _ in range(prefetch * workers):
            self.ask()

    def ask(self) -> None:
        self.queues[self.next % len(self.queues)].put(self.next)
        self.next += 1

    def get(self) -> None:
        if not hasattr(self, "queues"):
            for _ in range(self.batch):
                self.dataset.load()
            return
        self.results.get()
        self.ask()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--size", type=int, default=CHUNK)
    parser.add_argument("--cpu-ms", type=float, default=0.0)
    parser.add_argument("--step", type=float, default=0.05)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--save-bytes", type=int, default=60 << 20)
    parser.add_argument("--method", default="fork")
    parser.add_argument("--gpu", type=Path)
    parser.add_argument("--log", type=Path)
    a = parser.parse_args()
    if a.gpu:
        # Stands for a GPU library's own threads and for its report of utilisation.
        threading.Thread(target=report, args=(a.gpu,), daemon=True).start()
    loader = Loader(Dataset(a.folder, a.size, a.cpu_ms / 1000, a.warm), a.workers, a.batch, a.prefetch, a.method)
    log = a.log.open("w", buffering=1) if a.log else None
    step = 0
    while True:
        start = time.monotonic()
        loader.get()
        ready = time.monotonic()
        time.sleep(a.step)
        COMPUTED[0] += time.monotonic() - ready
        saved = time.monotonic()
        step += 1
        if a.save_every and step % a.save_every == 0:
            save(a.folder / "checkpoint.pt", a.save_bytes)
        end = time.monotonic()
        if log:
            log.write(json.dumps({"at": ready, "wait": ready - start, "all": end - start, "save": end - saved}) + "\n")


COMPUTED = [0.0]


def report(target: Path) -> None:
    """Tell the share of each half second that was spent in steps as a GPU's utilisation and power.

    target: the text file that the C NVML library answers from (tests/rigs/nvml).
    """
    keep = [line for line in target.read_text().splitlines() if not line.startswith(("gpu0.util", "gpu0.power_mw"))]
    before, at = 0.0, time.monotonic()
    while True:
        time.sleep(0.5)
        now, done = time.monotonic(), COMPUTED[0]
        share = min(1.0, (done - before) / (now - at))
        fresh = target.with_suffix(".new")
        figures = [f"gpu0.util={round(100 * share)}", f"gpu0.power_mw={round(70_000 + 600_000 * share)}"]
        fresh.write_text("\n".join([*keep, *figures, f"gpu0.procs={os.getpid()}:8589934592"]) + "\n")
        os.replace(fresh, target)
        before, at = done, now


def save(path: Path, size: int) -> None:
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    sys.exit(main())
