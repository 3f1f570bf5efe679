"""Jobs that stand still, simulate or save in the background.

    python unusual.py FOLDER --mode MODE [options of trainer.py]

deadlock: after --after seconds it starts new workers while one of its threads holds a lock that each sample needs, so
that every forked worker waits for a copy of the lock that is never released. lost-rank: after that time, the second of
two ranks (torch, gloo) waits for something else, and the first one waits in its all-reduce. simulate: environments run
in separate processes, each behind a pipe, as in reinforcement learning. save: a thread, or with --process a process,
writes a copy of the data every --save-every steps. prepare: a pool works through a data set. After --after seconds a
worker crashes. The pool silently replaces it, but its piece of work is lost and the job waits for ever.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.scenarios.place import die_with_us
from tests.scenarios.steps import Step
from tests.scenarios.trainer import COMPUTED, Dataset, Loader, options, report, save, spin, start_tracker

MODES = ("deadlock", "lost-rank", "simulate", "save", "prepare")


class Steps:
    """The log of steps, from which the truth follows."""

    def __init__(self, path: Path | None) -> None:
        self._log: TextIO | None = path.open("w", buffering=1) if path else None

    def add(self, start: float, ready: float, saved: float = 0.0) -> None:
        """Add a step to the log.

        start, ready: the times at which the trainer began to wait for data, and had it. saved: the seconds of its save.
        """
        if self._log:
            row = {"at": ready, "wait": ready - start, "all": time.monotonic() - start, "save": saved}
            self._log.write(json.dumps(row) + "\n")


class Locked(Dataset):
    """Samples that need a lock of the trainer, such as the lock of a logger or an allocator."""

    def __init__(self, a: argparse.Namespace) -> None:
        super().__init__(a)
        self.lock = threading.Lock()

    def load(self, number: int) -> int:
        with self.lock:
            return super().load(number)


def train(a: argparse.Namespace, loader: Loader, steps: Step, log: Steps, seconds: float) -> None:
    """Train for this many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        loader.get()
        ready = time.monotonic()
        steps.run(a.step)
        log.add(start, ready)


def deadlock(a: argparse.Namespace, log: Steps, after: float) -> None:
    dataset, steps = Locked(a), Step(a.kind)
    loader = Loader(dataset, a.workers, a.batch, a.prefetch, a.method)
    train(a, loader, steps, log, after)
    for process in loader.processes:
        process.terminate()
        process.join()
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with dataset.lock:
            held.set()
            let_go.wait()

    threading.Thread(target=hold, daemon=True).start()
    held.wait()
    loader = Loader(dataset, a.workers, a.batch, a.prefetch, "fork")
    let_go.set()
    train(a, loader, steps, log, float("inf"))


def rank(number: int, a: argparse.Namespace, after: float) -> None:
    """Run one of two ranks. The second stops for ever, like a rank that waits for a lock."""
    import torch
    from torch import distributed

    die_with_us()
    store = f"file://{a.folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=number, world_size=2)
    torch.set_num_threads(1)
    dataset, steps, log = Dataset(a), Step(a.kind), Steps(a.log if number == 0 else None)
    batches = torch.utils.data.DataLoader(dataset, batch_size=a.batch, num_workers=a.workers)
    begun = None
    start = time.monotonic()
    for _ in batches:
        ready = time.monotonic()
        begun = begun or ready
        if number and ready - begun > after:
            threading.Event().wait()
        steps.run(a.step)
        distributed.all_reduce(torch.ones(1 << 16))
        log.add(start, ready)
        start = time.monotonic()


def lost_rank(a: argparse.Namespace, after: float) -> None:
    import torch.multiprocessing

    torch.multiprocessing.spawn(rank, (a, after), nprocs=2)


def simulator(remote: Connection, others: list[Connection], seconds: float) -> None:
    """Run an environment. seconds: the CPU time that each action takes."""
    for one in others:
        one.close()
    while True:
        try:
            remote.recv()
        except EOFError:
            return
        spin(seconds)
        remote.send((bytes(4096), 0.5, False, {}))


def simulate(a: argparse.Namespace, log: Steps) -> None:
    """Train in rounds: each steps every environment --batch times, and then trains for a step."""
    context = multiprocessing.get_context(a.method)
    pipes = [context.Pipe() for _ in range(a.workers)]
    for i, (_, remote) in enumerate(pipes):
        others = [mine for mine, _ in pipes] if a.method == "fork" else []
        context.Process(target=simulator, args=(remote, others, a.cpu_ms / 1000), daemon=True, name=f"env{i}").start()
    steps = Step(a.kind)
    while True:
        start = time.monotonic()
        for _ in range(a.batch):
            for mine, _ in pipes:
                mine.send(("step", 1))
            for mine, _ in pipes:
                mine.recv()
        ready = time.monotonic()
        steps.run(a.step)
        log.add(start, ready)


def pack_and_save(path: Path, size: int, pack_s: float) -> None:
    """Save a checkpoint. pack_s: the seconds for which a Python loop runs before each mebibyte is written.

    The loop holds the interpreter's lock, as a pickler does.
    """
    for _ in range(size >> 20 if pack_s else 0):
        spin(pack_s)
        save(path.with_suffix(".part"), 1 << 20)
    save(path, 0 if pack_s else size)


def save_in_background(a: argparse.Namespace, log: Steps, process: bool, pack_s: float) -> None:
    if a.gpu:
        threading.Thread(target=report, args=(a.gpu,), daemon=True).start()
    loader, steps, step = Loader(Dataset(a), a.workers, a.batch, a.prefetch, a.method), Step(a.kind), 0
    saver: threading.Thread | multiprocessing.Process | None = None
    while True:
        start = time.monotonic()
        loader.get()
        ready = time.monotonic()
        steps.run(a.step)
        COMPUTED[0] += a.step
        step += 1
        if a.save_every and step % a.save_every == 0 and (saver is None or not saver.is_alive()):
            make = multiprocessing.Process if process else threading.Thread
            saver = make(target=pack_and_save, args=(a.folder / "checkpoint.pt", a.save_bytes, pack_s), daemon=True)
            saver.start()
        log.add(start, ready)


def part(seconds: float, crash_from_s: float, mark: Path) -> int:
    """Do a piece of work. The first piece that ends after the time ``crash_from_s`` crashes its worker."""
    spin(seconds)
    if time.monotonic() > crash_from_s:
        with contextlib.suppress(FileExistsError), mark.open("x"):
            os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def prepare(a: argparse.Namespace, after: float) -> None:
    piece = functools.partial(part, crash_from_s=time.monotonic() + after, mark=a.folder / "crashed")
    with multiprocessing.get_context(a.method).Pool(a.workers) as pool:
        for _ in pool.imap(piece, itertools.repeat(a.cpu_ms / 1000)):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--after", type=float, default=8.0)
    parser.add_argument("--process", action="store_true")
    parser.add_argument("--pack-ms", type=float, default=0.0, help="CPU time for packing each mebibyte")
    own, rest = parser.parse_known_args()
    a = options([str(own.folder), *rest])
    start_tracker(a)
    if own.mode == "deadlock":
        deadlock(a, Steps(a.log), own.after)
    elif own.mode == "lost-rank":
        lost_rank(a, own.after)
    elif own.mode == "simulate":
        simulate(a, Steps(a.log))
    elif own.mode == "prepare":
        prepare(a, own.after)
    elif own.mode == "save":
        save_in_background(a, Steps(a.log), own.process, own.pack_ms / 1000)


if __name__ == "__main__":
    main()
