"""A slow GPU driver does not delay the disks, which have their own interval."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs.nvml import machine, why_no_library
from tests.rigs.nvml.c_library import HOPPER

NO_LIBRARY = why_no_library()
REPO = Path(__file__).parents[3]
CHILD = """
import json
from iotop_ai.model.settings import Settings
from iotop_ai.sources.live.source import LiveSource
source = LiveSource(Settings(interval_s=0.2, smart=False))
out = []
for snapshot in source:
    gpu = None if not snapshot.gpu.value else next(iter(snapshot.gpu.value.values())).took_ns
    out.append([snapshot.at_ns, snapshot.block.at_ns, snapshot.own.collect_ns, gpu])
    if len(out) == 30:
        source.close()
print(json.dumps(out))
"""


@pytest.mark.alone
@pytest.mark.skipif(bool(NO_LIBRARY), reason=NO_LIBRARY or "built")
def test_the_disks_keep_their_interval(library: Path, tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [HOPPER, HOPPER], **{"delay_us.nvmlDeviceGetPowerUsage": 200_000})
    env = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(tmp_path / "gpu.conf")}
    done = subprocess.run([sys.executable, "-c", CHILD], env=env, cwd=REPO, capture_output=True, text=True, timeout=60)
    ticks = json.loads(done.stdout)
    gaps = sorted((b[1] - a[1]) / 1e9 for a, b in itertools.pairwise(ticks))
    # There are 29 intervals of 0.2 s. A busy machine may delay some, but none may wait for two NVML calls of 200 ms.
    assert gaps[len(gaps) // 2] == pytest.approx(0.2, abs=0.1)
    assert (ticks[-1][1] - ticks[0][1]) / 1e9 < 29 * 0.3
    assert max(tick[2] for tick in ticks) < 400e6
    assert max(tick[3] or 0 for tick in ticks) > 200e6
