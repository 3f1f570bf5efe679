"""Plays a case: has its data written, starts its trainer, records it with the program, and asks for the verdict."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from iotop_ai.diagnosis.thresholds import RULES_VERSION
from tests.rigs.nobody import UID, as_nobody
from tests.rigs.nvml.c_library import HOPPER, machine
from tests.scenarios.keep import snapshots
from tests.scenarios.place import alone, at_most, die_with_us, run_folder
from tests.scenarios.play import REPO, running
from tests.scenarios.stacks.account import account_of, other_jobs, stalls_of
from tests.scenarios.stacks.case import Case
from tests.scenarios.stacks.clock import STATES, halves, read
from tests.scenarios.stacks.data import fill
from tests.scenarios.stacks.gpu import Gpus

READY_S = 120.0
MARK = "IOTOP_AI_STACK_RUN"
"""An environment variable of every process that a run starts. It identifies processes that a stack leaves behind."""
LEFT_OUT = ("util", "power_mw", "energy_mj", "procs", "samples", "events")
CARD = {k: v for k, v in HOPPER.items() if k not in LEFT_OUT and not k.startswith(("gpm", "fi."))}


def truth_of(rows: Sequence[dict[str, Any]], start: float, end: float) -> dict[str, Any]:
    """Return the shares of each state between two moments, for each rank and for the slowest rank.

    They come from the first and the last row between 0.6 s before ``start`` and 0.6 s after ``end``.
    """
    inside = [row for row in rows if start - 0.6 <= row["at"] <= end + 0.6 and None not in row["ranks"]]
    if len(inside) < 2:
        raise RuntimeError("the trainer did not run while it was watched")
    first, last = inside[0], inside[-1]
    seconds = last["at"] - first["at"]
    ranks = [
        {state: round((b[state] - a[state]) / seconds, 4) for state in STATES}
        for a, b in zip(first["ranks"], last["ranks"], strict=True)
    ]
    slowest = max(ranks, key=lambda shares: shares["wait"])
    steps = sum(b["batches"] - a["batches"] for a, b in zip(first["ranks"], last["ranks"], strict=True))
    return {"seconds": round(seconds, 1), "shares": slowest, "ranks": ranks, "steps": steps}


@contextlib.contextmanager
def killing_marked_processes(mark: str) -> Iterator[None]:
    """End every process with this mark when the block ends."""
    try:
        yield
    finally:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == mark:
                    process.kill()


def _wait_until_ready(clocks: Sequence[Path], trainer: subprocess.Popen[bytes], log: Path) -> int:
    """Wait until all ranks make steady steps; return the pid of the first rank."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        truths = [read(clock, time.monotonic_ns()) for clock in clocks]
        if all(truth is not None and truth.ready for truth in truths):
            return 0 if truths[0] is None else truths[0].pid
        if trainer.poll() is not None:
            break
        time.sleep(0.2)
    raise RuntimeError(f"the trainer makes no steps: {log.read_text(errors='replace')[-600:]}")


def play(name: str, case: Case, seconds: int, library: Path, keep: Path, *, as_user: bool = False) -> dict[str, Any]:
    """Play a case and return its record. Its recording and truth go to ``keep``/NAME.iotop.jsonl and .truth.jsonl.

    as_user: run trainer and recorder as a user without root, from whom the kernel hides what Yama hides. Raises
    OSError, RuntimeError or subprocess.SubprocessError when the case cannot be made.
    """
    stem = name.replace(" ", "_")
    recording, truth = keep / f"{stem}.iotop.jsonl", keep / f"{stem}.truth.jsonl"
    recording.unlink(missing_ok=True)

    with (
        alone(),
        at_most(3 * seconds + 300),
        run_folder() as folder,
        tempfile.TemporaryDirectory(prefix="iotop-stack-", dir="/dev/shm") as shared,
    ):
        conf, clocks, log = folder / "gpu.conf", case.clocks(Path(shared) / "clock"), folder / "log"
        made = folder / recording.name
        machine(conf, [CARD] * case.ranks)
        with case.place(folder, partial(fill, case)) as data, Gpus(conf, clocks, truth), log.open("wb") as output:
            command = case.train(data, clocks[0], seconds + READY_S + 60)
            environment = {**os.environ, MARK: folder.name}
            if as_user:
                for path in (folder, Path(shared), Path(data)):
                    if path.exists():  # the data may be at an address
                        os.chown(path, UID, UID)
                command, environment = as_nobody(*command), {**environment, "HOME": str(folder)}
            with (
                killing_marked_processes(folder.name),
                running(command, stdout=output, stderr=output, cwd=folder, env=environment) as trainer,
            ):
                assert trainer is not None
                pid = _wait_until_ready(clocks, trainer, log)
                start, before = time.monotonic(), cpu_seconds_of_others(trainer.pid)
                halves_before = halves(clocks[0])
                _record(made, seconds, conf, library, as_user=as_user)
                end, after = time.monotonic(), cpu_seconds_of_others(trainer.pid)
                read_s, decode_s = (b - a for a, b in zip(halves_before, halves(clocks[0]), strict=True))
                if trainer.poll() is not None:
                    raise RuntimeError(f"the trainer ended: {log.read_text(errors='replace')[-600:]}")
        shutil.copyfile(made, recording)  # root does not read a file of another user
    rows = [json.loads(line) for line in truth.read_text().splitlines()]
    return {
        "name": name,
        "stack": case.stack,
        "cause": case.cause.name,
        "options": list(case.options),
        "truth": {
            **truth_of(rows, start, end),
            **({"halves": {"read": round(read_s, 2), "decode": round(decode_s, 2)}} if read_s or decode_s else {}),
        },
        "others": round((after - before) / (end - start) / (os.cpu_count() or 1), 3),
        **diagnosis_of(recording, pid, rows),
    }


def cpu_seconds_of_others(pid: int) -> float:
    """Return the CPU time of all processes of this machine, except the process ``pid`` and its descendants."""
    now = psutil.cpu_times()
    own = 0.0
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            own += sum(process.cpu_times()[:4])
    return float(sum(now) - now.idle - now.iowait - getattr(now, "guest", 0.0) - own)


def _record(recording: Path, seconds: int, conf: Path, library: Path, *, as_user: bool) -> None:
    """Record this machine, with the GPUs that the library simulates."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(conf)}
    program = "tests.scenarios.stacks.like_a_user" if as_user else "iotop_ai"
    command = [sys.executable, "-m", program, "record", "-o", str(recording), "--duration", str(seconds), "--no-smart"]
    if as_user:
        command, env = as_nobody(*command), {**env, "HOME": str(recording.parent)}
    done = subprocess.run(command, cwd=REPO, env=env, capture_output=True, text=True, preexec_fn=die_with_us)
    if done.returncode:
        raise RuntimeError(f"the recorder ended with {done.returncode}: {done.stderr[-600:]}")


def diagnosis_of(recording: Path, pid: int, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what this version of the program says about a recording.

    That is the verdict, the verdicts of the seconds, the account of the job's time, and the number of other jobs.
    """
    command = [sys.executable, "-m", "iotop_ai", "diagnose", str(recording), "--json", "--job", str(pid)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    if done.returncode not in (0, 1, 2) or not done.stdout:
        raise RuntimeError(f"diagnose ended with {done.returncode}: {done.stderr[-600:]}")
    found = json.loads(done.stdout)
    recorded = snapshots(recording)
    return {
        "rules": RULES_VERSION,
        "verdict": found["verdict"],
        "state": found["state"],
        "confidence": found["confidence"],
        "data_stall_ratio": found["data_stall_ratio"],
        **stalls_of(recorded, pid, rows),
        "account": account_of(recorded, pid),
        "other_jobs": other_jobs(recorded, pid),
    }
