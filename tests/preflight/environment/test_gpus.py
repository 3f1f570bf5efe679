"""Which GPUs a torch can use, by the maker of the GPUs and by CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuInstance, GpuState
from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts, Torch
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Host, OwnCost, Snapshot
from iotop_ai.preflight.environment.host import read_compat_driver
from iotop_ai.preflight.environment.judge_gpu import judge_gpu

EMPTY = Snapshot(1, 1, 1, 1.0, Host("box", "b", "6.8.0", 1000, "me", False), (), OwnCost(1, 0, 0, 0, 0))
A, B = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-1111aaaa-d72c-4106-c12f-20bd9faed9f6"
NVIDIA = (GpuState(A, 0, "H100", mig=False), GpuState(B, 1, "H100", mig=False))
DETAIL = GpuDetail(A, driver="570.124.06")
RADEON = GpuState("AMD-0000:03:00.0", 0, "MI210", power_limit_mw=300_000)
INTEGRATED = GpuState("AMD-0000:0c:00.0", 0, "AMD GPU 164e")
ARC = GpuState("Intel-0000:03:00.0", 0, "Intel GPU 56a0")
CUDA, ROCM = Torch("/t", "2.5.0", "12.4"), Torch("/t", "2.5.0", "", "6.2")
INDEX = "/p -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/"
CPU, XPU = Torch("/t", "2.5.0+cpu"), Torch("/t", "2.5.0+xpu")


def judged(
    gpus: Sequence[GpuState],
    torch: Torch = CUDA,
    visible: str | None = None,
    cards: int = 0,
    detail: GpuDetail = DETAIL,
    second: GpuDetail | None = None,
    compat: str = "",
) -> list[Check]:
    """The checks, without the one about the driver if it is fine.

    detail, second: the details of the first two GPUs. compat: the version of CUDA's own driver libraries.
    """
    table = {one.uuid: Reading(one, Status.OK) for one in gpus}
    slow = {one.uuid: Reading(one, Status.OK) for one in (detail, second) if one is not None}
    snapshot = EMPTY._replace(gpu=Reading(table, Status.OK), gpu_slow=Reading(slow, Status.OK))
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    host = HostFacts(nvidia_cards=cards, compat_driver=compat, variables=variables)
    found = judge_gpu(snapshot, host, PythonFacts("/p", torches=(torch,)))
    return [one for one in found if one.name != "GPU driver" or one.state is not State.OK]


@pytest.mark.parametrize(
    ("gpus", "torch", "state", "remedy"),
    [
        (NVIDIA, CUDA, State.OK, ""),
        (NVIDIA, CPU, State.FAIL, INDEX + "cu126"),
        (NVIDIA, ROCM, State.FAIL, INDEX + "cu126"),
        ((RADEON,), ROCM, State.OK, ""),
        ((RADEON,), CUDA, State.FAIL, "choose ROCm at https://pytorch.org/get-started/locally/"),
        ((RADEON,), CPU, State.FAIL, "choose ROCm at https://pytorch.org/get-started/locally/"),
        ((ARC,), XPU, State.OK, ""),
        ((ARC,), CUDA, State.FAIL, INDEX + "xpu"),
        ((*NVIDIA, RADEON), ROCM, State.OK, ""),
        ((*NVIDIA, INTEGRATED), CUDA, State.OK, ""),
        ((*NVIDIA, INTEGRATED), ROCM, State.FAIL, INDEX + "cu126"),
    ],
)
def test_the_build_of_torch_must_match_the_gpus(
    gpus: Sequence[GpuState], torch: Torch, state: State, remedy: str
) -> None:
    (check,) = judged(gpus, torch)
    assert (check.name, check.state) == ("torch build", state)
    assert check.remedy == remedy


NO_PROGRAMS = "torch is built for CUDA {}, which makes no programs for the compute capability of GPU 0 ({})"


@pytest.mark.parametrize(
    ("capability", "cuda", "driver", "index"),
    [
        ("9.0", "12.4", "570.124.06", ""),
        ("9.0", "11.7", "570.124.06", "cu126"),
        ("8.9", "11.1", "570.124.06", ""),
        ("12.0", "12.4", "570.124.06", "cu128"),
        ("12.0", "12.6", "580.65.06", "cu130"),
        ("12.0", "12.8", "570.124.06", ""),
        ("10.0", "13.0", "580.65.06", ""),
        ("6.1", "12.4", "580.65.06", ""),
        ("6.1", "13.0", "580.65.06", "cu126"),
        ("7.5", "13.0", "580.65.06", ""),
        ("", "12.4", "570.124.06", ""),
        ("12.0", "12", "570.124.06", ""),
    ],
)
def test_the_build_of_torch_must_have_programs_for_the_gpu(capability: str, cuda: str, driver: str, index: str) -> None:
    detail = DETAIL._replace(driver=driver, compute_capability=capability)
    (check,) = judged(NVIDIA[:1], Torch("/t", "2.6.0", cuda), detail=detail)
    assert (check.name, check.state) == ("torch build", State.FAIL if index else State.OK)
    assert check.remedy == (INDEX + index if index else "")
    if index:
        assert check.text == NO_PROGRAMS.format(cuda, capability)


def test_an_old_gpu_beside_a_usable_one_is_a_warning() -> None:
    old = DETAIL._replace(uuid=B, driver="580.65.06", compute_capability="6.1")
    usable = DETAIL._replace(driver="580.65.06", compute_capability="12.0")
    (check,) = judged(NVIDIA, Torch("/t", "2.9.0", "13.0"), detail=usable, second=old)
    assert (check.state, check.text) == (State.WARN, NO_PROGRAMS.format("13.0", "6.1").replace("GPU 0", "GPU 1"))
    assert check.remedy == INDEX + "cu126"


OLD_DRIVER = "torch is built for CUDA 13.0, which needs driver 580.65.06 or newer; the driver is 535.183.06"
THROUGH_LIBRARIES = (
    ": it runs on data-centre GPUs only, through the libraries of driver 580.82.07 in /usr/local/cuda/compat"
)


@pytest.mark.parametrize(
    ("compat", "capability", "state", "text"),
    [
        ("", "9.0", State.FAIL, OLD_DRIVER),
        ("575.57.08", "9.0", State.FAIL, OLD_DRIVER),
        ("580.82.07", "9.0", State.WARN, OLD_DRIVER + THROUGH_LIBRARIES),
        ("580.82.07", "6.1", State.FAIL, NO_PROGRAMS.format("13.0", "6.1")),
    ],
)
def test_the_libraries_of_a_newer_driver_may_run_torch_on_an_old_one(
    compat: str, capability: str, state: State, text: str
) -> None:
    detail = DETAIL._replace(driver="535.183.06", compute_capability=capability)
    (check,) = judged(NVIDIA[:1], Torch("/t", "2.9.0", "13.0"), detail=detail, compat=compat)
    assert (check.name, check.state, check.text) == ("torch build", state, text)
    upgrade = f"upgrade the driver, or {INDEX}cu126"
    if text.startswith(OLD_DRIVER):
        only_if = "if torch.cuda.is_available() is False: " if state is State.WARN else ""
        assert check.remedy == only_if + upgrade


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ((), ""),
        (("libcuda.so", "libcuda.so.1", "libcuda.so.580.82.07"), "580.82.07"),
        (("lib.real/libcuda.so.1", "lib.real/libcuda.so.580.9", "lib.real/libcuda.so.580.82.07"), "580.82.07"),
        (("libcuda.so.1", "libnvidia-nvvm.so.580.82.07"), ""),
    ],
)
def test_the_libraries_of_a_newer_driver_are_found(tmp_path: Path, files: Sequence[str], version: str) -> None:
    for name in files:
        path = tmp_path / "usr/local/cuda-13.0/compat" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "usr/local").mkdir(parents=True, exist_ok=True)
    (tmp_path / "usr/local/cuda").symlink_to("cuda-13.0")
    assert read_compat_driver(Root(str(tmp_path))) == version


@pytest.mark.parametrize("torch", [CPU, Torch("/t", "2.9.0", "13.0")])
def test_a_torch_for_blackwell_is_proposed(torch: Torch) -> None:
    (check,) = judged(NVIDIA[:1], torch, detail=DETAIL._replace(compute_capability="12.0"))
    assert check.state is State.FAIL
    assert check.remedy.endswith(INDEX + "cu128")


@pytest.mark.parametrize("torch", [CPU, CUDA, ROCM])
def test_an_integrated_gpu_needs_no_special_torch(torch: Torch) -> None:
    assert judged((INTEGRATED,), torch) == []


def test_an_nvidia_card_without_a_driver_is_found_beside_an_integrated_gpu() -> None:
    (check,) = judged((INTEGRATED,), CUDA, cards=1)
    assert (check.state, check.text) == (State.FAIL, "1 NVIDIA GPU on the PCI bus: the driver lists none")


@pytest.mark.parametrize(
    ("visible", "text"),
    [
        ("0,1", ""),
        ("1,0", ""),
        (A, ""),
        ("GPU-8932f937,1", ""),
        ("0,-1,7", ""),
        ("", "'' hides every GPU"),
        ("2", "'2': GPU 2 does not exist, so CUDA sees no GPU"),
        ("1,2", "'1,2': GPU 2 does not exist, and CUDA ignores it and every entry after it"),
        ("NoDevFiles", "'NoDevFiles': NoDevFiles does not exist, so CUDA sees no GPU"),
        ("0,GPU-7777", "'0,GPU-7777': GPU-7777 does not exist, and CUDA ignores it and every entry after it"),
        ("MIG-1234", "'MIG-1234': MIG-1234 does not exist, so CUDA sees no GPU"),
    ],
)
def test_each_value_of_cuda_visible_devices_is_judged(visible: str, text: str) -> None:
    check = next(one for one in judged((*NVIDIA, RADEON), visible=visible) if one.name == "CUDA_VISIBLE_DEVICES")
    assert (check.state, check.text) == ((State.FAIL, text) if text else (State.OK, repr(visible)))


@pytest.mark.parametrize(("width", "text"), [(4, "PCIe x4 of x16: copies to the GPU take 4 times as long"), (0, "")])
def test_a_link_of_unknown_width_is_not_reported_as_narrow(width: int, text: str) -> None:
    (gpu, *_) = (one._replace(pcie_width=width, pcie_max_width=16) for one in NVIDIA)
    assert [one.text for one in judged((gpu,)) if one.name == "GPU 0 link"] == ([text] if text else [])


@pytest.mark.parametrize("detail", [DETAIL._replace(rows_pending=True), DETAIL._replace(pages_pending=True)])
def test_a_gpu_is_reset_only_when_it_is_idle(detail: GpuDetail) -> None:
    (check,) = [one for one in judged(NVIDIA, detail=detail) if one.name == "GPU 0 memory"]
    assert check.remedy == "when GPU 0 is idle: sudo nvidia-smi -i 0 --gpu-reset"


@pytest.mark.parametrize(
    ("gpu", "remedy"),
    [
        (NVIDIA[0], "sudo nvidia-smi -i 0 -pl 350"),
        (RADEON, "raise its power limit, unless it is intended"),
        (ARC, "raise its power limit, unless it is intended"),
    ],
)
def test_nvidia_smi_raises_the_power_limit_only_of_nvidia_gpus(gpu: GpuState, remedy: str) -> None:
    limited = gpu._replace(power_limit_mw=300_000)
    (check,) = [
        one
        for one in judged((limited,), detail=GpuDetail(gpu.uuid, default_limit_mw=350_000))
        if one.name == "GPU 0 power"
    ]
    assert (check.state, check.remedy) == (State.WARN, remedy)


def test_a_mig_instance_that_nvml_does_not_list_is_unknown() -> None:
    sliced = GpuState(A, 0, "H100", mig=True, instances=(GpuInstance(1, "MIG-1234-5"),))
    for gpus, visible, state in (
        ((sliced,), "MIG-1234", State.OK),
        ((sliced,), "MIG-9999", State.UNKNOWN),
        ((sliced._replace(mig=None, instances=None),), "MIG-1234-5", State.UNKNOWN),
        ((sliced,), "GPU-9999", State.FAIL),
    ):
        assert judged(gpus, visible=visible)[0].state is state
