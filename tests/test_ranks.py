"""The simulated ranks of the GPU scenarios: the figures of their GPUs agree with their work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

from tests.scenarios.causes_gpu import CAUSES
from tests.scenarios.ranks import Trouble, gpu_figures

REPO = Path(__file__).resolve().parent.parent
NOTHING = Trouble("", 0.0, 0)


def figures(
    shares: list[float], trouble: Trouble = NOTHING, reason: int = 270, seconds: float = 1.0
) -> dict[str, float]:
    counters = {"held": 0.0, "bytes": 0.0, "replays": 0.0}
    return gpu_figures(shares, 0, Namespace(reason=reason), trouble, counters, seconds)


def test_a_spinning_rank_is_busy_and_draws_little_power() -> None:
    computes, spins, waits = figures([0, 1.0, 0, 0]), figures([0, 0, 1.0, 0]), figures([1.0, 0, 0, 0])
    assert (computes["util"], spins["util"], waits["util"]) == (100, 100, 0)
    assert computes["power_mw"] == 670_000
    assert spins["power_mw"] / 700_000 == pytest.approx(0.14)


def test_a_throttled_gpu_counts_the_time_and_lowers_its_clock() -> None:
    hot = figures([0, 1.0, 0, 0], Trouble("throttle", 2.0, 1))
    assert (hot["fi.270"], hot["fi.269"], hot["clock1"], hot["throttle"]) == (500_000_000, 0, 990, 0x40)
    only_mask = figures([0, 1.0, 0, 0], Trouble("throttle", 2.0, 1), reason=0)
    assert "fi.270" not in only_mask


def test_a_narrow_link_is_full_during_copies() -> None:
    out = figures([0, 0.1, 0, 0.9], Trouble("link", 1.0, 1))
    assert (out["pcie_width"], out["util"]) == (4, 10)
    assert out["fi.198"] == pytest.approx(0.9 * 12.5e9)


def test_every_cause_has_gpus() -> None:
    assert all(cause.gpu and cause.gpus >= 1 for cause in CAUSES.values())
    assert sum(cause.negative for cause in CAUSES.values()) >= 3


def test_the_late_rank_draws_most_power_while_the_others_wait(tmp_path: Path) -> None:
    conf, log = tmp_path / "gpu.conf", tmp_path / "log"
    conf.write_text("count=2\n")
    command = [sys.executable, "tests/scenarios/ranks.py", str(tmp_path), "--log", str(log), "--gpu", str(conf)]
    command += ["--ranks", "2", "--workers", "1", "--step", "0.05", "--trouble", "late-step", "--amount", "6"]
    ranks = subprocess.Popen(command, cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO)}, start_new_session=True)
    try:
        until = time.monotonic() + 60
        fields: dict[str, str] = {}
        while time.monotonic() < until:
            fields = dict(line.split("=", 1) for line in conf.read_text().splitlines())
            late, other = (int(fields.get(f"gpu{i}.power_mw", 0)) for i in (0, 1))
            if late > 3 * other > 0 and log.exists() and len(log.read_text().splitlines()) > 3:
                break
            time.sleep(0.1)
        assert int(fields["gpu1.util"]) > 90
        assert late > 3 * other
        assert fields["gpu0.procs"] != fields["gpu1.procs"]
    finally:
        os.killpg(ranks.pid, signal.SIGKILL)
        ranks.wait()
    assert all(step["wait"] >= 0 for step in map(json.loads, log.read_text().splitlines()[:3]))
