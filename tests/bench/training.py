"""What Monitor and watch cost a training: ``STACKS/torch/bin/python -m tests.bench.training [--rounds N]``.

A DataLoader loop runs in turns without anything, with watch alone, and with a Monitor and watch; each turn of a round
follows the others at once, so that what else the machine does meets all alike. Printed: steps per second, and the
trainer's own CPU time of a step, as shares of the plain turn of the same round, median and 95 % interval (bootstrap
over the rounds), and the cost of watch an item.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
import timeit
from typing import Any

TURN_S, STEP_SIZE = 3.0, 192


def speed_of(loader: Any, model: Any, step: Any) -> tuple[float, float]:
    """(steps a second, CPU seconds of this process a step) of a loop over the loader for TURN_S.

    Its first steps, which start the workers, do not count.
    """
    done, begin, used = -20, 0.0, 0.0
    for batch in loader:
        model(batch).sum().backward()
        step()
        done += 1
        if not done:
            begin, used = time.perf_counter(), time.process_time()
        elif done > 0 and time.perf_counter() - begin >= TURN_S:
            break
    return done / (time.perf_counter() - begin), (time.process_time() - used) / done


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median and its 95 % interval."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(4000))
    return statistics.median(values), medians[100], medians[3899]


def watch_ns() -> float:
    """The cost of watch for an item, the best of several."""
    import iotop_ai

    items = range(200_000)

    def plain() -> None:
        for _ in items:
            pass

    def watched() -> None:
        for _ in iotop_ai.watch(items):  # type: ignore[attr-defined]
            pass

    best = [min(timeit.repeat(loop, number=1, repeat=7)) for loop in (plain, watched)]
    return (best[1] - best[0]) / len(items) * 1e9


def message_us(folder: str) -> float:
    """CPU time of a message to a listening monitor: of the training process, the mean of many."""
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
            counter.tell()
            spent += time.thread_time() - begin
            listener.recv(4096)
    if before is None:
        del os.environ["IOTOP_AI_SOCKET"]
    return spent / count * 1e6


def cpu_s(pid: int) -> float:
    """CPU time of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--interval", type=float, default=1.0, help="of the Monitor, in seconds")
    a = parser.parse_args()
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    import iotop_ai

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(STEP_SIZE, STEP_SIZE) for _ in range(6)))
    data = TensorDataset(torch.randn(400_000, STEP_SIZE))

    def stacked(items: Any) -> Any:
        return torch.stack([x for (x,) in items])

    def loader() -> Any:
        return DataLoader(data, batch_size=64, num_workers=1, collate_fn=stacked)

    ratios: dict[str, list[float]] = {"watch": [], "Monitor and watch": []}
    cpu: dict[str, list[float]] = {name: [] for name in ratios}
    recorder: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(a.rounds):
            speed = {}
            for name in random.Random(number).sample(["plain", *ratios], 3):
                if name == "plain":
                    speed[name] = speed_of(loader(), model, int)
                elif name == "watch":
                    speed[name] = speed_of(iotop_ai.watch(loader()), model, iotop_ai.step)  # type: ignore[attr-defined]
                else:
                    path = os.path.join(folder, f"{number}.iotop.jsonl")
                    with iotop_ai.Monitor(path, interval=a.interval) as m:  # type: ignore[attr-defined]
                        m.verdict(wait=30)
                        begin, used = time.perf_counter(), cpu_s(m._recorder.pid)
                        speed[name] = speed_of(m.watch(loader()), model, m.step)
                        recorder.append((cpu_s(m._recorder.pid) - used) / (time.perf_counter() - begin))
            for name, values in ratios.items():
                values.append(speed[name][0] / speed["plain"][0])
                cpu[name].append(speed[name][1] / speed["plain"][1])
            print(" ".join(f"{name} {value:.1f}/s" for name, (value, _) in sorted(speed.items())), flush=True)
    for what, table in (("steps per second", ratios), ("CPU time of the trainer a step", cpu)):
        for name, values in table.items():
            middle, low, high = (100 * (one - 1) for one in interval(values))
            print(f"{name}: {middle:+.2f} % {what} ({low:+.2f} to {high:+.2f})")
    with tempfile.TemporaryDirectory() as folder:
        print(f"a message: {message_us(folder):.0f} us of CPU, at most 2 a second")
    middle, low, high = interval(recorder)
    print(f"recorder: {middle * 100:.1f} % of a core ({low * 100:.1f} to {high * 100:.1f})")
    print(f"watch: {watch_ns():.0f} ns an item; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
