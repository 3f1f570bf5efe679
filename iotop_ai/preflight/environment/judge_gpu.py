"""Checks of the GPUs, their driver, and the torch of the user's Python. Pure: takes facts, returns checks.

Sources: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ (for DRIVERS: CUDA Toolkit and minimum required driver
version for minor version compatibility),
https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html (the libraries for an older driver),
the notes of CUDA 11.8, 12.8 and 13.0 (new and dropped architectures),
https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables (for CUDA_VISIBLE_DEVICES: an index or
the beginning of a UUID; the first that does not exist ends the list).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts, Torch, release
from iotop_ai.model.reading import Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.text.units import plural

DRIVERS = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
"""The oldest Linux driver that runs programs built with CUDA, for each major version of CUDA."""
INDICES = {11: "cu118", 12: "cu126", 13: "cu130"}
"""The last part of the address of torch's package index for each major version of CUDA."""
OLDEST_CUDA = {8: (11, 0), 9: (11, 8), 10: (12, 8), 11: (13, 0), 12: (12, 8)}
"""The oldest CUDA that makes programs for GPUs with this major number of the compute capability."""
BLACKWELL, BLACKWELL_INDEX = 10, "cu128"
"""GPUs with at least this major number of the compute capability cannot use torch for CUDA 12 from the index in
INDICES. They need the one in BLACKWELL_INDEX.
"""
CUDA_13_CAPABILITY = (7, 5)
"""The lowest compute capability for which CUDA 13 makes programs."""
COMPAT = "/usr/local/cuda/compat"
"""The folder of CUDA's own driver libraries, which run on an older driver."""
CUDA, ROCM, XPU = "CUDA", "ROCm", "XPU"
_INDEX = "https://download.pytorch.org/whl"
_SELECTOR = "https://pytorch.org/get-started/locally/"
"""The page with the index for ROCm, which changes with each release of torch. The index for XPU stays the same."""
OK, WARN, FAIL, UNKNOWN = State


def judge_gpu(snapshot: Snapshot, facts: HostFacts, python: PythonFacts) -> list[Check]:
    """Return checks of the driver, each GPU's faults, CUDA_VISIBLE_DEVICES, and torch's build for these GPUs."""
    readings = snapshot.gpu.value or {}
    slow_readings = snapshot.gpu_slow.value or {}
    details = {uuid: reading.value for uuid, reading in slow_readings.items() if reading.value is not None}
    driver = next((detail.driver for detail in details.values() if detail.driver), "")
    states = [reading.value for reading in readings.values() if reading.value is not None]
    nvidia = [uuid for uuid in readings if _platform_of(uuid) == CUDA]
    out = [_driver(snapshot, facts, driver, bool(nvidia))]
    for uuid, reading in readings.items():
        if reading.value is None:
            out.append(Check("gpu", f"GPU {uuid}", FAIL, reading.reason or reading.status.value, reading.remedy))
    for state in sorted(states, key=lambda state: state.number):
        out += _checks_of_gpu(state, details.get(state.uuid))
    if nvidia and (
        visible := _visible_devices(facts, nvidia, [state for state in states if _platform_of(state.uuid) == CUDA])
    ):
        out.append(visible)
    platforms = sorted({_platform_of(state.uuid) for state in states if not state.is_integrated})
    if platforms and python.torches:
        capabilities = {
            state.number: release(details[state.uuid].compute_capability)
            for state in states
            if state.uuid in details and details[state.uuid].compute_capability
        }
        out.append(_build(python, python.torches[0], driver, platforms, capabilities, facts.compat_driver))
    return out


def _platform_of(uuid: str) -> str:
    """Return the platform for which torch must be built, such as "CUDA" or "ROCm". It depends on the GPU's maker."""
    return ROCM if uuid.startswith("AMD-") else XPU if uuid.startswith("Intel-") else CUDA


def _driver(snapshot: Snapshot, facts: HostFacts, driver: str, nvidia: bool) -> Check:
    reading = snapshot.gpu
    if reading.value and (nvidia or not facts.nvidia_cards):
        has_pcie = any(gpu.value is not None and gpu.value.pcie_width is not None for gpu in reading.value.values())
        if has_pcie and driver and snapshot.host.container and not facts.uvm:
            text = "/dev/nvidia-uvm is missing in this container: CUDA cannot start"
            return Check("gpu", "GPU driver", FAIL, text, "docker run --gpus all; on the host: nvidia-modprobe -u -c=0")
        return Check("gpu", "GPU driver", OK, f"{driver or 'it answers'}, {plural(len(reading.value), 'GPU')}")
    if reading.status is Status.PENDING:
        command = "nvidia-smi" if facts.nvidia_cards else "amd-smi, rocm-smi or xpu-smi"
        return Check("gpu", "GPU driver", UNKNOWN, "the driver did not answer in time", command)
    if facts.nvidia_cards:
        text = f"{plural(facts.nvidia_cards, 'NVIDIA GPU')} on the PCI bus: {reading.reason or 'the driver lists none'}"
        remedy = "docker run --gpus all (nvidia-container-toolkit)" if snapshot.host.container else "modprobe nvidia"
        return Check("gpu", "GPU driver", FAIL, text, reading.remedy or remedy)
    if reading.status is Status.FAILED:
        return Check("gpu", "GPU driver", FAIL, reading.reason, reading.remedy)
    return Check("gpu", "GPU driver", OK, "no GPU on this machine")


def _checks_of_gpu(state: GpuState, detail: GpuDetail | None) -> list[Check]:
    """Return a check for each fault of a GPU's link, power limit, memory and compute mode."""
    out = []
    lanes, number = state.pcie_width, state.number
    possible_lanes = _smallest(
        state.pcie_max_width, detail and detail.device_max_width, detail and detail.slot_max_width
    )
    card_lanes = _smallest(state.pcie_max_width, detail and detail.device_max_width)
    if lanes and possible_lanes is not None and lanes < possible_lanes:
        text = f"PCIe x{lanes} of x{possible_lanes}: copies to the GPU take {possible_lanes // lanes} times as long"
        out.append(
            Check("gpu", f"GPU {number} link", WARN, text, "reseat the card or its riser; sudo dmesg | grep -i pcie")
        )
    elif lanes and card_lanes is not None and lanes < card_lanes:
        text = f"PCIe x{lanes}: the slot has no more lanes; the card could use x{card_lanes}"
        out.append(Check("gpu", f"GPU {number} link", WARN, text, "move the card to a wider slot"))
    if detail is None:
        return out
    limit, default = detail.limit_mw or state.power_limit_mw, detail.default_limit_mw
    if limit is not None and default is not None and limit < default:
        text = f"limited to {limit / 1000:.0f} W of {default / 1000:.0f} W: its clocks fall under load"
        remedy = "raise its power limit, unless it is intended"
        if state.is_nvidia:
            remedy = f"sudo nvidia-smi -i {number} -pl {default / 1000:.0f}"
        out.append(Check("gpu", f"GPU {number} power", WARN, text, remedy))
    if detail.rows_pending or detail.pages_pending:
        text = "damaged memory is replaced at the GPU's next reset"
        reset = f"when GPU {number} is idle: sudo nvidia-smi -i {number} --gpu-reset"
        out.append(Check("gpu", f"GPU {number} memory", WARN, text, reset))
    if detail.compute_mode == 2:  # NVML_COMPUTEMODE_PROHIBITED
        text = "compute mode PROHIBITED: CUDA programs cannot use it"
        out.append(Check("gpu", f"GPU {number} mode", FAIL, text, f"sudo nvidia-smi -i {number} -c DEFAULT"))
    return out


def _smallest(*values: int | None) -> int | None:
    return min((value for value in values if value), default=None)


def _visible_devices(facts: HostFacts, uuids: Sequence[str], states: Sequence[GpuState]) -> Check | None:
    """Return a check of the NVIDIA GPUs that CUDA_VISIBLE_DEVICES makes visible; None if the variable is not set.

    uuids: the UUIDs of all GPUs. states: the states of the GPUs that answer.
    """
    name = "CUDA_VISIBLE_DEVICES"
    value = facts.variables.get(name)
    if value is None:
        return None
    entries = [word.strip() for word in value.split(",")]
    text, remedy = f"{value!r}", f"export {name}={','.join(map(str, range(len(uuids))))}"
    if _ends_list(entries[0]):
        return Check("gpu", name, FAIL, f"{text} hides every GPU", f"unset {name}")
    mig = [instance.uuid for state in states for instance in state.instances or ()]
    no_mig = len(states) == len(uuids) and all(state.mig is False for state in states)
    for position, entry in enumerate(entries):
        if _ends_list(entry):
            break
        if int(entry) < len(uuids) if entry.isdecimal() else _is_uuid_prefix(entry, (*uuids, *mig)):
            continue
        # NVML lists only one compute instance of each GPU instance, so the MIG device may exist all the same.
        if entry.startswith("MIG-") and not no_mig:
            return Check("gpu", name, UNKNOWN, f"{text}: whether {entry} exists is unknown", "nvidia-smi -L")
        wrong = f"GPU {entry}" if entry.isdecimal() else entry
        effect = "and CUDA ignores it and every entry after it" if position else "so CUDA sees no GPU"
        return Check("gpu", name, FAIL, f"{text}: {wrong} does not exist, {effect}", remedy)
    return Check("gpu", name, OK, text)


def _ends_list(entry: str) -> bool:
    """Whether this entry ends the list, because it is empty or negative, such as -1."""
    return not entry or entry.startswith("-")


def _is_uuid_prefix(entry: str, uuids: Sequence[str]) -> bool:
    """Whether this entry is one of these UUIDs, or the beginning of one."""
    return entry.startswith(("GPU-", "MIG-")) and any(uuid.startswith(entry) for uuid in uuids)


def _build(
    python: PythonFacts,
    torch: Torch,
    driver: str,
    platforms: Sequence[str],
    capabilities: Mapping[int, tuple[int, ...]],
    compat_driver: str,
) -> Check:
    """Return a check of torch's build against the GPUs and the driver.

    platforms: the platforms of the GPUs in this machine. capabilities: the compute capability of each NVIDIA GPU, by
    the GPU's number. compat_driver: the version of CUDA's own driver libraries, which run on an older driver.
    """
    pip = f"{python.pip_install} --force-reinstall torch --index-url {_INDEX}"
    platform = CUDA if torch.cuda else ROCM if torch.hip else XPU if "+xpu" in torch.version else ""
    installed = release(driver)
    if platform not in platforms:
        text = f"torch {torch.version or '?'} is built without {' or '.join(platforms)}: it trains on the CPU"
        remedy = f"choose ROCm at {_SELECTOR}"
        if platforms[0] != ROCM:
            remedy = f"{pip}/{'xpu' if platforms[0] == XPU else _cuda_index(installed, capabilities)}"
        return Check("gpu", "torch build", FAIL, text, remedy)
    if platform != CUDA:
        return Check("gpu", "torch build", OK, f"torch {torch.version} for {platform} {torch.hip}".rstrip())
    built = release(torch.cuda)
    needed = DRIVERS.get(built[0]) if built else None
    if needed is None or not installed:
        return Check("gpu", "torch build", UNKNOWN, f"torch for CUDA {torch.cuda}, driver {driver or 'unknown'}")
    old = None
    if installed < needed:
        older = f", or {pip}/{_cuda_index(installed, capabilities)}" if installed >= DRIVERS[11] else ""
        old = _old_driver(torch, needed, driver, compat_driver, f"upgrade the driver{older}")
        if old.state is FAIL:
            return old
    unfit = [number for number, capability in sorted(capabilities.items()) if not _makes_programs(built, capability)]
    if unfit:
        named = ", ".join(f"GPU {number} ({'.'.join(map(str, capabilities[number]))})" for number in unfit)
        text = f"torch is built for CUDA {torch.cuda}, which makes no programs for the compute capability of {named}"
        # A machine may have an old GPU for its display only.
        state = FAIL if len(unfit) == len(capabilities) else WARN
        remedy = f"{pip}/{_cuda_index(installed, {number: capabilities[number] for number in unfit})}"
        return Check("gpu", "torch build", state, text, remedy)
    return old or Check("gpu", "torch build", OK, f"torch {torch.version} for CUDA {torch.cuda}, driver {driver}")


def _old_driver(torch: Torch, needed: tuple[int, ...], driver: str, compat_driver: str, upgrade: str) -> Check:
    """Return the check of a torch that needs a newer driver. upgrade: the remedy."""
    oldest = ".".join(f"{part:02}" if at else str(part) for at, part in enumerate(needed))
    text = f"torch is built for CUDA {torch.cuda}, which needs driver {oldest} or newer; the driver is {driver}"
    if release(compat_driver) < needed:
        return Check("gpu", "torch build", FAIL, text, upgrade)
    text += f": it runs on data-centre GPUs only, through the libraries of driver {compat_driver} in {COMPAT}"
    return Check("gpu", "torch build", WARN, text, f"if torch.cuda.is_available() is False: {upgrade}")


def _makes_programs(cuda: tuple[int, ...], capability: tuple[int, ...]) -> bool:
    """Whether a version of CUDA makes programs for GPUs of a compute capability."""
    if cuda[0] >= 13 and capability < CUDA_13_CAPABILITY:
        return False
    return len(cuda) < 2 or cuda[:2] >= OLDEST_CUDA.get(capability[0], (0, 0))


def _cuda_index(driver: tuple[int, ...], capabilities: Mapping[int, tuple[int, ...]]) -> str:
    """Return the last part of the address of torch's index for a driver and the compute capabilities of the GPUs."""
    cuda = next((major for major in (13, 12, 11) if driver >= DRIVERS[major]), 12)
    if cuda == 13 and any(capability < CUDA_13_CAPABILITY for capability in capabilities.values()):
        cuda = 12
    if cuda == 12 and any(capability[0] >= BLACKWELL for capability in capabilities.values()):
        return BLACKWELL_INDEX
    return INDICES[cuda]
