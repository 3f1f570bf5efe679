"""The rule about GPU faults, caused by the board or by a program."""

from __future__ import annotations

from typing import Any

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.gpu.detail import GpuDetail, recovery_of
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.gpu.xid import OF_THE_BOARD, OF_THE_PROGRAM, REPAIRED
from iotop_ai.model.machine.kernel_log import DeviceErrors
from iotop_ai.model.reading import Reading, Status

SURE = 0.95
LESS_SURE = 0.75
"""The confidence for a fault, and for uncorrected memory errors alone."""
_FIELDS = {"lost": "answers", "reset": "log_errors", "ecc": "ecc_uncorrected"}
"""The name of a fault's figure in the evidence, where it differs from the name of the fault."""
_YES_OR_NO = ("rows_failed", "sram_exceeded")
"""The faults, besides "lost", whose figure is a bool."""
_XID_CURES = {54: "check_gpu_power", 64: "replace_gpu", 79: "reboot_node"}
"""The advice for some Xids of the board."""
_RECOVERY = {1: "reset_gpu", 2: "reboot_node", 3: "drain_gpu", 4: "drain_gpu", 6: "reset_gpu", 7: "reboot_node"}
"""The advice for each recovery action of the driver (nvmlDeviceGpuRecoveryAction_t)."""


def gpu_breaks(facts: Facts) -> tuple[Claim, ...]:
    """A GPU is gone, reports a fault, or waits for its recovery.

    Claim: gpu_fault: training on it stops, or its results cannot be trusted.
    Evidence: whether the GPU answers; Xid events; hangs, resets and PCIe errors in the kernel's log (AMD, Intel);
        uncorrected memory errors, failed row remaps, too many SRAM errors; a recovery that the driver asks for, through
        NVML or by Xid 154 in the kernel's log.
    Threshold: any of these, reported at once. A fault of the board stays until it is acknowledged or the monitor
        restarts. A hang, reset or PCIe error in the kernel's log, an Xid that the program caused (13, 31, 43, 45, 94)
        and any other Xid count for 10 minutes. A repaired error (Xid 63, 92) shows on the GPU's own page only. A fault
        of a GPU that answers and has no process is shown beside the verdict while a job runs without that GPU. Source:
        NVIDIA's catalogue of Xids.
    Blind spot: it misses events and losses of GPUs from before the monitor started.
    """
    out = []
    details = facts.snapshot.gpu_slow.value or {}
    for number, (uuid, reading) in enumerate((facts.snapshot.gpu.value or {}).items()):
        detail = details.get(uuid)
        finding = _fault(facts, uuid, number, reading, None if detail is None else detail.value)
        if finding is not None:
            out.append(Claim(finding, 1.0, 1, 1, at_once=True))
    return tuple(out)


def _xid(state: GpuState, now_ns: int, limits: Thresholds) -> int | None:
    """The last Xid, if it still counts; None if the error was repaired, or is too old and not a fault of the board."""
    number, at_ns = state.last_xid, state.last_xid_at_ns
    if number is None or number in REPAIRED:
        return None
    is_recent = at_ns is None or now_ns - at_ns < limits.xid_program_s * 1e9
    return number if number in OF_THE_BOARD or is_recent else None


def _xid_cure(xid: int, recovery: int | None) -> str:
    """The advice for an Xid: the specific cure if there is one; else, for the board, the driver's recovery action."""
    if xid in _XID_CURES:
        return _XID_CURES[xid]
    if xid in OF_THE_BOARD:
        return _RECOVERY.get(recovery or 0, "reset_gpu")
    return "debug_kernel" if xid in OF_THE_PROGRAM else "look_xid_up"


def _log_errors(facts: Facts, bus_id: str) -> DeviceErrors | None:
    """The recent errors of the GPU at a PCI address, from the kernel's log; None if there are none.

    NVML writes the domain of the address with eight digits, the log with at least four.
    """
    log = facts.snapshot.kernel.value
    domain, _, rest = bus_id.lower().partition(":")
    address = f"{domain.lstrip('0').zfill(4)}:{rest}"
    errors = None if log is None else log.errors.get(address)
    if errors is None or facts.snapshot.at_ns - errors.at_ns >= facts.limits.error_memory_s * 1e9:
        return None
    return errors


def _fault(
    facts: Facts, uuid: str, number: int, reading: Reading[GpuState], detail: GpuDetail | None
) -> Finding | None:
    """The finding about the GPU's gravest fault; None if it has none.

    number: the number that names the GPU if it does not answer.
    """
    state, now_ns = reading.value, facts.snapshot.at_ns
    if state is None:
        if reading.status is not Status.FAILED:
            return None
        return _finding(facts, uuid, f"GPU {number}", "lost", 0, SURE, True, "reboot_node", reason=reading.reason)
    name = f"GPU {state.number}"
    # A GPU that answers and has no process does not slow the jobs on other GPUs.
    # In a container the driver hides the processes, but a GPU in use is known by its load or its memory.
    listed = bool(state.processes) or any(uuid in job.job.gpus for job in facts.jobs)
    in_use = not facts.jobs or listed or uuid in facts.gpu.uuids
    xid = _xid(state, now_ns, facts.limits)
    xid_finding = None
    if xid is not None:
        board = xid in OF_THE_BOARD
        ago = None if state.last_xid_at_ns is None else max(0.0, (now_ns - state.last_xid_at_ns) / 1e9)
        template = _xid_cure(xid, recovery_of(state, detail))
        xid_finding = _finding(
            facts, uuid, name, "xid", xid, SURE, board, template, in_use=in_use, ago=ago, state=state
        )
        if board:
            return xid_finding
    log_errors = _log_errors(facts, state.bus_id)
    if log_errors is not None:
        ago = max(0.0, (now_ns - log_errors.at_ns) / 1e9)
        more: dict[str, Any] = {"in_use": in_use, "reason": log_errors.what, "ago": ago, "state": state}
        return _finding(facts, uuid, name, "reset", log_errors.lines, SURE, True, "read_gpu_log", **more)
    if detail is not None and detail.rows_failed:
        return _finding(facts, uuid, name, "rows_failed", 0, SURE, True, "replace_gpu", in_use=in_use, state=state)
    if detail is not None and detail.sram_exceeded:
        return _finding(facts, uuid, name, "sram_exceeded", 0, SURE, True, "replace_gpu", in_use=in_use, state=state)
    if recovery := recovery_of(state, detail):
        template = _RECOVERY.get(recovery, "drain_gpu")
        return _finding(facts, uuid, name, "recovery", recovery, SURE, True, template, in_use=in_use, state=state)
    if xid_finding is None and detail is not None and detail.ecc_uncorrected:
        errors = detail.ecc_uncorrected
        return _finding(facts, uuid, name, "ecc", errors, LESS_SURE, False, "reset_gpu", in_use=in_use, state=state)
    return xid_finding


def _finding(
    facts: Facts,
    uuid: str,
    name: str,
    fault: str,
    figure: int,
    certainty: float,
    urgent: bool,
    template: str,
    *,
    in_use: bool = True,
    reason: str = "",
    ago: float | None = None,
    state: GpuState | None = None,
) -> Finding:
    """The finding about one fault.

    figure: the Xid, the recovery action or the number of errors; 0 for other faults. template: the advice. in_use:
    whether the fault may slow a job. ago: the seconds since the fault. state: the GPU's state; None if it does not
    answer.
    """
    job = next((job_facts for job_facts in facts.jobs if uuid in job_facts.job.gpus), None)
    args: Args = (
        *(() if job is None else (("job", job.job.name), ("job_pid", float(job.job.key.pid)))),
        ("gpu", name),
        ("gpus", 1.0),
        ("gpus_all", float(facts.gpu.total)),
        ("what", fault),
        ("xid", float(figure) if fault == "xid" else None),
        ("errors", float(figure) if fault in ("ecc", "reset") else None),
        ("recovery", float(figure) if fault == "recovery" else None),
        ("reason", reason),
        ("ago_s", ago),
        ("bus", "" if state is None else state.bus_id),
    )
    short = name.removeprefix("GPU ")
    field = _FIELDS.get(fault, fault)
    value = 0.0 if fault == "lost" else 1.0 if fault in _YES_OR_NO else float(figure)
    unit = "bool" if fault == "lost" or fault in _YES_OR_NO else "count"
    severity = Severity.CRITICAL if urgent else Severity.WARNING
    return Finding(
        "gpu_fault",
        severity if in_use else Severity.INFO,
        certainty,
        uuid,
        args,
        (Evidence(f"gpus.{short}.{field}", value, unit, 1.0 if fault == "lost" else 0.0),),
        advice=(Advice(template, args),),
    )
