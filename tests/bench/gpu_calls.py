"""Reports which NVML calls this driver answers, what each costs, and how steady the rates are, as JSON on stdout.

``python -m tests.bench.gpu_real [--seconds 20]`` runs it on a machine with an NVIDIA GPU. Besides the driver it needs
only pynvml; the library of ``tests/rigs/nvml`` stands in for a missing driver.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from iotop_ai.collectors.gpu.collector import GpuCollector
from iotop_ai.collectors.gpu.nvml.calls import number_of
from iotop_ai.collectors.gpu.nvml.state import FIELDS
from iotop_ai.collectors.io.clock import Clock

REPO = Path(__file__).parents[2]
USES = 50
EVERY_S = 1.0
COUNTERS = ("energy_mj", "pcie_rx_bytes", "pcie_tx_bytes", "nvlink_rx_kib", "power_cap_ns")
RATES = ("power_watts", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s", "nvlink_rx_bytes_per_s", "power_cap_ratio")
OTHER_FIELDS = {
    "crc_flit_total": 38, "crc_data_total": 45, "replay_total": 52, "recovery_total": 59, "replay_link": 161,
    "recovery_link": 162, "crc_link": 163, "recovery": 230, "recovery_events_nvlink5": 215,
}  # fmt: skip


def calls(api: Any, handle: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name and the function of each of the monitor's queries, the newer queries first."""
    for word in ("Decoder", "Encoder", "Jpg", "Ofa"):
        name = f"nvmlDeviceGet{word}Utilization"
        yield name, lambda name=name: getattr(api, name)(handle)

    def sram() -> Any:
        status = api.c_nvmlEccSramErrorStatus_v1_t()
        api.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
        return {name: getattr(status, name) for name, *_ in status._fields_}

    yield "nvmlDeviceGetSramEccErrorStatus", sram
    for kind in (0, 1):
        for place in (1, 2, 7):
            name = f"nvmlDeviceGetMemoryErrorCounter.{kind}0{place}"
            yield name, lambda k=kind, p=place: api.nvmlDeviceGetMemoryErrorCounter(handle, k, 0, p)
    for counter in range(3):
        name = f"nvmlDeviceGetNvLinkErrorCounter.link0.{counter}"
        yield name, lambda c=counter: api.nvmlDeviceGetNvLinkErrorCounter(handle, 0, c)
    yield "nvmlDeviceGetNvLinkState.0", lambda: api.nvmlDeviceGetNvLinkState(handle, 0)
    for name in ("TotalEnergyConsumption", "PcieReplayCounter", "PowerUsage", "UtilizationRates", "EccMode"):
        yield f"nvmlDeviceGet{name}", lambda name=name: getattr(api, f"nvmlDeviceGet{name}")(handle)
    fields = {**FIELDS, **OTHER_FIELDS}
    for name, number in fields.items():
        scope = 0xFFFFFFFF if name.startswith("nvlink") else 0
        yield f"field {number} {name}", lambda n=number, s=scope: field(api, handle, n, s)
    several = [(number, 0) for number in fields.values()]
    yield "nvmlDeviceGetFieldValues of all at once", lambda: len(api.nvmlDeviceGetFieldValues(handle, several))


def field(api: Any, handle: Any, number: int, scope: int) -> Any:
    """Return the value of a field with its type, and with the driver's own time for it in microseconds."""
    (value,) = api.nvmlDeviceGetFieldValues(handle, [(number, scope)])
    if value.nvmlReturn:
        raise api.NVMLError(value.nvmlReturn)
    return {"value": number_of(value), "type": value.valueType, "took_us": value.latencyUsec}


def answer_and_cost(api: Any, call: Callable[[], Any]) -> dict[str, Any]:
    """Return the answer or the reason for its absence, and the cost of up to USES calls in µs."""
    costs, answer, error = [], None, ""
    for _ in range(USES):
        start = time.perf_counter_ns()
        try:
            answer = call()
        except api.NVMLError as refused:
            error = str(refused)
        except AttributeError as missing:
            error = f"not in pynvml: {missing}"
        costs.append((time.perf_counter_ns() - start) / 1e3)
        if error:
            break
    sorted_costs = sorted(costs)
    out: dict[str, Any] = {"error": error} if error else {"answer": plain(answer)}
    p95 = sorted_costs[int(len(sorted_costs) * 0.95)]
    return out | {"median_us": round(statistics.median(costs), 1), "p95_us": round(p95, 1)}


def plain(answer: Any) -> Any:
    """Return the answer in a form that JSON can hold."""
    if isinstance(answer, (int, float, str, list, dict)):
        return answer
    return {name: getattr(answer, name) for name, *_ in getattr(answer, "_fields_", ())} or repr(answer)


def steadiness(seconds: int) -> dict[str, Any]:
    """Return the rates of the first GPU in the collector's sweeps with their spread, and the costs of the calls.

    "NAME by one time" is the rate by the one time of each reading, instead of the times of each counter.
    """
    clock = Clock()
    collector = GpuCollector(clock, every_s=EVERY_S)
    found: dict[str, list[float]] = {name: [] for name in (*RATES, *(f"{name} by one time" for name in COUNTERS))}
    try:
        from iotop_ai.model.gpu.state import gpu_rates

        collector.wait(60.0)
        before = collector.read()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(EVERY_S)
            after = collector.read()
            for uuid, rate in gpu_rates(before, after, None).items():
                old, new = before.get(uuid), after[uuid]
                if old is None or old.value is None or new.value is None or old.at_ns == new.at_ns:
                    continue
                for name in RATES:
                    found[name] += [value] if (value := getattr(rate, name)) is not None else []
                span = ((new.at_ns or 0) - (old.at_ns or 0)) / 1e9
                for name in COUNTERS:
                    old_value, new_value = getattr(old.value, name), getattr(new.value, name)
                    found[f"{name} by one time"] += (
                        [(new_value - old_value) / span] if None not in (old_value, new_value) else []
                    )
                break
            before = after
        costs = {name: cost._asdict() for name, cost in sorted(collector.costs().items())}
    finally:
        collector.close()
    return {"rates": {name: spread(values) for name, values in found.items() if values}, "costs": costs}


def spread(values: list[float]) -> dict[str, float | int | None]:
    """Return the median, and the largest and the root mean square deviation from it, as shares of the median."""
    middle = statistics.median(values)
    deviations = [abs(value / middle - 1) for value in values] if middle else []
    return {
        "n": len(values),
        "median": middle,
        "largest": round(max(deviations), 5) if deviations else None,
        "deviation": round(statistics.fmean(d * d for d in deviations) ** 0.5, 5) if deviations else None,
    }


def copying(seconds: int) -> dict[str, Any]:
    """Return the same report as ``steadiness`` under a steady copy to the GPU, with the true rate of the copy.

    Returns the error output of the copying process as "error" if it fails.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.gpu_copy", str(seconds + 10)], cwd=REPO, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    time.sleep(5.0)
    if child.poll() is not None:
        return {"error": child.communicate()[1].strip()}
    report = steadiness(seconds)
    child.terminate()
    lines = [tuple(map(int, line.split())) for line in child.communicate()[0].splitlines() if line.count(" ") == 1]
    pairs = list(itertools.pairwise(lines))
    report["copied_bytes_per_s"] = spread([(b - a) / (t - s) * 1e9 for (s, a), (t, b) in pairs]) if pairs else None
    return report


def main() -> int:
    """Print the report; return 0, or 2 without a driver."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    seconds = parser.parse_args().seconds
    try:
        import pynvml as api

        api.nvmlInit()
    except ImportError:
        print("unknown: pynvml is not installed for this Python", file=sys.stderr)
        return 2
    except api.NVMLError as error:
        print(f"unknown: NVML: {error}", file=sys.stderr)
        return 2
    handle = api.nvmlDeviceGetHandleByIndex(0)
    out = {
        "gpu": api.nvmlDeviceGetName(handle),
        "driver": api.nvmlSystemGetDriverVersion(),
        "calls": {name: answer_and_cost(api, call) for name, call in calls(api, handle)},
        "idle": steadiness(seconds),
        "copying": copying(seconds),
    }
    print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
