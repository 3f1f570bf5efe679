"""Plays one run: makes the cause, starts its trainer, watches, and returns the record."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iotop_ai.diagnosis.thresholds import RULES_VERSION
from tests.rigs.nvml.c_library import SERVER, machine
from tests.scenarios.cause import Cause, Setting
from tests.scenarios.place import alone, at_most, die_with_us, run_folder
from tests.scenarios.plan import BACKGROUND, Run
from tests.scenarios.score import true_stall

REPO = Path(__file__).resolve().parents[2]
SETTLE_S = 3.0
BUSY = "import os\nwhile os.getppid() != 1:\n    sum(range(20000))\n"


@contextlib.contextmanager
def running(command: list[str], **more: Any) -> Iterator[subprocess.Popen[bytes] | None]:
    """Run a program during the block, and then end it and everything that it has started.

    Yields None for no command.
    """
    if not command:
        yield None
        return
    program = subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_us, **more)
    try:
        yield program
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def _write_gpu_conf(folder: Path, cause: Cause, library: Path | None) -> Path | None:
    """Write the file from which the GPU library answers, and return its path; None without a GPU."""
    if not cause.gpu or library is None:
        return None
    card = {k: v for k, v in SERVER.items() if k not in ("util", "power_mw", "energy_mj", "procs")} | dict(cause.card)
    conf = folder / "gpu.conf"
    machine(conf, [card] * cause.gpus)
    return conf


def play(run: Run, cause: Cause, library: Path | None, keep: Path | None) -> dict[str, Any]:
    """Make the cause and watch it; return a record of the run for JSON. keep: the path for its recording, or None.

    Raises OSError, RuntimeError or subprocess.SubprocessError when the cause cannot be made or watched.
    """
    if keep is not None:
        keep.unlink(missing_ok=True)
    with alone(), at_most(3 * run.seconds + 120), run_folder() as folder:
        conf = _write_gpu_conf(folder, cause, library)
        log = folder / "steps.jsonl"
        with cause.scene(folder) as setting, contextlib.ExitStack() as stack:
            if run.kind == BACKGROUND:
                stack.enter_context(running([sys.executable, "-c", BUSY]))
            started = time.monotonic()
            with running(cause.command(setting, log, conf)) as trainer:
                time.sleep(SETTLE_S)
                rows = _watch(run, setting, 0 if trainer is None else trainer.pid, conf, library, keep)
                ended = None if trainer is None else trainer.poll()
                pid = None if trainer is None else trainer.pid
            time.sleep(0.3)
        if ended is not None and cause.label != "job_died":
            raise RuntimeError(f"the trainer ended with {ended}")
        lines = log.read_text().splitlines() if log.exists() else []
    steps = [json.loads(line) for line in lines if line.endswith("}")]
    return {
        **run._asdict(),
        "rules": RULES_VERSION,
        "label": cause.label,
        "negative": cause.negative,
        "also": list(cause.also),
        "captured": cause.captured,
        "window_s": cause.window_s,
        "setting": cause.setting,
        "started": started,
        "exit": ended,
        "pid": pid,
        "steps": len(steps),
        "rows": [{**row, "truth": true_stall(steps, row["at"])} for row in rows],
    }


def _watch(
    run: Run, setting: Setting, pid: int, conf: Path | None, library: Path | None, keep: Path | None
) -> list[dict[str, Any]]:
    env = {**os.environ, "PYTHONPATH": str(REPO), **dict(setting.env)}
    if conf is not None and library is not None:
        env |= {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(conf)}
    command = [sys.executable, "-m", "tests.scenarios.watch", str(run.seconds), str(pid)]
    command += [] if setting.root is None else ["--root", str(setting.root)]
    command += ["--smartctl", env["SMARTCTL"]] if "SMARTCTL" in env else []
    command += [] if keep is None else ["--record", str(keep)]
    with subprocess.Popen(
        command, env=env, cwd=REPO, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_us
    ) as watcher:
        try:
            out, _ = watcher.communicate(timeout=2 * run.seconds + 60)
        except BaseException:
            watcher.kill()
            raise
    if watcher.returncode:
        raise RuntimeError(f"the watcher ended with {watcher.returncode}")
    return [json.loads(line) for line in out.splitlines()]
