"""Capture NVML's answers on this machine: every reply and the cost of every call, when idle and under load.

    python -m tests.capture_gpu --out tests/data/gpu/NAME.json [--regimes idle matmul small starved copy] [--seconds 6]

UUIDs and PCI addresses are replaced; serial numbers are not captured. Every load but "idle" needs torch with CUDA. The
capture also has the lines that ``nvidia-smi --query-gpu`` printed under each load.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml as nv

SMI_FIELDS = (
    "timestamp,index,name,utilization.gpu,utilization.memory,memory.used,memory.total,memory.reserved,temperature.gpu,"
    "temperature.memory,power.draw,power.draw.average,power.draw.instant,enforced.power.limit,clocks.sm,clocks.mem,"
    "clocks.max.sm,pstate,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,"
    "clocks_event_reasons.active,fan.speed,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total"
)

FIELDS = {
    "memory_temp": 82, "perf_policy_power": 74, "perf_policy_sync_boost": 76, "pcie_replay": 94, "energy": 83,
    "power_average": 185, "power_instant": 186, "power_min_limit": 187, "power_max_limit": 188,
    "power_current_limit": 190,
    "tlimit_shutdown": 193, "tlimit_slowdown": 194, "tlimit_mem_max": 195, "tlimit_gpu_max": 196,
    "pcie_count_tx": 197, "pcie_count_rx": 198, "nvlink_tx": 138, "nvlink_rx": 139, "recovery_action": 230,
    "reason_sw_therm": 269, "reason_hw_therm": 270, "reason_hw_power_brake": 271, "remap_cor": 142, "remap_unc": 143,
    "remap_pending": 144, "remap_failure": 145,
}  # fmt: skip

GPM = {
    "graphics": 1, "sm_util": 2, "sm_occupancy": 3, "integer": 4, "tensor": 5, "hmma": 7, "dram_bw": 10, "fp64": 11,
    "fp32": 12, "fp16": 13, "pcie_tx": 20, "pcie_rx": 21, "nvlink_rx": 60, "nvlink_tx": 61,
}  # fmt: skip


def calls(handle: Any, last_seen_us: int) -> dict[str, Callable[[], Any]]:
    """Every getter that the program can use, by name.

    last_seen_us: NVML returns only samples that are newer than this time.
    """
    return {
        "UtilizationRates": lambda: nv.nvmlDeviceGetUtilizationRates(handle),
        "Samples.gpu": lambda: nv.nvmlDeviceGetSamples(handle, nv.NVML_GPU_UTILIZATION_SAMPLES, last_seen_us),
        "Samples.power": lambda: nv.nvmlDeviceGetSamples(handle, nv.NVML_TOTAL_POWER_SAMPLES, last_seen_us),
        "MemoryInfo": lambda: nv.nvmlDeviceGetMemoryInfo(handle),
        "MemoryInfo_v2": lambda: nv.nvmlDeviceGetMemoryInfo(handle, version=nv.nvmlMemory_v2),
        "BAR1MemoryInfo": lambda: nv.nvmlDeviceGetBAR1MemoryInfo(handle),
        "Temperature": lambda: nv.nvmlDeviceGetTemperature(handle, nv.NVML_TEMPERATURE_GPU),
        "TemperatureV": lambda: nv.nvmlDeviceGetTemperatureV(handle, nv.NVML_TEMPERATURE_GPU),
        "MarginTemperature": lambda: nv.nvmlDeviceGetMarginTemperature(handle),
        **{
            f"TemperatureThreshold.{i}": (lambda i=i: nv.nvmlDeviceGetTemperatureThreshold(handle, i)) for i in range(4)
        },
        "FanSpeed": lambda: nv.nvmlDeviceGetFanSpeed(handle),
        "PowerUsage": lambda: nv.nvmlDeviceGetPowerUsage(handle),
        "EnforcedPowerLimit": lambda: nv.nvmlDeviceGetEnforcedPowerLimit(handle),
        "PowerManagementDefaultLimit": lambda: nv.nvmlDeviceGetPowerManagementDefaultLimit(handle),
        "TotalEnergyConsumption": lambda: nv.nvmlDeviceGetTotalEnergyConsumption(handle),
        "ClockInfo.sm": lambda: nv.nvmlDeviceGetClockInfo(handle, nv.NVML_CLOCK_SM),
        "ClockInfo.mem": lambda: nv.nvmlDeviceGetClockInfo(handle, nv.NVML_CLOCK_MEM),
        "MaxClockInfo.sm": lambda: nv.nvmlDeviceGetMaxClockInfo(handle, nv.NVML_CLOCK_SM),
        "MaxClockInfo.mem": lambda: nv.nvmlDeviceGetMaxClockInfo(handle, nv.NVML_CLOCK_MEM),
        "PerformanceState": lambda: nv.nvmlDeviceGetPerformanceState(handle),
        "ClocksEventReasons": lambda: nv.nvmlDeviceGetCurrentClocksEventReasons(handle),
        "ClocksThrottleReasons": lambda: nv.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        "CurrPcieLinkGeneration": lambda: nv.nvmlDeviceGetCurrPcieLinkGeneration(handle),
        "CurrPcieLinkWidth": lambda: nv.nvmlDeviceGetCurrPcieLinkWidth(handle),
        "MaxPcieLinkGeneration": lambda: nv.nvmlDeviceGetMaxPcieLinkGeneration(handle),
        "MaxPcieLinkWidth": lambda: nv.nvmlDeviceGetMaxPcieLinkWidth(handle),
        "GpuMaxPcieLinkGeneration": lambda: nv.nvmlDeviceGetGpuMaxPcieLinkGeneration(handle),
        "PcieThroughput.tx": lambda: nv.nvmlDeviceGetPcieThroughput(handle, nv.NVML_PCIE_UTIL_TX_BYTES),
        "PcieThroughput.rx": lambda: nv.nvmlDeviceGetPcieThroughput(handle, nv.NVML_PCIE_UTIL_RX_BYTES),
        "PcieReplayCounter": lambda: nv.nvmlDeviceGetPcieReplayCounter(handle),
        "TotalEccErrors.corrected.volatile": lambda: nv.nvmlDeviceGetTotalEccErrors(handle, 0, 0),
        "TotalEccErrors.uncorrected.volatile": lambda: nv.nvmlDeviceGetTotalEccErrors(handle, 1, 0),
        "TotalEccErrors.uncorrected.aggregate": lambda: nv.nvmlDeviceGetTotalEccErrors(handle, 1, 1),
        "RemappedRows": lambda: nv.nvmlDeviceGetRemappedRows(handle),
        "RetiredPages.sbe": lambda: nv.nvmlDeviceGetRetiredPages(handle, 0),
        "MigMode": lambda: nv.nvmlDeviceGetMigMode(handle),
        "MaxMigDeviceCount": lambda: nv.nvmlDeviceGetMaxMigDeviceCount(handle),
        "ComputeRunningProcesses": lambda: nv.nvmlDeviceGetComputeRunningProcesses(handle),
        "GraphicsRunningProcesses": lambda: nv.nvmlDeviceGetGraphicsRunningProcesses(handle),
        "MPSComputeRunningProcesses": lambda: nv.nvmlDeviceGetMPSComputeRunningProcesses(handle),
        "ProcessUtilization": lambda: nv.nvmlDeviceGetProcessUtilization(handle, last_seen_us),
        "ComputeMode": lambda: nv.nvmlDeviceGetComputeMode(handle),
        "PersistenceMode": lambda: nv.nvmlDeviceGetPersistenceMode(handle),
        "NumaNodeId": lambda: nv.nvmlDeviceGetNumaNodeId(handle),
        "MinorNumber": lambda: nv.nvmlDeviceGetMinorNumber(handle),
        "PciInfo": lambda: nv.nvmlDeviceGetPciInfo(handle),
        "Name": lambda: nv.nvmlDeviceGetName(handle),
        "Architecture": lambda: nv.nvmlDeviceGetArchitecture(handle),
        "CudaComputeCapability": lambda: nv.nvmlDeviceGetCudaComputeCapability(handle),
        "CpuAffinity": lambda: list(nv.nvmlDeviceGetCpuAffinity(handle, 4)),
        "NvLinkState.0": lambda: nv.nvmlDeviceGetNvLinkState(handle, 0),
        "SupportedEventTypes": lambda: nv.nvmlDeviceGetSupportedEventTypes(handle),
        "GpmQueryDeviceSupport": lambda: nv.nvmlGpmQueryDeviceSupport(handle),
        **{f"Field.{name}": (lambda i=i: field(handle, i)) for name, i in FIELDS.items()},
        "FieldValues.all": lambda: [f.nvmlReturn for f in nv.nvmlDeviceGetFieldValues(handle, list(FIELDS.values()))],
    }


def field(handle: Any, number: int) -> Any:
    """The value, type and latency of one field. Raises NVMLError for a field that cannot be read."""
    value = nv.nvmlDeviceGetFieldValues(handle, [number])[0]
    if value.nvmlReturn:
        raise nv.NVMLError(value.nvmlReturn)
    names = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
    return {
        "type": value.valueType,
        "value": getattr(value.value, names[value.valueType]),
        "latency_us": value.latencyUsec,
    }


def plain(value: Any, depth: int = 0) -> Any:
    """Convert a reply to values that JSON can hold."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return [plain(v, depth + 1) for v in value[:24]]
    if isinstance(value, dict):
        return {k: plain(v, depth + 1) for k, v in value.items()}
    if hasattr(value, "_fields_") and depth < 4:
        return {name: plain(getattr(value, name), depth + 1) for name, *_ in value._fields_}
    if isinstance(value, ctypes.Array):
        return [plain(v, depth + 1) for v in list(value)[:24]]
    if hasattr(value, "__dict__") and depth < 4:
        return {k: plain(v, depth + 1) for k, v in vars(value).items() if not k.startswith("_")}
    return str(value)


def ask(call: Callable[[], Any], times: int) -> dict[str, Any]:
    """The reply or the error of a call, and the least, median and 95th percentile of its duration in µs."""
    costs, reply, error = [], None, None
    for _ in range(times):
        start = time.perf_counter_ns()
        try:
            reply = call()
        except nv.NVMLError as failed:
            error = f"{type(failed).__name__}({failed.value})"
        except (AttributeError, TypeError) as failed:
            error = f"{type(failed).__name__}: {failed}"
        costs.append((time.perf_counter_ns() - start) / 1000)
        if costs[-1] > 15_000 and len(costs) >= 5:
            break
    costs.sort()
    out: dict[str, Any] = {
        "us": [round(v, 1) for v in (costs[0], statistics.median(costs), costs[int(len(costs) * 0.95)])]
    }
    if error:
        out["error"] = error
    else:
        out["reply"] = plain(reply)
    return out


def gpm(handle: Any, wait_s: float = 0.3) -> dict[str, Any]:
    """The metrics of one pair of GPM samples, and the cost of the two calls."""
    first, second = nv.nvmlGpmSampleAlloc(), nv.nvmlGpmSampleAlloc()
    try:
        start = time.perf_counter_ns()
        nv.nvmlGpmSampleGet(handle, first)
        sampled = time.perf_counter_ns()
        time.sleep(wait_s)
        nv.nvmlGpmSampleGet(handle, second)
        request = nv.c_nvmlGpmMetricsGet_t()
        request.version, request.numMetrics, request.sample1, request.sample2 = (
            nv.NVML_GPM_METRICS_GET_VERSION,
            len(GPM),
            first,
            second,
        )
        for i, number in enumerate(GPM.values()):
            request.metrics[i].metricId = number
        begin = time.perf_counter_ns()
        nv.nvmlGpmMetricsGet(request)
        done = time.perf_counter_ns()
        values = {
            name: request.metrics[i].value
            if request.metrics[i].nvmlReturn == 0
            else f"error {request.metrics[i].nvmlReturn}"
            for i, name in enumerate(GPM)
        }
        return {"sample_us": (sampled - start) / 1000, "metrics_us": (done - begin) / 1000, "values": values}
    except nv.NVMLError as failed:
        return {"error": f"{type(failed).__name__}({failed.value})"}
    finally:
        nv.nvmlGpmSampleFree(first)
        nv.nvmlGpmSampleFree(second)


def load(regime: str, ready: Any, stop: Any) -> None:
    """Keep the GPU busy in one way until a stop is requested."""
    import torch

    big = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    small = torch.randn(64, 64, device="cuda")
    host = torch.randn(64 << 20, pin_memory=True)
    torch.cuda.synchronize()
    ready.set()
    while not stop.is_set():
        if regime == "matmul":
            for _ in range(20):
                big @ big
            torch.cuda.synchronize()
        elif regime == "small":
            for _ in range(2000):
                small @ small
            torch.cuda.synchronize()
        elif regime == "starved":
            for _ in range(10):
                big @ big
            torch.cuda.synchronize()
            time.sleep(0.1)
        elif regime == "copy":
            host.to("cuda", non_blocking=True)
            torch.cuda.synchronize()
        else:
            time.sleep(0.1)


def hide(text: str) -> str:
    """Replace the UUIDs and PCI addresses of GPUs."""
    text = re.sub(r"GPU-[0-9a-f]{8}-[0-9a-f-]{27}", "GPU-00000000-0000-0000-0000-000000000000", text)
    return re.sub(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.0", "00000000:00:00.0", text)


def capture(handle: Any, regime: str, seconds: float, times: int) -> dict[str, Any]:
    """Capture all replies under one load, with a series of the replies to fast calls."""
    child, stop = None, None
    if regime != "idle":
        spawn = multiprocessing.get_context("spawn")
        ready, stop = spawn.Event(), spawn.Event()
        child = spawn.Process(target=load, args=(regime, ready, stop), daemon=True)
        child.start()
        ready.wait(120)
    time.sleep(2.0)
    series = []
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        begin = time.perf_counter_ns()
        use = nv.nvmlDeviceGetUtilizationRates(handle)
        point = {
            "t": round(time.monotonic() - start, 3), "gpu": use.gpu, "mem": use.memory,
            "mw": nv.nvmlDeviceGetPowerUsage(handle), "mj": nv.nvmlDeviceGetTotalEnergyConsumption(handle),
            "sm_mhz": nv.nvmlDeviceGetClockInfo(handle, nv.NVML_CLOCK_SM),
        }  # fmt: skip
        point["us"] = (time.perf_counter_ns() - begin) // 1000
        series.append(point)
        time.sleep(0.5)
    smi = subprocess.run(
        ["nvidia-smi", f"--query-gpu={SMI_FIELDS}", "--format=csv"], capture_output=True, text=True, check=False
    ).stdout
    out = {
        "series": series,
        "nvidia_smi": hide(smi),
        "calls": {name: ask(call, times) for name, call in calls(handle, last_seen_us=0).items()},
        "gpm": [gpm(handle) for _ in range(3)],
    }
    if child is not None and stop is not None:
        stop.set()
        child.join(20)
    return out


def main() -> int:
    """Write the capture to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--regimes", nargs="+", default=["idle", "matmul", "small", "starved", "copy"])
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--times", type=int, default=40)
    args = parser.parse_args()
    start = time.perf_counter_ns()
    try:
        nv.nvmlInit()
    except nv.NVMLError as failed:
        print(f"unknown: no NVML here ({type(failed).__name__})", file=sys.stderr)
        return 2
    out: dict[str, Any] = {
        "init_ms": (time.perf_counter_ns() - start) / 1e6,
        "driver": nv.nvmlSystemGetDriverVersion(),
        "nvml": nv.nvmlSystemGetNVMLVersion(),
        "cuda": nv.nvmlSystemGetCudaDriverVersion_v2(),
        "count": nv.nvmlDeviceGetCount(),
        "regimes": {},
    }
    handle = nv.nvmlDeviceGetHandleByIndex(0)
    for regime in args.regimes:
        out["regimes"][regime] = capture(handle, regime, args.seconds, args.times)
        print(regime, "done", flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(hide(json.dumps(out, indent=1)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
