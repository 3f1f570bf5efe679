"""A trainer with loader workers: ``python trainer.py FOLDER --workers 2 --step 0.05 ...``.

It needs no framework; with --torch its loader is the real DataLoader.

The workers are processes with index queues and one result queue. They are named pt_data_worker, as PyTorch names its
workers (prctl PR_SET_NAME). With --workers 0 the trainer loads by itself. By default a step is a sleep, as in MLPerf
Storage. Each step appends its wait for data and its length to --log as a line of JSON. This is the truth with which a
verdict is compared.
"""

from __future__ import annotations

import argparse
import ctypes
import http.client
import json
import multiprocessing
import os
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.queues import Queue
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.scenarios.place import die_with_us
from tests.scenarios.steps import KINDS, Step

PR_SET_NAME = 15
CHUNK = 128 * 1024


def name_thread(name: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def spin(seconds: float) -> None:
    """Use this much CPU time in this thread."""
    end = time.thread_time() + seconds
    x = 1
    while time.thread_time() < end:
        for _ in range(2000):
            x = x * 1103515245 + 12345 & 0x7FFFFFFF


TRACKER = """
import os, sys, time
log = open(sys.argv[1], "a", buffering=1)
while os.getppid() != 1:
    figures = [open(f"/proc/{name}").read() for name in ("stat", "meminfo", "net/dev", "diskstats")]
    log.write(f"{time.time()} {sum(map(len, figures))}\\n")
    time.sleep(2)
"""


def start_tracker(a: argparse.Namespace) -> None:
    """Start the process that --tracker requests: it samples the machine and writes lines, as wandb's process does."""
    if a.tracker:
        subprocess.Popen([sys.executable, "-c", TRACKER, str(a.folder / "figures.log")], preexec_fn=die_with_us)


class Dataset:
    """Samples that read ``size`` bytes and then compute. For torch it is a map-style dataset.

    Each read is at a random position of a random file, or with ``sweep`` at the next position, over all files again and
    again. Each read comes from the disk, unless the data is ``warm`` or ``keep`` leaves what was read in the cache.
    With ``url`` a sample is fetched from that server. Each loader also has ``anon_bytes`` of memory, and each sample
    touches some of its pages at random.
    """

    def __init__(self, a: argparse.Namespace) -> None:
        self.files = sorted([*a.folder.glob("*.bin"), *a.folder.glob("*.img")])
        self.sizes = [path.stat().st_size for path in self.files]
        self.size, self.cpu_s, self.warm = a.size, a.cpu_ms / 1000, a.warm
        self.sweep, self.keep = a.sweep, a.keep
        self.url = (a.folder / "url").read_text() if a.stream else ""
        self.anon_bytes = a.anon_mb << 20
        self.anon: bytearray | None = None
        self.connection: http.client.HTTPConnection | None = None
        self.random = random.Random()
        self.owner = 0

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, number: int) -> int:
        return self.load(number)

    def load(self, number: int) -> int:
        if self.owner != os.getpid():
            # After a fork each loader draws other positions.
            self.owner = os.getpid()
            self.random.seed(self.owner)
        total = self.fetch() if self.url else self.read(number) if self.files and self.size else 0
        if self.anon_bytes:
            self.touch()
        if self.cpu_s:
            spin(self.cpu_s)
        return total

    def position(self, number: int) -> tuple[Path, int]:
        if not self.sweep:
            which = self.random.randrange(len(self.files))
            return self.files[which], self.random.randrange(max(1, self.sizes[which] - self.size + 1)) // 4096 * 4096
        offset = number * self.size % sum(self.sizes)
        for path, size in zip(self.files, self.sizes, strict=True):
            if offset < size:
                return path, offset
            offset -= size
        return self.files[0], 0

    def read(self, number: int) -> int:
        path, offset = self.position(number)
        total, left, cold = 0, self.size, not self.warm and not self.keep
        with path.open("rb", buffering=0) as file:
            fd = file.fileno()
            if cold and not self.sweep:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            while left > 0:
                got = len(os.pread(fd, min(CHUNK, left), offset))
                if not got:
                    break
                total, offset, left = total + got, offset + got, left - got
            if cold:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return total

    def fetch(self) -> int:
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.url)
        self.connection.request("GET", f"/{self.size}")
        return len(self.connection.getresponse().read())

    def touch(self) -> None:
        if self.anon is None:
            self.anon = bytearray(self.anon_bytes)
        for _ in range(64):
            at = self.random.randrange(self.anon_bytes)
            self.anon[at] = (self.anon[at] + 1) & 0xFF


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
        for i in range(batch):
            dataset.load(index * batch + i)
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
            for i in range(self.batch):
                self.dataset.load(self.next * self.batch + i)
            self.next += 1
            return
        self.results.get()
        self.ask()


def torch_loader(dataset: Dataset, a: argparse.Namespace) -> Iterator[object]:
    """Yield batches of the real DataLoader."""
    from torch.utils.data import DataLoader

    more = {"prefetch_factor": a.prefetch, "multiprocessing_context": a.method} if a.workers else {}
    return iter(DataLoader(dataset, batch_size=a.batch, num_workers=a.workers, **more))


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line, or these words."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--size", type=int, default=CHUNK)
    parser.add_argument("--cpu-ms", type=float, default=0.0)
    parser.add_argument("--step", type=float, default=0.05)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--kind", choices=KINDS, default="sleep", help="what the main thread does in a step")
    parser.add_argument("--anon-mb", type=int, default=0)
    parser.add_argument("--shm-mb", type=int, default=0)
    parser.add_argument("--start", type=float, default=0.0, help="seconds of compiling before the first step")
    parser.add_argument("--torch", action="store_true", help="the real DataLoader")
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--save-bytes", type=int, default=60 << 20)
    parser.add_argument("--peers", type=int, default=0, help="further ranks, which always spin")
    parser.add_argument("--method", default="fork")
    parser.add_argument("--tracker", action="store_true", help="start a process like that of an experiment tracker")
    parser.add_argument("--gpu", type=Path)
    parser.add_argument("--log", type=Path)
    return parser.parse_args(words)


def main() -> int:
    a = options()
    if a.shm_mb:
        Path("/dev/shm/batches").write_bytes(os.urandom(a.shm_mb << 20))
    start_tracker(a)
    if a.start:
        start_up(a.start, a.folder)
    peers = [rank(a.method) for _ in range(a.peers)]
    if a.gpu:
        # This thread stands for those of a GPU library, and writes the utilisation.
        threading.Thread(target=report, args=(a.gpu, [peer.pid or 0 for peer in peers]), daemon=True).start()
    dataset = Dataset(a)
    if a.torch:
        batches = torch_loader(dataset, a)
        get: Callable[[], object] = lambda: next(batches)  # noqa: E731
    else:
        get = Loader(dataset, a.workers, a.batch, a.prefetch, a.method).get
    log = a.log.open("w", buffering=1) if a.log else None
    step, steps = 0, Step(a.kind)
    while True:
        start = time.monotonic()
        get()
        ready = time.monotonic()
        steps.run(a.step)
        COMPUTED[0] += time.monotonic() - ready
        saved = time.monotonic()
        step += 1
        if a.save_every and step % a.save_every == 0:
            save(a.folder / "checkpoint.pt", a.save_bytes)
        end = time.monotonic()
        if log:
            log.write(json.dumps({"at": ready, "wait": ready - start, "all": end - start, "save": end - saved}) + "\n")


def start_up(seconds: float, folder: Path) -> None:
    """Compile one function after the other, as the first step of a model does. No compiled function is in a cache."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "compiled")
    import torch

    end, size = time.monotonic() + seconds, 8
    while time.monotonic() < end:
        size += 1
        torch._dynamo.reset()
        compiled = torch.compile(lambda x, n=size: (x * n).sin().softmax(-1).cumsum(-1) @ x.T, dynamic=False)
        compiled(torch.ones(size, size))


def _poll() -> None:
    while os.getppid() != 1:
        spin(0.1)


def rank(method: str) -> multiprocessing.process.BaseProcess:
    """Start and return another rank, which spins all the time, as in a collective."""
    process = multiprocessing.get_context(method).Process(target=_poll, daemon=True)
    process.start()
    return process


COMPUTED = [0.0]
"""The seconds spent in steps so far, as the only item."""


def report(target: Path, peers: Sequence[int] = ()) -> None:
    """Write the share of each half second that was spent in steps, as the utilisation and power of a GPU.

    target: the text file from which the C NVML library answers (tests/rigs/nvml). peers: the pids of further ranks,
    each on the next GPU, which shows full utilisation all the time and power only while this rank computes.
    """
    ours = tuple(f"gpu{i}.{key}" for i in range(1 + len(peers)) for key in ("util", "power_mw"))
    keep = [line for line in target.read_text().splitlines() if not line.startswith(ours)]
    before, at = 0.0, time.monotonic()
    while True:
        time.sleep(0.5)
        now, done = time.monotonic(), COMPUTED[0]
        share = min(1.0, (done - before) / (now - at))
        power = f"power_mw={round(70_000 + 600_000 * share)}"
        figures = [f"gpu0.util={round(100 * share)}", f"gpu0.{power}", f"gpu0.procs={os.getpid()}:8589934592"]
        for i, pid in enumerate(peers, 1):
            figures += [f"gpu{i}.util=100", f"gpu{i}.{power}", f"gpu{i}.procs={pid}:8589934592"]
        fresh = target.with_suffix(".new")
        fresh.write_text("\n".join([*keep, *figures]) + "\n")
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
