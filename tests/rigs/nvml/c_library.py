"""Builds the NVML library, and writes the text file with its answers."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_nvml.c")
NAME = "libnvidia-ml.so.1"

Gpu = Mapping[str, object]
"""The keys of one GPU as fake_nvml.c lists them, but without the prefix "gpu0."."""

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
"""A data-centre card without a fan, under load. It answers only the questions that every data-centre card answers."""

HOPPER: dict[str, object] = SERVER | {
    "gpm": 1,
    "gpm.2": 31.25,
    "gpm.3": 18.5,
    "gpm.5": 12.0,
    "gpm.10": 40.0,
    "gpm.20": 500.0,
    "gpm.21": 1500.0,
    "gpm.60": 64.0,
    "gpm.61": 32.0,
    "margin": 23,
    "temp_thr0": 95,
    "temp_thr1": 90,
    "power_default_mw": 700000,
    "power_min_mw": 200000,
    "power_max_mw": 700000,
    "pcie_gen_gpu": 5,
    "pcie_replay": 3,
    "ecc_mode": 1,
    "ecc00": 3,
    "ecc10": 0,
    "ecc01": 12,
    "ecc11": 1,
    "rows": "2,1,1,0",
    "persistence": 1,
    "compute_mode": 0,
    "capability": "9.0",
    "vbios": "96.00.74.00.01",
    "nvlink0": 1,
    "nvlink1": 1,
    "nvlink2": 0,
    "fabric": "3,0",
    "events": 8,
    "fi.82": 72,
    "fi.74": 1_000_000_000,
    "fi.76": 0,
    "fi.269": 0,
    "fi.270": 0,
    "fi.271": 0,
    "fi.197": 5_000_000_000,
    "fi.198": 9_000_000_000,
    "fi.138": 4096,
    "fi.139": 8192,
    "fi.230": 0,
    "fi.38": 5,
    "fi.45": 2,
    "fi.52": 3,
    "fi.59": 0,
    "sram": "0,1,7,0",
    "dec": 34,
    "enc": 0,
    "jpg": 61,
    "ofa": 0,
    "samples": "1000:97,2000:95",
    "procs": "2001:60129542144:88:30",
}
"""The card SERVER, with everything that its generation reports."""

MIG: dict[str, object] = {
    key: value for key, value in HOPPER.items() if key not in ("util", "memutil", "samples", "procs")
} | {
    "mig": 1,
    "mig_slots": 7,
    "mig0.gi": 1,
    "mig0.uuid": "MIG-aaaaaaaa-2222-3333-4444-555555555555",
    "mig0.name": "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
    "mig0.mem_total": 42_000_000_000,
    "mig0.mem_used": 30_000_000_000,
    "mig0.gpm.2": 71.5,
    "mig0.gpm.3": 40.0,
    "mig0.gpm.5": 22.0,
    "mig0.gpm.10": 35.0,
    "mig2.gi": 2,
    "mig2.uuid": "MIG-bbbbbbbb-2222-3333-4444-555555555555",
    "mig2.name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "mig2.mem_total": 10_000_000_000,
    "mig2.mem_used": 0,
    "procs": "2001:29000000000:0:0:0:0:1",
}
"""A card with MIG switched on: no utilisation of the whole card, and two instances in the slots 0 and 2."""

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
"""A card for which half the questions are NOT_SUPPORTED: power, limit, energy, maxima, reasons and MIG."""


def why_no_library() -> str:
    """The reason why the library cannot be built here; "" if it can."""
    return "" if shutil.which("cc") else "needs cc (gcc)"


def build(folder: Path, *, old_driver: bool = False) -> Path:
    """Put libnvidia-ml.so.1 into the folder, and return its path."""
    target = folder / NAME
    target.unlink(missing_ok=True)  # a process may still have the earlier file loaded
    target.write_bytes(_library(old_driver))
    return target


@functools.cache
def _library(old_driver: bool) -> bytes:
    """The compiled library; it is compiled once in a process."""
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
    command += ["-DOLD_DRIVER"] if old_driver else []
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, NAME)
        subprocess.run([*command, f"-Wl,-soname,{NAME}", "-o", target, SOURCE], check=True)
        return target.read_bytes()


def uuid(number: int) -> str:
    """The UUID of the GPU with this number."""
    return f"GPU-{number:08x}-2222-3333-4444-555555555555"


def machine(path: Path, gpus: Sequence[Gpu], **keys: object) -> None:
    """Write the answers of the library: these GPUs, and keys of the whole machine (init_ret, delay_us)."""
    lines = [f"count={len(gpus)}", "driver=570.124.06", "nvml=12.570.124.06", "cuda=12080"]
    lines += [f"{key}={value}" for key, value in keys.items()]
    for number, gpu in enumerate(gpus):
        own = {"uuid": uuid(number), "busid": f"00000000:{number + 0x18:02X}:00.0", **gpu}
        lines += [f"gpu{number}.{key}={value}" for key, value in own.items()]
    new_file = path.with_suffix(".new")
    new_file.write_text("\n".join(lines) + "\n")
    os.replace(new_file, path)
