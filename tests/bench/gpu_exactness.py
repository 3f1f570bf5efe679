"""Compares our GPU figures with those of nvitop, gpustat and nvidia-smi, and measures the cost of reading them.

``python -m tests.bench.gpu_exactness [--venv DIR] [--seconds 15] [--write]`` builds the rig's library, runs
iotop-ai, nvitop and gpustat on it, compares the figures, and measures the cost with 1 and 16 GPUs. nvitop and gpustat
are taken from ``--venv``, or else installed into a temporary folder. Exit code 1: a figure differs, or 16 GPUs cost too
much. 2: this machine cannot tell.

``python -m tests.bench.gpu_exactness --real [--write]`` runs on a machine with an NVIDIA GPU. It compares our log with
nvidia-smi's, idle and (with torch) under load, including GPM, and measures the cost of each call. ``--write`` keeps the
costs in docs/nvml-costs.md and the raw replies as tests/data/gpu/NAME.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.gpu_real import real
from tests.rigs.nvml import build, machine, why_no_library
from tests.rigs.nvml.c_library import CONSUMER, HOPPER

REPO = Path(__file__).parents[2]
PAGE = REPO / "docs" / "gpu-exactness.md"
PEERS = ("nvitop", "gpustat")
ALLOWED_FACTOR = 1.5
SIZES = ("80x24", "160x48")
ASK_NVITOP = """
import json, sys
from nvitop import Device
def plain(value):
    return value if isinstance(value, (int, float)) else None
print(json.dumps({d.uuid(): {
    "utilisation %": plain(d.gpu_utilization()), "memory activity %": plain(d.memory_utilization()),
    "memory used": plain(d.memory_used()), "memory total": plain(d.memory_total()),
    "temperature": plain(d.temperature()), "fan %": plain(d.fan_speed()), "power mW": plain(d.power_usage()),
    "limit mW": plain(d.power_limit()), "SM MHz": plain(d.sm_clock()),
    "processes": sorted([p, plain(g.gpu_memory())] for p, g in d.processes().items()),
} for d in Device.all()}))
"""
MIB = 1 << 20
NOT_SHOWN = "not shown"
HEAD = """# GPU figures beside others

Written by `python -m tests.bench.gpu_exactness --write`.
"""


class Row(NamedTuple):
    """One figure of one GPU, as each program shows it."""

    gpu: str
    figure: str
    ours: object
    nvitop: object
    gpustat: object

    @property
    def equal(self) -> bool:
        """Whether all programs that show the figure agree."""
        reported = [value for value in (self.nvitop, self.gpustat) if value != NOT_SHOWN]
        return all(value == self.ours for value in reported)


def run(argv: list[str], env: Mapping[str, str]) -> str:
    """Return the output of a program. If the program fails, end with exit code 2 and the last line of its stderr."""
    done = subprocess.run(argv, env={**os.environ, **env}, cwd=REPO, capture_output=True, text=True, timeout=120)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"unknown: {' '.join(argv[:3])}: {last}", file=sys.stderr)
        raise SystemExit(2)
    return done.stdout


def peers_python(folder: Path, environment: Path | None) -> Path:
    """Return the path of an interpreter that has nvitop and gpustat."""
    if environment is not None:
        return environment / "bin" / "python"
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run([str(python), "-m", "pip", "install", "-q", *PEERS], {})
    return python


def ours(env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return our figures by UUID, from ``iotop-ai snapshot --json``."""
    text = run([sys.executable, "-m", "iotop_ai", "snapshot", "--json", "--no-smart", "-d", "2"], env)
    out = {}
    for gpu in json.loads(text)["gpus"]:
        power = gpu["power_watts"]
        out[gpu["uuid"]] = {
            "utilisation %": _percent(gpu["busy_ratio"]),
            "memory activity %": _percent(gpu["memory_busy_ratio"]),
            "memory used": gpu["memory_used_bytes"],
            "memory total": gpu["memory_total_bytes"],
            "temperature": gpu["temperature_celsius"],
            "fan %": gpu["fan_percent"],
            "power W": None if power is None else round(power),
            "limit W": None if gpu["power_limit_watts"] is None else round(gpu["power_limit_watts"]),
            "SM MHz": gpu["sm_mhz"],
            "processes": sorted([p["pid"], p["memory_bytes"]] for p in gpu["processes"] or []),
        }
    return out


def _percent(ratio: float | None) -> int | None:
    return None if ratio is None else round(ratio * 100)


def rows_of(mine: Mapping[str, Any], nvitop: Mapping[str, Any], gpustat: Mapping[str, Any]) -> list[Row]:
    """Return every figure of every GPU, with the values of all programs converted to one unit."""
    out = []
    stat = {gpu["uuid"]: gpu for gpu in gpustat["gpus"]}
    for i, (uuid, own) in enumerate(mine.items()):
        nvitop_figures, raw_gpustat = dict(nvitop[uuid]), stat[uuid]
        for name in ("power", "limit"):
            milliwatts = nvitop_figures.pop(f"{name} mW")
            nvitop_figures[f"{name} W"] = None if milliwatts is None else round(milliwatts / 1000)
        gpustat_figures = {
            "utilisation %": raw_gpustat["utilization.gpu"],
            "memory used": None if raw_gpustat["memory.used"] is None else raw_gpustat["memory.used"] * MIB,
            "memory total": None if raw_gpustat["memory.total"] is None else raw_gpustat["memory.total"] * MIB,
            "temperature": raw_gpustat["temperature.gpu"],
            "fan %": raw_gpustat["fan.speed"],
            "power W": raw_gpustat["power.draw"],
            "limit W": raw_gpustat["enforced.power.limit"],
            "processes": sorted([p["pid"], p["gpu_memory_usage"] * MIB] for p in raw_gpustat["processes"]),
        }
        for figure, value in own.items():
            gpustat_value = gpustat_figures.get(figure, NOT_SHOWN)
            if figure.startswith("memory ") and isinstance(value, (int, float)) and figure in gpustat_figures:
                gpustat_value = value if gpustat_figures[figure] == value // MIB * MIB else gpustat_figures[figure]
            out.append(Row(f"GPU {i}", figure, value, nvitop_figures.get(figure, NOT_SHOWN), gpustat_value))
    return out


def table(rows: list[Row]) -> str:
    """Return a Markdown table with a row per figure and a column per GPU; one value if all programs agree."""
    gpus = list(dict.fromkeys(row.gpu for row in rows))
    by_figure: dict[str, list[Row]] = {}
    for row in rows:
        by_figure.setdefault(row.figure, []).append(row)
    lines = [f"| figure | {' | '.join(gpus)} |", "|--" + "|--:" * len(gpus) + "|"]
    lines += [f"| {figure} | {' | '.join(map(_cell, some))} |" for figure, some in by_figure.items()]
    text = f"{sum(row.equal for row in rows)} of {len(rows)} figures are the same in every program that shows them."
    for name in ("nvitop", "gpustat"):
        if lacking := [figure for figure, some in by_figure.items() if getattr(some[0], name) == NOT_SHOWN]:
            text += f" Not shown by {name}: {', '.join(lacking)}."
    return "\n".join([*lines, "", text])


def _cell(row: Row) -> str:
    if row.equal:
        return _text(row.ours)
    return f"**{_text(row.ours)}, nvitop {_text(row.nvitop)}, gpustat {_text(row.gpustat)}**"


def _text(value: object) -> str:
    return "unknown" if value is None else str(value)


def costs(folder: Path, env: Mapping[str, str], seconds: int, size: str) -> list[dict[str, float]]:
    """Return the CPU time of the monitor with 1 and with 16 GPUs (the lower of two rounds), and that of the calls."""
    found: dict[int, list[dict[str, float]]] = {1: [], 16: []}
    for _ in range(2):
        for count, kept in found.items():
            # A real driver sleeps while it waits for events. The rig's library polls its file, which is not a cost of
            # ours.
            machine(folder / "gpu.conf", [{**HOPPER, "procs": "", "events": 0}] * count)
            argv = [sys.executable, "-m", "tests.rigs.nvml.cost", str(seconds), *size.split("x")]
            kept.append(json.loads(run(argv, env)))
    return [min(kept, key=lambda c: c["cpu_ms_per_s"] - c["calls_ms_per_s"]) for kept in found.values()]


def cost_text(size: str, one: Mapping[str, float], many: Mapping[str, float]) -> tuple[str, bool]:
    """Return a text of the figures, and whether 16 GPUs cost at most 1.5 times 1 GPU plus the calls."""
    allowed = ALLOWED_FACTOR * one["cpu_ms_per_s"] + many["calls_ms_per_s"]
    within = many["cpu_ms_per_s"] <= allowed
    lines = [f"Screen of {size}, one sweep a second:", ""]
    lines += ["| GPUs | CPU ms/s | of it in NVML calls | calls/s | without the calls |", "|--:|--:|--:|--:|--:|"]
    lines += [
        f"| {c['gpus']:.0f} | {c['cpu_ms_per_s']:.1f} | {c['calls_ms_per_s']:.1f} | {c['calls_per_s']:.0f} | "
        f"{c['cpu_ms_per_s'] - c['calls_ms_per_s']:.1f} |"
        for c in (one, many)
    ]
    lines.append("")
    lines.append(
        f"16 GPUs may cost {allowed:.1f} ms/s (1.5 x 1 GPU, plus the calls); they cost {many['cpu_ms_per_s']:.1f}: "
        f"{'holds' if within else 'does NOT hold'}."
    )
    return "\n".join(lines), within


def main() -> int:
    """Compare, measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--venv", type=Path)
    parser.add_argument("--seconds", type=int, default=15)
    args = parser.parse_args()
    if args.real:
        return real(write=args.write)
    if why := why_no_library():
        print(f"unknown: {why}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        env = {"LD_LIBRARY_PATH": name, "FAKE_NVML": str(folder / "gpu.conf"), "PYTHONPATH": str(REPO)}
        python = peers_python(folder, args.venv)
        # Both programs leave out processes that are not in /proc, so this process's pid is used.
        busy = {**HOPPER, "energy_mw": 612_000, "power_mw": 612_000, "procs": f"{os.getpid()}:{60 << 30}:88:30"}
        idle = {**HOPPER, "util": 0, "memutil": 0, "energy_mw": 71_000, "power_mw": 71_000, "procs": ""}
        machine(folder / "gpu.conf", [busy, idle, {**CONSUMER, "gprocs": ""}])
        mine = ours(env)
        nvitop = json.loads(run([str(python), "-c", ASK_NVITOP], env).strip().splitlines()[-1])
        gpustat = json.loads(run([str(python), "-m", "gpustat", "--json"], env))
        run([str(python), "-m", "nvitop", "-1"], env)
        found = rows_of(mine, nvitop, gpustat)
        rows = [cost_text(size, *costs(folder, env, args.seconds, size)) for size in SIZES]
        versions = run([str(python), "-m", "pip", "list", "--format", "json"], {})
    known = {one["name"]: one["version"] for one in json.loads(versions)}
    head = ", ".join(f"{name} {known.get(name, '?')}" for name in PEERS)
    parts = "\n\n".join(text for text, _ in rows)
    page = f"{table(found)}\n\nBeside {head}, on the rig's library.\n\n{parts}\n"
    print(page)
    if args.write:
        PAGE.write_text(f"{HEAD}\n{page}")
    return 0 if all(held for _, held in rows) and all(row.equal for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
