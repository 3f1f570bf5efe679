"""The verdict on a real GPU: ``python -m tests.scenarios.real_gpu [--seconds 40] [--device cpu]``.

It trains a small ResNet and a small transformer, each well fed, starved of decoded images, and launch-bound; with two
GPUs also on both, with a slow collective. It checks each verdict, and prints it beside the truth from CUDA events.
Without a GPU or without torch it prints the reason and ends with exit code 2. ``--device cpu`` tries the command on a
machine without a GPU; its figures prove nothing about a GPU.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.scenarios.play import REPO, running
from tests.scenarios.torch_python import torch_python, why_no_torch

TRAINER = Path(__file__).with_name("gpu_train.py")
SETTLE_S = 12.0
EXPECTED = {
    "healthy": ("gpu_bound", "healthy"),
    "starved": ("cpu_prep", "noisy_neighbour"),
    "launch-bound": ("host_bound",),
    "slow-collective": ("comm_wait",),
}
RANKS = 2
"""The ranks of the job with a slow collective, one per GPU."""


def why_not(device: str) -> str:
    """Return why this command cannot run here; "" when it can."""
    if device != "cpu" and shutil.which("nvidia-smi") is None:
        return "nvidia-smi is not here: no NVIDIA GPU to train on"
    return why_no_torch()


def gpu_count() -> int:
    """Return the number of this machine's NVIDIA GPUs."""
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


def truth(log: Path, start: float, end: float) -> dict[str, float]:
    """Return the number of steps between two moments, and the shares of their time.

    These are: without data, GPU busy, in the exchange, and the rest, which is neither without data nor GPU busy.
    """
    steps = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    inside = [step for step in steps if start <= step["at"] <= end]
    whole = sum(step["all"] for step in inside) or 1.0
    wait, busy, exchange = (sum(step[name] for step in inside) / whole for name in ("wait", "busy", "exchange"))
    shares = {"wait": wait, "busy": busy, "exchange": exchange, "rest": 1 - wait - busy}
    return {"steps": len(inside), **{name: round(share, 3) for name, share in shares.items()}}


def play(model: str, cause: str, seconds: int, device: str) -> dict[str, Any]:
    """Train, record and diagnose; return the truth and the verdict."""
    with tempfile.TemporaryDirectory(prefix="iotop-gpu-") as name:
        folder = Path(name)
        log, recording = folder / "steps.jsonl", folder / "run.iotop.jsonl"
        several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        start = [torch_python(), *(several if cause == "slow-collective" else [])]
        command = [*start, str(TRAINER), "--model", model, "--cause", cause, "--device", device]
        command += ["--seconds", str(seconds + 60), "--steps-log", str(log)]
        with running(command, cwd=folder) as trainer:
            assert trainer is not None
            time.sleep(SETTLE_S)
            start = time.monotonic()
            record = [sys.executable, "-m", "iotop_ai", "record", "-o", str(recording), "--duration", str(seconds)]
            subprocess.run([*record, "--no-smart"], cwd=REPO, check=True, capture_output=True)
            end = time.monotonic()
            if trainer.poll() is not None:
                raise RuntimeError(f"{model} {cause}: the trainer ended with {trainer.returncode}")
            true = truth(log, start, end)
        diagnose = [sys.executable, "-m", "iotop_ai", "diagnose", str(recording), "--json", "--job", str(trainer.pid)]
        found = json.loads(subprocess.run(diagnose, cwd=REPO, capture_output=True, text=True).stdout)
    keys = ("verdict", "confidence", "data_stall_ratio", "goodput_ratio")
    return {"model": model, "cause": cause, "truth": true, **{key: found.get(key) for key in keys}}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    a = parser.parse_args(argv)
    reason = why_not(a.device)
    if reason:
        print(f"unknown: {reason}", file=sys.stderr)
        return 2
    causes = dict(EXPECTED)
    if a.device != "cpu" and gpu_count() < RANKS:
        print(f"skip slow-collective: it needs {RANKS} GPUs", flush=True)
        del causes["slow-collective"]
    wrong = 0
    for model in ("resnet", "transformer"):
        for cause, expected in causes.items():
            row = play(model, cause, a.seconds, a.device)
            right = row["verdict"] in expected
            wrong += not right
            print("right" if right else "WRONG", json.dumps(row), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
