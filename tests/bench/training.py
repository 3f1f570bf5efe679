"""The cost of Monitor and watch for a training run: ``STACKS/torch/bin/python -m tests.bench.training [--minutes 7]``.

One DataLoader loop runs all the time with the same workers, dataset and model. Its blocks of 2 s form pairs: one block
is plain, and the other has a Monitor and watch, in random order. During a plain block the recorder is stopped
(SIGSTOP), so that no block includes the start of the recorder. A step is a forward pass, a backward pass and an update
on one thread. It always needs its core, so that everything that is taken from it is seen, whereas a trainer that waits
for a GPU has time to spare.

The output is: the steps per second that are lost, as the median of the pairs with its 95 % interval (block bootstrap),
the extra CPU time of the trainer per step, the CPU time of the recorder, the cost of watch per item, and whether at
most 1 % is lost. Exit code 0: met. 1: not met. 2: cannot tell. ``--null`` never lets the recorder run, so that any loss
that it finds is the error of the bench.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import tempfile
import time
import timeit
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.paired import CANNOT_TELL, MET, NOT_MET, Estimate, estimate, loss, orders

LIMIT = 0.01
BLOCK_S, SETTLE_S, WARM_S = 2.0, 0.5, 6.0
SIZE, LAYERS, BATCH, ITEMS = 256, 8, 64, 100_000
EXIT = {MET: 0, NOT_MET: 1, CANNOT_TELL: 2}


class Block(NamedTuple):
    """The figures of one block. cpu_s: the trainer's CPU time per step. recorder: the cores that the recorder uses."""

    steps_per_s: float
    cpu_s: float
    recorder: float


class Training:
    """An endless loop over a DataLoader that runs one block at a time."""

    def __init__(self) -> None:
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Rows(Dataset):  # type: ignore[type-arg]
            def __init__(self) -> None:
                self.rows = torch.randn(2000, SIZE)

            def __len__(self) -> int:
                return ITEMS

            def __getitem__(self, index: int) -> Any:
                return self.rows[index % 2000]

        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(*(torch.nn.Linear(SIZE, SIZE) for _ in range(LAYERS)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.loader = DataLoader(Rows(), batch_size=BATCH, num_workers=1, persistent_workers=True, prefetch_factor=8)
        self.batches = self._endless()

    def _endless(self) -> Iterator[Any]:
        while True:
            yield from self.loader

    def run(self, batches: Iterable[Any], step: Any, seconds: float, pids: list[int]) -> Block:
        """Do steps over the batches for this many seconds; return the figures."""
        steps, begin = 0, time.perf_counter()
        used, recorded = time.process_time(), cpu_s(pids)
        for batch in batches:
            self.optimizer.zero_grad()
            self.model(batch).square().mean().backward()
            self.optimizer.step()
            step()
            steps += 1
            now = time.perf_counter()
            if now - begin >= seconds:
                break
        spent, took = time.process_time() - used, time.perf_counter() - begin
        return Block(steps / took, spent / steps, (cpu_s(pids) - recorded) / took)


def watch_ns() -> float:
    """Return the cost of watch per item in nanoseconds, the least of several measurements."""
    import iotop_ai

    items = range(200_000)

    def plain() -> None:
        for _ in items:
            pass

    def watched() -> None:
        for _ in iotop_ai.watch(items):  # type: ignore[attr-defined]
            pass

    plain_s, watched_s = (min(timeit.repeat(loop, number=1, repeat=7)) for loop in (plain, watched))
    return (watched_s - plain_s) / len(items) * 1e9


def message_us(folder: str) -> float:
    """Return the CPU time of the training process for a message to a listening monitor in µs, the mean of many."""
    import socket

    from iotop_ai.train.steps import StepCounter

    path, counter, count = os.path.join(folder, "m.sock"), StepCounter(), 2000
    before = os.environ.get("IOTOP_AI_SOCKET")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        os.environ["IOTOP_AI_SOCKET"] = path
        spent = 0.0
        for _ in range(count):
            counter.batches += 1
            begin = time.thread_time()
            counter.send()
            spent += time.thread_time() - begin
            listener.recv(4096)
    if before is None:
        del os.environ["IOTOP_AI_SOCKET"]
    else:
        os.environ["IOTOP_AI_SOCKET"] = before
    return spent / count * 1e6


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU seconds so far of these processes, with their ended threads; 0 for an ended process."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime(~pid << 3 | 2)  # a process's CPU clock, see clock_getcpuclockid(3)
    return total


def with_children(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    pids = [pid]
    for parent in pids:  # the list grows during the loop
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                pids.extend(int(child) for child in children.read_bytes().split())
    return pids


def set_running(pids: list[int], running: bool) -> None:
    """Let the processes of the recorder run, or stop them. running: whether they run."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT if running else signal.SIGSTOP)


class Pair(NamedTuple):
    """Two neighbouring blocks."""

    plain: Block
    monitored: Block


def pairs(training: Training, path: str, a: argparse.Namespace) -> Iterator[Pair]:
    """Run pairs of blocks until the time is over, and yield each pair."""
    import iotop_ai

    ends = time.monotonic() + a.minutes * 60 - WARM_S
    with iotop_ai.Monitor(path, interval=a.interval) as m:  # type: ignore[attr-defined]
        if m.error:
            raise SystemExit(f"training: {m.error}")
        m.verdict(wait=30)
        recorder = with_children(m._recorder.pid)
        training.run(m.watch(training.batches), m.step, WARM_S, recorder)
        try:
            for order in orders(10_000, a.seed):
                if time.monotonic() + 2 * (BLOCK_S + SETTLE_S) > ends:
                    return
                found = {}
                for monitored in order:
                    set_running(recorder, monitored and not a.null)
                    source = m.watch(training.batches) if monitored else training.batches
                    step = m.step if monitored else int
                    training.run(source, step, SETTLE_S, recorder)
                    found[monitored] = training.run(source, step, BLOCK_S, recorder)
                yield Pair(found[False], found[True])
        finally:
            set_running(recorder, True)


def row(what: str, one: Estimate) -> str:
    """Return a line of the results."""
    return f"{what:<42} {one.middle * 100:+.2f} % (95 %: {one.low * 100:+.2f} to {one.high * 100:+.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--interval", type=float, default=1.0, help="of the Monitor, in seconds")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--null", action="store_true", help="the recorder stays stopped: the bench's own error")
    a = parser.parse_args()
    training, found = Training(), list[Pair]()
    with tempfile.TemporaryDirectory() as folder:
        for pair in pairs(training, os.path.join(folder, "run.iotop.jsonl"), a):
            found.append(pair)
            if len(found) % 10 == 0:
                print(f"{len(found)} pairs, load {os.getloadavg()[0]:.1f}", flush=True)
        message = message_us(folder)
    speed = estimate([loss(one.plain.steps_per_s, one.monitored.steps_per_s) for one in found])
    cpu = estimate([one.monitored.cpu_s / one.plain.cpu_s - 1 for one in found])
    recorder = estimate([one.monitored.recorder for one in found])
    if speed is None or cpu is None or recorder is None:
        print(f"{len(found)} pairs: too few; use a larger --minutes")
        return EXIT[CANNOT_TELL]
    per_s = statistics.median(one.plain.steps_per_s for one in found)
    print(f"{len(found)} pairs of blocks of {BLOCK_S:g} s, {per_s:.0f} steps a second, {os.cpu_count()} cores")
    print(row("steps per second lost", speed))
    print(row("extra CPU time of the trainer per step", cpu))
    print(row("recorder, of a core", recorder))
    print(f"{'watch, an item':<42} {watch_ns():.0f} ns")
    print(f"{'a message to a monitor, at most 2 a second':<42} {message:.0f} us of CPU")
    print(f"load {' '.join(f'{one:.1f}' for one in os.getloadavg())}")
    answer = speed.within(LIMIT)
    print(f"at most {LIMIT:.0%} of steps per second: {answer}")
    return EXIT[answer]


if __name__ == "__main__":
    raise SystemExit(main())
