"""``gpu-log`` with the fake NVML library: the names, titles, units and order of nvidia-smi."""

from __future__ import annotations

import itertools
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from iotop_ai.export.logs.nvidia_smi_csv import DEFAULT, FIELDS, GpuLine, csv_header, csv_line, fields_of, json_object
from iotop_ai.model.errors import UsageError
from iotop_ai.model.gpu.state import GpuState
from tests.rigs.nvml import build, machine, why_no_library
from tests.rigs.nvml.c_library import CONSUMER, HOPPER
from tests.rigs.prometheus import wait_for

NO_LIBRARY = why_no_library()
needs_library = pytest.mark.skipif(bool(NO_LIBRARY), reason=NO_LIBRARY or "built")
STAMP = re.compile(r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}$")


def start(folder: Path, *argv: str) -> subprocess.Popen[str]:
    env = {**os.environ, "FAKE_NVML": str(folder / "gpu.conf"), "LD_LIBRARY_PATH": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "iotop_ai", "gpu-log", *argv],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def rig(tmp_path: Path) -> Path:
    build(tmp_path)
    machine(tmp_path / "gpu.conf", [HOPPER, CONSUMER])
    return tmp_path


@needs_library
def test_the_default_query_has_the_documented_fields(rig: Path) -> None:
    out, err = start(rig, "-n", "1").communicate(timeout=30)
    header, first, second = out.splitlines()
    assert (
        header
        == "timestamp, utilization.gpu [%], memory.used [MiB], temperature.gpu, power.draw [W], pcie.link.width.current"
    )
    stamp, rest = first.split(", ", 1)
    assert STAMP.match(stamp)
    assert rest == "97 %, 58368 MiB, 64, 612.35 W, 16"
    assert second.split(", ", 1)[1] == "0 %, 12 MiB, 31, [N/A], 8"
    assert err == ""


@needs_library
def test_each_line_is_flushed_and_the_interval_is_kept(rig: Path) -> None:
    child = start(rig, "-d", "0.3", "--query", "timestamp,index", "--format", "csv,noheader")
    assert child.stdout is not None
    poll = select.poll()
    poll.register(child.stdout, select.POLLIN)
    seen = []
    while len(seen) < 6:
        assert poll.poll(15_000)
        seen.append(child.stdout.readline().strip())
    child.terminate()
    child.communicate(timeout=15)
    assert [line.rsplit(", ", 1)[1] for line in seen] == ["0", "1"] * 3


@needs_library
@pytest.mark.parametrize(("delay_us", "code"), [(2_000_000, 130), (0, 0)])
def test_ctrl_c_is_a_normal_end_only_after_a_line(rig: Path, delay_us: int, code: int) -> None:
    machine(rig / "gpu.conf", [HOPPER], delay_us=delay_us)
    child = start(rig, "-d", "60", "--format", "csv,noheader")
    assert child.stdout is not None
    if delay_us:
        wait_for(lambda: "libnvidia-ml" in Path(f"/proc/{child.pid}/maps").read_text(), "the library")
    else:
        child.stdout.readline()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (code, "", "")


@needs_library
def test_rounds_missed_while_the_program_was_stopped_are_left_out(rig: Path) -> None:
    child = start(rig, "-d", "0.5", "-n", "8", "--query", "timestamp", "--format", "csv,noheader")
    assert child.stdout is not None
    seen = [child.stdout.readline()]
    child.send_signal(signal.SIGSTOP)
    time.sleep(5)
    child.send_signal(signal.SIGCONT)
    out, _ = child.communicate(timeout=60)
    stamps = [datetime.strptime(line.strip(), "%Y/%m/%d %H:%M:%S.%f") for line in [*seen, *out.splitlines()][::2]]
    gaps = [(late - early).total_seconds() for early, late in itertools.pairwise(stamps)]
    assert len(gaps) == 7
    assert len([gap for gap in gaps if gap < 0.1]) <= 2


@needs_library
def test_each_format_is_printed(rig: Path) -> None:
    query = "clocks.sm,clocks_throttle_reasons.active,clocks_event_reasons.sw_power_cap,pstate,ecc.mode.current"
    plain, _ = start(rig, "-n", "1", "--query-gpu", query, "--format", "csv,nounits").communicate(timeout=30)
    assert plain.splitlines() == [
        "clocks.current.sm, clocks_event_reasons.active, clocks_event_reasons.sw_power_cap, pstate, ecc.mode.current",
        "1755, 0x0000000000000004, Active, P0, Enabled",
        "139, [N/A], [N/A], P8, [N/A]",
    ]
    found, _ = start(rig, "-n", "1", "--query", "index,power.draw,memory.used", "--format", "json").communicate(
        timeout=30
    )
    assert [json.loads(line) for line in found.splitlines()] == [
        {"index": 0, "power.draw [W]": 612.345, "memory.used [MiB]": 58368},
        {"index": 1, "power.draw [W]": None, "memory.used [MiB]": 12},
    ]


@needs_library
def test_an_impossible_query_gives_a_one_line_error(rig: Path) -> None:
    child = start(rig, "--query", "timestamp,nonsense")
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (2, "")
    assert err.startswith("usage: 'nonsense' is not a field; gpu-log --help-query")
    machine(rig / "gpu.conf", [HOPPER], init_ret=18)
    child = start(rig, "-n", "1")
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (2, "")
    assert err.startswith("unknown: the NVIDIA library and kernel module have different versions (reboot")


def test_every_field_has_a_value_or_na() -> None:
    line = GpuLine(1_760_000_000_123_000_000, "GPU-1", GpuState("GPU-1", 0, "H100", fan_percent=0), None, 1)
    fields = list(FIELDS.values())
    texts = dict(zip(FIELDS, csv_line(fields, line).split(", "), strict=True))
    assert (texts["fan.speed"], texts["power.draw"], texts["temperature.memory"]) == ("0 %", "[N/A]", "N/A")
    assert csv_header(fields_of("fan.speed")) == "fan.speed [%]"
    assert json_object(fields_of("driver_version,fan.speed"), line) == {"driver_version": None, "fan.speed [%]": 0}
    lost = GpuLine(0, "GPU-2", None, None, 2)
    assert csv_line(fields_of("uuid,utilization.gpu,count"), lost) == "GPU-2, [N/A], 2"
    assert len(fields_of(DEFAULT)) == 6
    with pytest.raises(UsageError):
        fields_of("")
