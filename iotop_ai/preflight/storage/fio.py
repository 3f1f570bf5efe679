"""Reads with fio if it is installed, because fio needs less CPU than our reader for the same reads.

Sources: fio(1), https://fio.readthedocs.io/en/latest/fio_doc.html (JSON output: read.total_ios, runtime, io_bytes,
lat_ns). One process of fio runs several phases one after another (--stonewall). It may only read (--readonly), and it
does not invalidate the cache, because on a device that would drop the cached metadata of its filesystem.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.programs import find_user_program
from iotop_ai.collectors.io.spawn import run, start
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.storage import RANDOM, Latency, Measured, Phase, enough_for
from iotop_ai.preflight.storage.reader import HANG_S, READ_MOST_BYTES, HangError, Stop

OVERHEAD_S = 0.35
"""The seconds that fio takes to start and to end."""
LEAST_S = 0.2
"""The shortest time of a phase, in seconds."""
_TICK_S = 0.05
_BUSY_PERCENT = 90.0
"""If fio uses at least this much of a core, the limit may be fio, not the storage."""
_PERCENTILES = (50, 90, 99)
_MOST_OUTPUT_BYTES = 4 << 20


class FioError(Exception):
    """fio failed, or its output is not as expected."""


def find_fio() -> tuple[str, str]:
    """Return the path and the version of fio, or ("", "") if it is missing or does not start."""
    program = find_user_program("fio")
    if program:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            result = run([program, "--version"], capture_output=True, timeout=5)
            if not result.returncode:
                return program, clean(result.stdout.decode(errors="replace").strip(), 40)
    return "", ""


def fio_command(program: str, handle: int, size: int, phases: Sequence[Phase]) -> list[str]:
    """Return the command that reads an open file, in one job for each phase.

    handle: the descriptor of the file. size: the bytes of the file that are read, from its start.
    """
    command = [
        *(program, "--output-format=json", "--eta=never", "--disk_util=0", "--thread", "--readonly", "--direct=1"),
        *("--invalidate=0", "--allow_file_create=0", "--ioengine=libaio", "--norandommap"),
        *("--randrepeat=0", "--clat_percentiles=0", "--lat_percentiles=1"),
        "--percentile_list=" + ":".join(map(str, _PERCENTILES)),
        *(f"--filename=/proc/self/fd/{handle}", f"--size={size}", f"--io_size={READ_MOST_BYTES}"),
    ]
    overhead_s = OVERHEAD_S / len(phases)
    for number, phase in enumerate(phases):
        milliseconds = max(LEAST_S, phase.seconds - overhead_s) * 1000
        command += [
            *(f"--name=phase{number}", "--stonewall", f"--rw={'randread' if phase.name == RANDOM else 'read'}"),
            *(f"--bs={phase.block_bytes}", f"--iodepth={phase.depth}", f"--runtime={milliseconds:.0f}ms"),
        ]
    return command


def parse_fio(raw: bytes, phases: Sequence[Phase]) -> list[Measured]:
    """Return the results of the phases. Raises FioError."""
    try:
        # Warnings may come before the JSON object.
        output = json.loads(raw[raw.index(b"{") :])
        jobs = output["jobs"]
        if len(jobs) != len(phases):
            raise ValueError
        return [_measured(job, phase) for job, phase in zip(jobs, phases, strict=True)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FioError("its output is not as expected") from None


def _measured(job: dict[str, Any], phase: Phase) -> Measured:
    if job["error"]:
        raise FioError(os.strerror(int(job["error"])))
    read = job["read"]
    times = read["lat_ns"]
    latency = None
    if read["total_ios"]:
        most_ns = float(times["max"])
        # A percentile of fio is the upper end of a bucket, which may exceed the longest time.
        p50, p90, p99 = (
            min(most_ns, float(times["percentile"][f"{percent}.000000"])) / 1e6 for percent in _PERCENTILES
        )
        ops = int(read["total_ios"])
        p90_ms, p99_ms = p90 if enough_for(90, ops) else None, p99 if enough_for(99, ops) else None
        latency = Latency(float(times["mean"]) / 1e6, p50, p90_ms, p99_ms, most_ns / 1e6)
    busy = float(job["usr_cpu"]) + float(job["sys_cpu"]) >= _BUSY_PERCENT
    seconds = float(read["runtime"]) / 1000
    name, block, depth, _ = phase
    return Measured(name, block, depth, int(read["total_ios"]), int(read["io_bytes"]), seconds, latency, busy)


def read_by_fio(
    program: str,
    handle: int,
    size: int,
    phases: Sequence[Phase],
    stop: Stop,
    clock: Clock,
    show: Callable[[float], None],
) -> list[Measured]:
    """Measure the phases in one run of fio; return their results, or [] if ``stop`` is set meanwhile.

    handle, size: as in ``fio_command``. show: called several times a second with the seconds since the start. Raises
    FioError, OSError, or HangError.
    """
    command = fio_command(program, handle, size, phases)
    child = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=(handle,), start_new_session=True)
    start_ns = clock.monotonic_ns()
    most_s = sum(max(LEAST_S, phase.seconds) for phase in phases) + OVERHEAD_S + HANG_S
    outputs: list[bytes] = []
    assert child.stdout is not None
    source = child.stdout
    reader = threading.Thread(target=lambda: outputs.append(source.read(_MOST_OUTPUT_BYTES)), daemon=True)
    reader.start()
    try:
        while reader.is_alive():
            reader.join(_TICK_S)
            seconds = (clock.monotonic_ns() - start_ns) / 1e9
            show(seconds)
            if stop.is_set():
                return []
            if seconds > most_s:
                raise HangError(seconds - most_s + HANG_S)
        code = child.wait(HANG_S)
    except subprocess.TimeoutExpired:
        raise HangError(HANG_S) from None
    finally:
        if child.poll() is None:
            child.kill()
    if code:
        raise FioError(clean(outputs[0].decode(errors="replace").strip().partition("\n")[0]) or f"exit code {code}")
    return parse_fio(outputs[0], phases)
