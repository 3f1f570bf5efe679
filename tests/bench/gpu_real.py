"""The comparison with nvidia-smi on a real NVIDIA GPU, and the cost of every call.

``python -m tests.bench.gpu_real [--seconds 20]`` prints as JSON what gpu_calls.py finds: which calls the driver
answers, what each call costs, and how steady the rates are, idle and under a steady copy.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from iotop_ai.collectors.gpu.collector import GpuCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.gpu.state import GpuRates, gpu_rates
from tests.bench.peers import machine as this_machine

REPO = Path(__file__).parents[2]
PAGE = REPO / "docs" / "nvml-costs.md"
MARK = "<!-- measured below by tests.bench.gpu_exactness -->"
STEADY = (
    "index,name,driver_version,memory.total,enforced.power.limit,clocks.max.sm,pcie.link.gen.max,"
    "pcie.link.width.current,pcie.link.width.max,ecc.errors.uncorrected.volatile.total,mig.mode.current"
)
MOVING = "utilization.gpu,memory.used,temperature.gpu,temperature.memory,power.draw,clocks.current.sm,pstate"
LOADS = ("idle", "matmul", "small", "starved", "copy")
SECONDS = 8


def real(*, write: bool) -> int:
    """Run the comparison; return 0 if the steady fields are byte-equal, 1 if they are not, 2 without a GPU."""
    if shutil.which("nvidia-smi") is None:
        print("unknown: nvidia-smi is not here: no NVIDIA GPU to compare on", file=sys.stderr)
        return 2
    parts = []
    smi, mine = both(STEADY)
    equal = smi == mine
    parts.append(f"Steady fields, byte by byte: {'equal' if equal else 'DIFFERENT'}\n\n```\n{smi}\n{mine}\n```")
    parts += [compare_under(load) for load in (LOADS if has_torch() else LOADS[:1])]
    text = "\n\n".join(parts) + "\n"
    print(text)
    if write:
        head = PAGE.read_text().partition(MARK)[0]
        PAGE.write_text(f"{head}{MARK}\n\nOn {this_machine()}.\n\n{text}")
        name = smi.splitlines()[1].split(", ")[1].lower().replace(" ", "-")
        out = REPO / "tests" / "data" / "gpu" / f"{name}.json"
        subprocess.run([sys.executable, "-m", "tests.capture_gpu", "--out", str(out)], cwd=REPO, check=True)
    return 0 if equal else 1


def both(query: str) -> tuple[str, str]:
    """Return nvidia-smi's answer and ours to a query, with their headers."""
    smi = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv"], capture_output=True, text=True)
    mine = subprocess.run(
        [sys.executable, "-m", "iotop_ai", "gpu-log", "-n", "1", "--query", query],
        capture_output=True,
        text=True,
        cwd=REPO,
    )
    return smi.stdout.strip(), mine.stdout.strip()


def has_torch() -> bool:
    """Whether this Python has torch with CUDA, which makes the loads."""
    probe = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", probe], capture_output=True).returncode == 0


def compare_under(load: str) -> str:
    """Return nvidia-smi's figures and ours in the same seconds of one load, and the costs of the calls."""
    child = None
    if load != "idle":
        code = (
            "import threading, tests.capture_gpu as c\n"
            f"c.load({load!r}, threading.Event(), threading.Event())"
        )  # fmt: skip
        child = subprocess.Popen([sys.executable, "-c", code], cwd=REPO)
        time.sleep(10.0)
    clock = Clock()
    collector = GpuCollector(clock, root=Root("/"))
    try:
        collector.wait(60.0)
        before, _ = collector.read(), time.sleep(SECONDS)
        smi = subprocess.run(
            ["nvidia-smi", f"--query-gpu={MOVING}", "--format=csv"], capture_output=True, text=True
        ).stdout.strip()
        after = collector.read()
        rates = gpu_rates(before, after, None)
        costs = collector.costs()
    finally:
        collector.close()
        if child is not None:
            child.kill()
            child.wait()
    lines = [f"## {load}, {SECONDS} s", "", "nvidia-smi:", "", "```", smi, "```", ""]
    lines += [f"iotop-ai, GPU {i}: {as_text(one)}" for i, one in enumerate(rates.values())]
    lines += ["", "| call | uses | median us | p95 us |", "|--|--:|--:|--:|"]
    lines += [
        f"| {name} | {cost.calls} | {cost.median_us:.0f} | {cost.p95_us:.0f} |" for name, cost in sorted(costs.items())
    ]
    return "\n".join(lines)


def as_text(rates: GpuRates) -> str:
    """Return every known figure as text."""
    return ", ".join(f"{name} {value:.4g}" for name, value in rates._asdict().items() if value is not None)


if __name__ == "__main__":
    from tests.bench.gpu_calls import main

    sys.exit(main())
