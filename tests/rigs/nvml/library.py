"""Builds the library and writes the text file that says what it answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_nvml.c")

Gpu = Mapping[str, object]
"""Keys of one GPU without their "gpu0." in front, as fake_nvml.c lists them."""

SERVER: dict[str, object] = {
    "name": "NVIDIA H100 80GB HBM3",
    "util": 97,
    "memutil": 41,
    "mem_total": 85520809984,
    "mem_used": 61203283968,
    "mem_reserved": 549453824,
    "temp0": 64,
    "power_mw": 612345,
    "power_limit_mw": 700000,
    "energy_mj": 123456789012,
    "clock1": 1755,
    "clock2": 2619,
    "max_clock1": 1980,
    "pcie_gen": 5,
    "pcie_gen_max": 5,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "throttle": 4,
    "pstate": 0,
    "mig": 0,
    "procs": "2001:60129542144",
}
"""A data-centre card under load: it answers everything but its fan."""

CONSUMER: dict[str, object] = {
    "name": "NVIDIA GeForce GTX 1050",
    "util": 0,
    "memutil": 0,
    "mem_total": 2147483648,
    "mem_used": 12582912,
    "temp0": 31,
    "fan": 30,
    "clock1": 139,
    "pcie_gen": 1,
    "pcie_width": 8,
    "pstate": 8,
    "gprocs": "1412:-1",
}
"""A card of which half the questions are NOT_SUPPORTED: power, limit, energy, maxima, reasons, MIG."""


def why_no_library() -> str:
    """Why it cannot be built here; "" when it can."""
    return "" if shutil.which("cc") else "needs cc (gcc)"


def build(folder: Path, *, old_driver: bool = False) -> Path:
    """Compile libnvidia-ml.so.1 into the folder; returns its path."""
    target = folder / "libnvidia-ml.so.1"
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
    command += ["-DOLD_DRIVER"] if old_driver else []
    subprocess.run([*command, f"-Wl,-soname,{target.name}", "-o", target, SOURCE], check=True)
    return target


def uuid(number: int) -> str:
    """The UUID of the machine's GPU of that number."""
    return f"GPU-{number:08x}-2222-3333-4444-555555555555"


def machine(path: Path, gpus: Sequence[Gpu], **keys: object) -> None:
    """Write what the library answers: these GPUs, and keys of the whole machine (init_ret, delay_us)."""
    lines = [f"count={len(gpus)}", "driver=570.124.06", "nvml=12.570.124.06", "cuda=12080"]
    lines += [f"{key}={value}" for key, value in keys.items()]
    for number, gpu in enumerate(gpus):
        own = {"uuid": uuid(number), "busid": f"00000000:{number + 0x18:02X}:00.0", **gpu}
        lines += [f"gpu{number}.{key}={value}" for key, value in own.items()]
    beside = path.with_suffix(".new")
    beside.write_text("\n".join(lines) + "\n")
    os.replace(beside, path)
