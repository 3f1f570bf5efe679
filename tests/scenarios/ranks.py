"""Ranks that train together, each with a GPU: ``python ranks.py FOLDER --ranks 4 --gpu CONF --log FILE ...``.

Each rank has loader workers (those of trainer.py). It takes a batch, computes for a while, and then waits for all other
ranks, as in an all-reduce. Its GPU on the C NVML library follows the rank: it is busy while the rank computes or spins
in the collective, and needs much power only while the rank computes. --trouble gives a GPU a fault that slows its rank:
a throttled GPU computes longer, a GPU behind a narrow link gets its batch later, and a broken GPU stops.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.scenarios.peer import Exchange
from tests.scenarios.place import die_with_us
from tests.scenarios.trainer import Dataset, Loader, options, spin

IDLE_W, COMPUTE_W, SPIN_W = 70.0, 600.0, 28.0
LOADING, COMPUTING, SPINNING, COPYING = range(4)
GPU_MEMORY_BYTES = 85_520_809_984
TICK_S = 0.5
BOOST_MHZ = 1980
LINK_BYTES_PER_S = 50e9
IDLE = {"util": 0, "power_mw": 70_000, "clock1": 345, "temp0": 34, "throttle": 1, "mem_used": 4 << 20, "pstate": 8}
BREAKS_S = 10.0
"""The seconds after which a GPU breaks. It breaks late, because the driver drops events before a program listens."""
SPAWN = multiprocessing.get_context("spawn")
"""The method with which torch.multiprocessing.spawn starts its ranks."""


class Trouble(NamedTuple):
    """A fault, and the number of GPUs that have it. amount: the size of the fault, in the unit of its kind."""

    kind: str
    amount: float
    gpus: int


class Board:
    """The state that the ranks share with each other and the reporter: seconds per phase, and the current phase."""

    def __init__(self, ranks: int) -> None:
        self.spent = [SPAWN.Array("d", 4, lock=False) for _ in range(ranks)]
        self.phase = [SPAWN.Array("d", (LOADING, time.monotonic()), lock=False) for _ in range(ranks)]
        self.waits = SPAWN.Array("d", 2 * ranks, lock=False)
        """The seconds that each rank waited for its batch: of all ranks in even steps, then in odd steps. A rank may be
        one step ahead of the rank that reads them.
        """
        self.pids = SPAWN.Array("l", ranks, lock=False)
        self.met = SPAWN.Barrier(ranks)

    def enter(self, rank: int, phase: int) -> None:
        now, (old, since) = time.monotonic(), self.phase[rank]
        self.spent[rank][int(old)] += now - since
        self.phase[rank][0], self.phase[rank][1] = phase, now

    def seconds(self, rank: int, now: float) -> list[float]:
        out = list(self.spent[rank])
        phase, since = self.phase[rank]
        out[int(phase)] += max(0.0, now - since)
        return out


def train(a: argparse.Namespace, board: Board, rank: int, trouble: Trouble) -> None:
    """Run one rank forever."""
    if a.ranks > 1:
        # The rank ends with the process that started it, however that process ends.
        die_with_us()
    board.pids[rank] = os.getpid()
    affected = rank < trouble.gpus
    slow_data = trouble.kind == "late-data" and affected
    data_options = argparse.Namespace(**{**vars(a), "cpu_ms": trouble.amount}) if slow_data else a
    loader = Loader(Dataset(data_options), a.workers, a.batch, a.prefetch, a.method)
    factor = trouble.amount if trouble.kind in ("late-step", "throttle") and affected else 1.0
    log = a.log.open("w", buffering=1) if a.log and rank == 0 else None
    exchange = Exchange((a.folder / "peer").read_text()) if trouble.kind == "gradients" and affected else None
    began = time.monotonic()
    for number in itertools.count():
        waits_from = number % 2 * a.ranks
        start = time.monotonic()
        board.enter(rank, LOADING)
        loader.get()
        ready = time.monotonic()
        board.waits[waits_from + rank] = ready - start
        if trouble.kind == "link" and affected:
            board.enter(rank, COPYING)
            time.sleep(trouble.amount)
        if trouble.kind in ("xid", "lost") and affected and ready - began >= BREAKS_S:
            # The program hangs in a call that never returns.
            board.enter(rank, LOADING)
            threading.Event().wait()
        board.enter(rank, COMPUTING)
        if a.on_cpu or a.kind == "spin":
            spin(a.step)
        else:
            time.sleep(a.step * factor)
        if exchange is not None:
            # The rank sends its gradients through a real link. The GPU spins in the collective meanwhile.
            board.enter(rank, SPINNING)
            exchange.run(round(trouble.amount * 1e6))
        elif trouble.kind == "slow-network":
            board.enter(rank, SPINNING)
            time.sleep(trouble.amount)
        elif trouble.kind == "hang" and ready - began >= 1.0:
            # All ranks wait for a rank on another machine.
            board.enter(rank, SPINNING)
            threading.Event().wait()
        if a.ranks > 1:
            board.enter(rank, SPINNING)
            board.met.wait()
        end = time.monotonic()
        if log:
            wait = max(board.waits[waits_from : waits_from + a.ranks])  # the others wait for the slowest rank
            log.write(json.dumps({"at": ready, "wait": wait, "all": end - start, "save": 0.0}) + "\n")


def report(target: Path, board: Board, a: argparse.Namespace, trouble: Trouble, stranger: int) -> None:
    """Write the figures of each GPU twice a second, forever."""
    ranks, began = a.ranks, time.monotonic()
    base = target.read_text().splitlines()
    before, at = [board.seconds(rank, began) for rank in range(ranks)], began
    counters = [dict.fromkeys(("held", "bytes", "replays"), 0.0) for _ in range(ranks)]
    while True:
        time.sleep(TICK_S)
        now = time.monotonic()
        lines = {}
        if trouble.kind == "xid" and now - began >= BREAKS_S:
            lines |= {"xid_seq": 1, "xid_gpu": 0, "xid": int(trouble.amount)}
        if a.on_cpu:
            lines |= {f"gpu0.{key}": value for key, value in IDLE.items()}
        for rank in range(ranks if not a.on_cpu else 0):
            after = board.seconds(rank, now)
            shares = [max(0.0, y - x) / (now - at) for x, y in zip(before[rank], after, strict=True)]
            own = gpu_figures(
                shares, rank, a, trouble if rank < trouble.gpus else Trouble("", 0.0, 0), counters[rank], now - at
            )
            own["procs"] = f"{board.pids[rank]}:8589934592"
            if stranger and rank == 0:
                own["procs"] += f",{stranger}:31138512896"
            if trouble.kind == "lost" and rank < trouble.gpus and now - began >= BREAKS_S:
                own["err"] = 15
            lines |= {f"gpu{rank}.{key}": value for key, value in own.items()}
            before[rank] = after
        at = now
        kept = [line for line in base if line.partition("=")[0] not in lines]
        fresh = target.with_suffix(".new")
        fresh.write_text("\n".join([*kept, *(f"{key}={value}" for key, value in lines.items())]) + "\n")
        os.replace(fresh, target)


def gpu_figures(
    shares: list[float], rank: int, a: argparse.Namespace, trouble: Trouble, counters: dict[str, float], seconds: float
) -> dict[str, Any]:
    """Return the figures of one GPU after an interval. shares: the shares of the interval in each phase."""
    computing, spinning, copying = min(1.0, shares[COMPUTING]), min(1.0, shares[SPINNING]), min(1.0, shares[COPYING])
    clock, heat, mask, watts = 1755, 64, 0x4 if computing > 0.8 else 0x0, COMPUTE_W
    if trouble.kind == "throttle":
        held = 1 - 1 / trouble.amount
        counters["held"] += held * computing * seconds * 1e9
        clock, heat, mask = round(BOOST_MHZ / trouble.amount), 91, 0x40 if a.reason != 271 else 0x80
        watts *= 1 / trouble.amount
    busy = min(1.0, computing + spinning)
    out: dict[str, Any] = {
        "util": round(100 * busy),
        "power_mw": round(1000 * (IDLE_W + watts * computing + SPIN_W * spinning)),
        "clock1": clock,
        "temp0": heat,
        "throttle": mask,
        "mem_used": 61_203_283_968,
    }
    if a.reason:
        out |= {f"fi.{field}": 0 for field in (269, 270, 271)} | {f"fi.{a.reason}": round(counters["held"])}
    if trouble.kind == "link":
        # The copies have the rate of a link with 4 lanes.
        counters["bytes"] += copying * seconds * LINK_BYTES_PER_S / 4
        out |= {"pcie_width": 4}
    else:
        counters["bytes"] += computing * seconds * 0.4e9
    if trouble.kind == "replays":
        counters["replays"] += trouble.amount * seconds
    if trouble.kind == "memory":
        counters["held"] += trouble.amount * seconds
        out["mem_used"] = min(GPU_MEMORY_BYTES - (1 << 30), round(0.955 * GPU_MEMORY_BYTES + counters["held"]))
    if trouble.kind == "shared":
        out["mem_used"] = round(0.97 * GPU_MEMORY_BYTES)
    return out | {"fi.197": 0, "fi.198": round(counters["bytes"]), "pcie_replay": round(counters["replays"])}


def bystander() -> int:
    """Start another program that holds memory of a GPU, in our process group but not as our child; return its pid."""
    read, write = os.pipe()
    if not os.fork():
        pid = os.fork()
        if not pid:
            os.execvp("sleep", ["sleep", "300"])
        os.write(write, str(pid).encode())
        os._exit(0)
    os.wait()
    return int(os.read(read, 20))


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--on-cpu", action="store_true", help="compute on the CPU and leave the GPUs alone")
    parser.add_argument(
        "--reason", type=int, default=270, help="the counter of the slowdown; 0: only the mask shows it"
    )
    parser.add_argument("--trouble", default="")
    parser.add_argument("--amount", type=float, default=0.0)
    parser.add_argument("--with", dest="with_", type=int, default=1, help="how many GPUs have the trouble")
    more, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    a = argparse.Namespace(**{**vars(options()), **vars(more)})
    trouble, board = Trouble(a.trouble, a.amount, a.with_ if a.trouble else 0), Board(a.ranks)
    stranger = bystander() if trouble.kind == "shared" else 0
    if a.ranks == 1:
        # This thread stands for those of a GPU library, and writes the figures of the GPUs.
        threading.Thread(target=report, args=(a.gpu, board, a, trouble, stranger), daemon=True).start()
        train(a, board, 0, trouble)
    for rank in range(a.ranks):
        # Not daemons, because daemons cannot have children. The whole process group is killed at the end.
        SPAWN.Process(target=train, args=(a, board, rank, trouble)).start()
    report(a.gpu, board, a, trouble, stranger)
    return 0


if __name__ == "__main__":
    sys.exit(main())
