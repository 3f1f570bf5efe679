"""Checks of the GPUs, their driver, and the torch of the user's Python. Pure: takes facts, returns checks.

Sources: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ (for DRIVERS: CUDA Toolkit and minimum required driver
version for minor version compatibility),
https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables (for CUDA_VISIBLE_DEVICES: an index or
the beginning of a UUID; the first that does not exist ends the list).
"""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts, Torch, release
from iotop_ai.model.reading import Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.text.units import plural

DRIVERS = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
"""The oldest Linux driver that runs programs built with a CUDA of this major version."""
INDICES = {11: "cu118", 12: "cu126", 13: "cu130"}
"""The last part of the address of torch's package index for each major version of CUDA."""
CUDA, ROCM, XPU = "CUDA", "ROCm", "XPU"
_INDEX = "https://download.pytorch.org/whl"
_SELECTOR = "https://pytorch.org/get-started/locally/"
"""The page with the index for ROCm, which changes with each release of torch. The index for XPU stays the same."""
OK, WARN, FAIL, UNKNOWN = State


def judge_gpu(snapshot: Snapshot, facts: HostFacts, python: PythonFacts) -> list[Check]:
    """Return checks of the driver, of each GPU with a fault, of hidden GPUs, and of torch's build for these GPUs."""
    found = snapshot.gpu.value or {}
    details = {uuid: one.value for uuid, one in (snapshot.gpu_slow.value or {}).items() if one.value is not None}
    driver = next((one.driver for one in details.values() if one.driver), "")
    states = [one.value for one in found.values() if one.value is not None]
    nvidia = [uuid for uuid in found if _platform_of(uuid) == CUDA]
    out = [_driver(snapshot, facts, driver, bool(nvidia))]
    for uuid, one in found.items():
        if one.value is None:
            out.append(Check("gpu", f"GPU {uuid}", FAIL, one.reason or one.status.value, one.remedy))
    for state in sorted(states, key=lambda one: one.number):
        out += _checks_of_gpu(state, details.get(state.uuid))
    if nvidia and (
        hidden := _visible_devices(facts, nvidia, [one for one in states if _platform_of(one.uuid) == CUDA])
    ):
        out.append(hidden)
    # amdgpu reports a power cap only for cards. An integrated GPU, which has none, is not used for training.
    kinds = sorted({_platform_of(one.uuid) for one in states if _platform_of(one.uuid) != ROCM or one.power_limit_mw})
    if kinds and python.torches:
        out.append(_build(python, python.torches[0], driver, kinds))
    return out


def _platform_of(uuid: str) -> str:
    """Return the platform for which torch must be built, such as "CUDA" or "ROCm". It depends on the GPU's maker."""
    return ROCM if uuid.startswith("AMD-") else XPU if uuid.startswith("Intel-") else CUDA


def _driver(snapshot: Snapshot, facts: HostFacts, driver: str, nvidia: bool) -> Check:
    reading = snapshot.gpu
    if reading.value and (nvidia or not facts.nvidia_cards):
        links = any(one.value is not None and one.value.pcie_width is not None for one in reading.value.values())
        if links and driver and snapshot.host.container and not facts.uvm:
            text = "/dev/nvidia-uvm is missing in this container: CUDA cannot start"
            return Check("gpu", "GPU driver", FAIL, text, "docker run --gpus all; on the host: nvidia-modprobe -u -c=0")
        return Check("gpu", "GPU driver", OK, f"{driver or 'it answers'}, {plural(len(reading.value), 'GPU')}")
    if reading.status is Status.PENDING:
        command = "nvidia-smi" if facts.nvidia_cards else "amd-smi, rocm-smi or xpu-smi"
        return Check("gpu", "GPU driver", UNKNOWN, "the driver did not answer in time", command)
    if facts.nvidia_cards:
        text = f"{plural(facts.nvidia_cards, 'NVIDIA GPU')} on the PCI bus: {reading.reason or 'the driver lists none'}"
        inside = "docker run --gpus all (nvidia-container-toolkit)" if snapshot.host.container else "modprobe nvidia"
        return Check("gpu", "GPU driver", FAIL, text, reading.remedy or inside)
    if reading.status is Status.FAILED:
        return Check("gpu", "GPU driver", FAIL, reading.reason, reading.remedy)
    return Check("gpu", "GPU driver", OK, "no GPU on this machine")


def _checks_of_gpu(state: GpuState, detail: GpuDetail | None) -> list[Check]:
    """Return checks of a GPU's link, power limit, memory and mode, if they are worse than the GPU allows."""
    out = []
    width, number = state.pcie_width, state.number
    most = _least(state.pcie_max_width, detail and detail.device_max_width, detail and detail.slot_max_width)
    card = _least(state.pcie_max_width, detail and detail.device_max_width)
    if width and most is not None and width < most:
        text = f"PCIe x{width} of x{most}: copies to the GPU take {most // width} times as long"
        out.append(
            Check("gpu", f"GPU {number} link", WARN, text, "reseat the card or its riser; sudo dmesg | grep -i pcie")
        )
    elif width and card is not None and width < card:
        text = f"PCIe x{width}: the slot has no more lanes; the card could use x{card}"
        out.append(Check("gpu", f"GPU {number} link", WARN, text, "move the card to a wider slot"))
    if detail is None:
        return out
    limit, default = detail.limit_mw or state.power_limit_mw, detail.default_limit_mw
    if limit is not None and default is not None and limit < default:
        text = f"limited to {limit / 1000:.0f} W of {default / 1000:.0f} W: its clocks fall under load"
        out.append(
            Check("gpu", f"GPU {number} power", WARN, text, f"sudo nvidia-smi -i {number} -pl {default / 1000:.0f}")
        )
    if detail.rows_pending or detail.pages_pending:
        text = "damaged memory is replaced at the GPU's next reset"
        reset = f"when GPU {number} is idle: sudo nvidia-smi -i {number} --gpu-reset"
        out.append(Check("gpu", f"GPU {number} memory", WARN, text, reset))
    if detail.compute_mode == 2:
        text = "compute mode PROHIBITED: CUDA programs cannot use it"
        out.append(Check("gpu", f"GPU {number} mode", FAIL, text, f"sudo nvidia-smi -i {number} -c DEFAULT"))
    return out


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value), default=None)


def _visible_devices(facts: HostFacts, uuids: Sequence[str], states: Sequence[GpuState]) -> Check | None:
    """Return a check of the NVIDIA GPUs that CUDA_VISIBLE_DEVICES makes visible; None if the variable is not set.

    uuids: the UUIDs of all GPUs. states: the states of the GPUs that answer.
    """
    name = "CUDA_VISIBLE_DEVICES"
    value = facts.variables.get(name)
    if value is None:
        return None
    chosen = [one.strip() for one in value.split(",")]
    text, remedy = f"{value!r}", f"export {name}={','.join(map(str, range(len(uuids))))}"
    if _ends_list(chosen[0]):
        return Check("gpu", name, FAIL, f"{text} hides every GPU", f"unset {name}")
    mig = [one.uuid for state in states for one in state.instances or ()]
    no_mig = len(states) == len(uuids) and all(state.mig is False for state in states)
    for at, one in enumerate(chosen):
        if _ends_list(one):
            break
        if int(one) < len(uuids) if one.isdecimal() else _is_uuid_prefix(one, (*uuids, *mig)):
            continue
        if one.startswith("MIG-") and not no_mig:  # NVML lists one compute instance of each GPU instance
            return Check("gpu", name, UNKNOWN, f"{text}: whether {one} exists is unknown", "nvidia-smi -L")
        wrong = f"GPU {one}" if one.isdecimal() else one
        effect = "and CUDA ignores it and all after it" if at else "so CUDA sees no GPU"
        return Check("gpu", name, FAIL, f"{text}: {wrong} does not exist, {effect}", remedy)
    return Check("gpu", name, OK, text)


def _ends_list(one: str) -> bool:
    """Whether this entry of the list ends it, as -1 does."""
    return not one or one.startswith("-")


def _is_uuid_prefix(one: str, uuids: Sequence[str]) -> bool:
    """Whether this entry is a UUID or the beginning of one of these UUIDs."""
    return one.startswith(("GPU-", "MIG-")) and any(uuid.startswith(one) for uuid in uuids)


def _build(python: PythonFacts, torch: Torch, driver: str, kinds: Sequence[str]) -> Check:
    """Return a check of torch's build against the GPUs and the driver.

    kinds: the platforms of the GPUs in this machine.
    """
    pip = f"{python.pip_install} --force-reinstall torch --index-url {_INDEX}"
    kind = CUDA if torch.cuda else ROCM if torch.hip else XPU if "+xpu" in torch.version else ""
    have = release(driver)
    if kind not in kinds:
        fits = next((cuda for cuda in (13, 12, 11) if have >= DRIVERS[cuda]), 12)
        text = f"torch {torch.version or '?'} is built without {' or '.join(kinds)}: it trains on the CPU"
        remedy = f"choose ROCm at {_SELECTOR}"
        if kinds[0] != ROCM:
            remedy = f"{pip}/{'xpu' if kinds[0] == XPU else INDICES[fits]}"
        return Check("gpu", "torch build", FAIL, text, remedy)
    if kind != CUDA:
        return Check("gpu", "torch build", OK, f"torch {torch.version} for {kind} {torch.hip}".rstrip())
    built = release(torch.cuda)
    needed = DRIVERS.get(built[0]) if built else None
    if needed is None or not have:
        return Check("gpu", "torch build", UNKNOWN, f"torch for CUDA {torch.cuda}, driver {driver or 'unknown'}")
    if have < needed:
        words = ".".join(f"{part:02}" if at else str(part) for at, part in enumerate(needed))
        text = f"torch is built for CUDA {torch.cuda}, which needs driver {words} or newer; the driver is {driver}"
        older = next((cuda for cuda in (12, 11) if have >= DRIVERS[cuda]), None)
        remedy = "upgrade the driver" + ("" if older is None else f", or {pip}/{INDICES[older]}")
        return Check("gpu", "torch build", FAIL, text, remedy)
    return Check("gpu", "torch build", OK, f"torch {torch.version} for CUDA {torch.cuda}, driver {driver}")
