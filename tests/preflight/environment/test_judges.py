"""Judgements about machines that the tests cannot have: each fault, and a state that falls just short of the fault."""

from __future__ import annotations

import pytest

from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.preflight.environment.check import Check, State, exit_code
from iotop_ai.model.preflight.environment.host import INFINITE, HostFacts, Terminal
from iotop_ai.model.preflight.environment.python import CondaPackage, Package, PythonFacts, Torch, release
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Host, OwnCost, Snapshot
from iotop_ai.preflight.environment.judge_gpu import judge_gpu
from iotop_ai.preflight.environment.judge_host import judge_host
from iotop_ai.preflight.environment.judge_machine import judge_machine
from iotop_ai.preflight.environment.judge_packages import judge_packages
from iotop_ai.preflight.environment.judge_python import judge_python
from iotop_ai.preflight.environment.judge_rights import judge_rights

HOST = Host("box", "b", "6.8.0", 1000, "me", False)
EMPTY = Snapshot(1, 1, 1, 1.0, HOST, (), OwnCost(1, 0, 0, 0, 0))
GIB = 1 << 30


def disk(**more: object) -> Snapshot:
    info = BlockInfo("nvme0n1", 259, 0, "disk", "nvme0n1", transport="nvme", size_bytes=1 << 40)
    return EMPTY._replace(disks=Reading({"nvme0n1": info._replace(**more)}, Status.OK))


def swap(total: int, free: int) -> Snapshot:
    empty = MemoryState(*[None] * (len(MemoryState._fields) - len(MemoryState._field_defaults)))
    memory = empty._replace(swap_total_bytes=total, swap_free_bytes=free)
    return EMPTY._replace(memory=Reading(memory, Status.OK))


def faults(checks: list[Check]) -> list[str]:
    return [check.name for check in checks if check.state not in (State.OK, State.UNKNOWN)]


@pytest.mark.parametrize(
    ("snapshot", "names"),
    [
        (disk(pcie="4x1", pcie_max="4x4"), ["nvme0n1 link"]),
        (disk(pcie="4x4", pcie_max="4x4"), []),
        (disk(scheduler="bfq"), ["nvme0n1 scheduler"]),
        (disk(scheduler="bfq", transport="ata"), []),
        (disk(read_ahead_bytes=0), ["nvme0n1 read-ahead"]),
        (disk(read_ahead_bytes=128 << 10), []),
        (disk(stats_off=True), ["nvme0n1 accounting"]),
        (swap(8 * GIB, 7 * GIB), ["swap"]),
        (swap(8 * GIB, 8 * GIB - 4096), []),
        (EMPTY, []),
    ],
)
def test_disks_and_swap_are_judged(snapshot: Snapshot, names: list[str]) -> None:
    assert faults(judge_machine(snapshot, HostFacts())) == names


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        (HostFacts(governors=("powersave",), frequency_driver="acpi-cpufreq"), ["CPU clock"]),
        (HostFacts(governors=("powersave",), frequency_driver="intel_pstate"), []),
        (
            HostFacts(governors=("powersave",), frequency_driver="intel_pstate", energy_preferences=("power",)),
            ["CPU clock"],
        ),
        (HostFacts(clock_source="hpet"), ["clock source"]),
        (HostFacts(clock_source="kvm-clock"), []),
    ],
)
def test_clocks_are_judged(facts: HostFacts, names: list[str]) -> None:
    assert faults(judge_machine(EMPTY, facts)) == names


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        (HostFacts(cores=8, shm_bytes=64 << 20, shm_free_bytes=64 << 20), ["shared memory"]),
        (HostFacts(cores=8, shm_bytes=16 * GIB, shm_free_bytes=16 * GIB), []),
        (HostFacts(cores=8, shm_bytes=16 * GIB, shm_free_bytes=1 << 20), ["shared memory"]),
        (HostFacts(cores=8, shm_error="No such file or directory"), ["shared memory"]),
        (HostFacts(cores=8, memory_limit_bytes=2 * GIB, memory_room_bytes=GIB // 2), ["memory limit"]),
        (HostFacts(cores=8, memory_limit_bytes=64 * GIB, memory_room_bytes=60 * GIB), []),
        (HostFacts(cores=8, limits={"nofile": (1024, 4096)}), ["open files"]),
        (HostFacts(cores=8, limits={"nofile": (1025, 1025)}), []),
        (HostFacts(cores=8, limits={"memlock": (65536, 65536)}), []),
        (HostFacts(cores=8, limits={"memlock": (65536, 65536)}, rdma=1), ["locked memory"]),
        (HostFacts(cores=8, limits={"memlock": ((512 << 20) - 1, 1 << 40)}, rdma=1), ["locked memory"]),
        (HostFacts(cores=8, limits={"memlock": (512 << 20, 512 << 20)}, rdma=1), []),
        (HostFacts(cores=8, limits={"memlock": (1 << 40, 1 << 40)}, rdma=1), []),
        (HostFacts(cores=8, limits={"memlock": (INFINITE, INFINITE)}, rdma=1), []),
        (HostFacts(cores=8, limits={"nproc": (512, 512)}), ["processes"]),
        (HostFacts(cores=8, terminal=Terminal("dumb", "utf-8", True, 80, 24)), ["terminal"]),
        (HostFacts(cores=8, terminal=Terminal("xterm", "ascii", True, 80, 24)), ["terminal"]),
        (
            HostFacts(cores=8, terminal=Terminal("screen", "utf-8", True, 80, 24), variables={"TMUX": "/t"}),
            ["terminal"],
        ),
        (HostFacts(cores=8, terminal=Terminal("tmux-256color", "utf-8", True, 80, 24)), []),
    ],
)
def test_limits_and_the_terminal_are_judged(facts: HostFacts, names: list[str]) -> None:
    assert faults(judge_host(facts, "")) == names


@pytest.mark.parametrize(
    ("container", "remedy"),
    [
        ("", "mount -o remount,size=50% /dev/shm"),
        ("lxc", "mount -o remount,size=50% /dev/shm"),
        ("podman", "docker run --shm-size=8g, or --ipc=host"),
    ],
)
def test_the_remedy_for_a_small_dev_shm_fits_the_container(container: str, remedy: str) -> None:
    facts = HostFacts(cores=8, shm_bytes=64 << 20, shm_free_bytes=64 << 20)
    (check,) = [one for one in judge_host(facts, container) if one.name == "shared memory"]
    assert check.remedy == remedy


def test_missing_rights_are_reported_in_the_collectors_words() -> None:
    off = EMPTY._replace(pressure=Reading(None, Status.OFF, "PSI is off", "boot with psi=1"))
    found = {check.name: check for check in judge_rights(off, HostFacts())}
    assert found["pressure"] == Check("rights", "pressure", State.WARN, "PSI is off", "boot with psi=1")
    assert found["delay accounting"].state is State.UNKNOWN


def test_a_gpu_without_a_driver_is_reported() -> None:
    absent = EMPTY._replace(gpu=Reading(None, Status.ABSENT, "no NVIDIA driver"))
    python = PythonFacts("/usr/bin/python3")
    assert faults(judge_gpu(absent, HostFacts(), python)) == []
    (check,) = judge_gpu(absent, HostFacts(nvidia_cards=2), python)
    assert check.state is State.FAIL
    assert check.text == "2 NVIDIA GPUs on the PCI bus: no NVIDIA driver"
    (check,) = judge_gpu(EMPTY, HostFacts(nvidia_cards=2), python)
    late = (State.UNKNOWN, "the driver did not answer in time")
    assert (check.state, check.text, check.remedy) == (*late, "nvidia-smi")
    (check,) = judge_gpu(EMPTY, HostFacts(), python)
    assert (check.state, check.text, check.remedy) == (*late, "amd-smi, rocm-smi or xpu-smi")
    inside = absent._replace(host=HOST._replace(container="docker"))
    (check,) = judge_gpu(inside, HostFacts(nvidia_cards=2), python)
    assert check.remedy == "docker run --gpus all (nvidia-container-toolkit)"


@pytest.mark.parametrize(
    ("tags", "fits"),
    [
        (("cp311-cp311-manylinux_2_17_x86_64",), True),
        (("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64",), True),
        (("cp38-abi3-manylinux_2_28_x86_64",), True),
        (("cp312-abi3-manylinux_2_28_x86_64",), False),
        (("py2.py3-none-any",), True),
        (("cp37-none-any",), True),
        (("cp310-cp310-manylinux_2_17_x86_64",), False),
        (("cp311-cp311-manylinux_2_35_x86_64",), False),
        (("cp311-cp311-musllinux_1_2_x86_64",), False),
        (("cp311-cp311-manylinux_2_17_aarch64",), False),
        (("cp310-cp310-linux_x86_64", "cp311-cp311-linux_x86_64"), True),
        (("broken",), True),
    ],
)
def test_a_wheel_for_another_python_is_found(tags: tuple[str, ...], fits: bool) -> None:
    facts = PythonFacts(
        "/p", version="3.11.2", implementation="CPython", machine="x86_64", libc="glibc 2.31", unmet=(),
        packages=(Package("numpy", "1.26", tags=tags),),
    )  # fmt: skip
    assert faults(list(judge_packages(facts))) == ([] if fits else ["wheels"])


@pytest.mark.parametrize(
    ("cuda", "others"),
    [
        ("11.8", "nvidia-cublas-cu12 nvidia-cudnn-cu12"),
        ("12.4", "nvidia-cublas-cu11 nvidia-cudnn-cu11"),
        ("13.0", "nvidia-cublas-cu11 nvidia-cudnn-cu11"),
        ("", "nvidia-cublas-cu11 nvidia-cudnn-cu11"),
    ],
)
def test_the_cuda_libraries_of_torch_are_not_removed(cuda: str, others: str) -> None:
    names = (f"nvidia-{name}-cu{major}" for name in ("cublas", "cudnn") for major in (11, 12))
    facts = PythonFacts("/p", packages=tuple(Package(name, "1") for name in names), torches=(Torch("/t", "2", cuda),))
    (check,) = (check for check in judge_packages(facts) if check.name == "CUDA libraries")
    assert check.remedy == f"/p -m pip uninstall {others}"


@pytest.mark.parametrize(
    ("first", "remedy"),
    [
        ("/env/lib/python3.11/site-packages/numpy", None),
        ("/home/me/.local/lib/python3.11/site-packages/numpy", "export PYTHONNOUSERSITE=1"),
        ("/opt/mine/numpy", "unset PYTHONPATH"),
    ],
)
def test_a_numpy_that_hides_another_is_found(first: str, remedy: str | None) -> None:
    facts = PythonFacts("/p", prefix="/env", numpies=(first, "/usr/lib/python3/dist-packages/numpy"))
    remedies = [check.remedy for check in judge_packages(facts) if check.name == "numpy"]
    assert remedies == ([] if remedy is None else [remedy])


SYSTEM_TORCH = Torch("/usr/lib/python3/dist-packages/torch", "2.1.0")


@pytest.mark.parametrize(
    ("first", "remedy"),
    [
        ("/home/me/.local/lib/python3.11/site-packages/torch", "export PYTHONNOUSERSITE=1"),
        ("/home/me/usr/lib/torch", "unset PYTHONPATH"),
        ("/usr/local/lib/python3.11/dist-packages/torch", "/p -m pip uninstall torch"),
    ],
)
def test_the_remedy_for_a_torch_that_hides_another_fits_its_folder(first: str, remedy: str) -> None:
    facts = PythonFacts("/p", prefix="/usr", base_prefix="/usr", torches=(Torch(first, "2.5.1"), SYSTEM_TORCH))
    (check,) = (check for check in judge_python(facts, HostFacts()) if check.name == "torch")
    assert (check.state, check.remedy) == (State.FAIL, remedy)


def test_the_torch_of_a_venv_may_hide_that_of_the_system() -> None:
    own = Torch("/env/lib/python3.11/site-packages/torch", "2.5.1")
    facts = PythonFacts("/p", prefix="/env", base_prefix="/usr", torches=(own, SYSTEM_TORCH))
    (check,) = (check for check in judge_python(facts, HostFacts()) if check.name == "torch")
    assert (check.state, check.text) == (State.OK, "2.5.1, CPU only")


def test_a_remedy_has_the_package_names_of_conda() -> None:
    facts = PythonFacts(
        "/p", conda=True, packages=(Package("torch", "2.5.0", "pip"),), conda_packages=(CondaPackage("numpy", "2.1"),)
    )
    (check,) = (check for check in judge_packages(facts) if check.name == "conda and pip")
    assert check.remedy == "/p -m pip uninstall torch; conda install pytorch"


def test_the_exit_code_is_that_of_the_worst_check() -> None:
    ok, warn, fail, unknown = (Check("a", "n", state, "") for state in State)
    assert exit_code([ok, warn]) == 0
    assert exit_code([ok, unknown]) == 2
    assert exit_code([fail, unknown]) == 1


def test_the_release_of_a_version_is_parsed() -> None:
    assert release("2.4.0+cu121") == (2, 4, 0)
    assert release("2.6.0a0+git1") == (2, 6, 0)
    assert release("570.124.06") == (570, 124, 6)
    assert release("") == ()
