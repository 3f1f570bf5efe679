"""Records a run: ``record_run(run, folder, ...)``, or ``python -m tests.scenarios.runs.record OUT --delay-ms 20``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.rigs.nvml.c_library import SERVER, build, machine
from tests.scenarios.cause import Setting
from tests.scenarios.place import die_with_us
from tests.scenarios.scenes import slow, write_files

TRAINER = Path(__file__).with_name("trainer.py")
REPO = Path(__file__).resolve().parents[3]


class Run(NamedTuple):
    """One run. delay_us: the delay of each request to its disk; None if its data is in memory (tmpfs)."""

    delay_us: int | None
    options: tuple[str, ...] = ()
    seconds: float = 20.0
    gpu: bool = True


class Recorded(NamedTuple):
    """A recording, the lines that the trainer printed, and the truth that it measured."""

    path: Path
    stdout: Path
    truth: list[dict[str, float]]

    @property
    def wait_ratio(self) -> float:
        """The share of the time for which the trainer waited for data."""
        return sum(step["wait"] for step in self.truth) / sum(step["all"] for step in self.truth)

    @property
    def steps_per_s(self) -> float:
        """The steps per second."""
        return len(self.truth) / sum(step["all"] for step in self.truth)


@contextlib.contextmanager
def in_memory() -> Iterator[Setting]:
    """Provide a folder on tmpfs with the data."""
    with tempfile.TemporaryDirectory(prefix="iotop-runs-", dir="/dev/shm") as name:
        write_files(Path(name), 8, 8)
        yield Setting(Path(name))


@contextlib.contextmanager
def place(delay_us: int | None) -> Iterator[Setting]:
    """Provide the place of a run's data: a slow disk, or memory if ``delay_us`` is None."""
    if delay_us is None:
        with in_memory() as setting:
            yield setting
    else:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="iotop-scenario-"))
            yield stack.enter_context(slow(delay_us, files=(8, 8), mebibytes=96)(Path(folder)))


def record_run(run: Run, folder: Path, name: str, setting: Setting, library: Path | None = None) -> Recorded:
    """Run the trainer below ``iotop-ai record``. library: the C library that stands for NVML; it is built if missing.

    Raises RuntimeError when the recorder or the trainer fails.
    """
    path, stdout = folder / f"{name}.iotop.jsonl", folder / f"{name}.log"
    with tempfile.TemporaryDirectory(prefix="iotop-truth-", dir="/dev/shm") as memory:
        truth = Path(memory) / "truth.jsonl"
        words = [str(TRAINER), str(setting.folder), "--truth", str(truth), "--seconds", str(run.seconds), *run.options]
        env = {**os.environ, "PYTHONPATH": str(REPO), "PYTHONDONTWRITEBYTECODE": "1"}
        if run.gpu:
            library = library or build(folder)
            conf = Path(memory) / "gpu.conf"
            card = {k: v for k, v in SERVER.items() if k not in ("energy_mj", "procs")}
            # A figure that is missing at first counts as unsupported, and the trainer reports only half a second later.
            machine(conf, [card | {"util": 0, "power_mw": 70_000}])
            env |= {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(conf)}
            words += ["--gpu", str(conf)]
        recorder = [sys.executable, "-m", "iotop_ai", "record", "--no-smart", "-o", str(path), "--"]
        with stdout.open("w") as out:
            done = subprocess.run(
                [*recorder, sys.executable, *words],
                cwd=REPO, env=env, stdout=out, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_us,
                timeout=run.seconds + 60, check=False,
            )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"record ended with {done.returncode}: {done.stderr[-500:]}")
        if "Traceback" in done.stderr:
            raise RuntimeError(f"the trainer failed: {done.stderr[-500:]}")
        steps = [json.loads(line) for line in truth.read_text().splitlines() if line.endswith("}")]
    return Recorded(path, stdout, steps)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="OUT.iotop.jsonl and OUT.log are written")
    parser.add_argument("--delay-ms", type=float, help="delay of each disk request; without it the data is in memory")
    parser.add_argument("--seconds", type=float, default=20.0)
    a, options = parser.parse_known_args(argv)  # the other words are options of the trainer
    delay_us = None if a.delay_ms is None else round(a.delay_ms * 1000)
    with place(delay_us) as setting:
        run = Run(delay_us, tuple(options), a.seconds)
        found = record_run(run, a.out.parent, a.out.name, setting)
    print(f"{found.path}: {len(found.truth)} steps, {found.steps_per_s:.2f} a second, wait {found.wait_ratio:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
