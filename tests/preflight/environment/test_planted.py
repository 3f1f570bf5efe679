"""In an environment with planted faults, the real program reports exactly these; in a clean one, none."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.program import PLAIN
from tests.preflight.environment.plant import conda, make_venv, package, site, torch
from tests.rigs.nvml import build, machine, why_no_library
from tests.rigs.nvml.c_library import HOPPER

ROOT = os.geteuid() == 0
FILES = 4096
PROGRAM = (sys.executable, "-P", "-m", "iotop_ai", "doctor", "--json", "--no-smart", "--python")
"""-P excludes the current folder from the module search, as for the installed program."""
FAMILY = f"cp{sys.version_info[0]}{sys.version_info[1]}"
GUARDED = """\
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __getitem__(self, i):
        return i

if __name__ == '__main__':
    import torch
    torch.multiprocessing.set_start_method("spawn")
    for batch in DataLoader(Images(), num_workers=4):
        pass
"""


class Planted(NamedTuple):
    """The way to start the program in an environment with a fault."""

    variables: Mapping[str, str] = {}
    before: Sequence[str] = ()
    limits: Mapping[int, int] = {}
    arguments: Sequence[str] = ()


class Place(NamedTuple):
    """folder: the program's current folder, which is empty. python: the Python of a new venv."""

    folder: Path
    python: Path

    @property
    def site(self) -> Path:
        return site(self.python)


Plant = Callable[[Place], Planted]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / "work"
    folder.mkdir()
    return Place(folder, make_venv(tmp_path / "env"))


def doctor(place: Place, planted: Planted = Planted()) -> dict[str, tuple[str, str, str]]:  # noqa: B008
    """The state, text and remedy of each check that is not ok, by the name of the check."""

    def limited() -> None:
        for number, value in {resource.RLIMIT_NOFILE: FILES, **planted.limits}.items():
            resource.setrlimit(number, (value, value))

    home = {"HOME": str(place.folder / "home"), "PYTHONNOUSERSITE": "1"}
    top = str(Path(__file__).resolve().parents[3])
    argv = [*planted.before, *PROGRAM, str(place.python), *planted.arguments]
    done = subprocess.run(
        argv,
        cwd=place.folder,
        env={**PLAIN, **home, "PYTHONPATH": top, **planted.variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limited,
        check=False,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode
    return {one["name"]: (one["state"], one["text"], one["remedy"]) for one in found["checks"] if one["state"] != "ok"}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The checks that are not ok on this machine without a planted fault."""
    top = tmp_path_factory.mktemp("clean")
    (top / "work").mkdir()
    here = Place(top / "work", make_venv(top / "env"))
    package(here.site, "numpy", "2.1.0", tag=f"{FAMILY}-{FAMILY}-manylinux_2_17_{os.uname().machine}")
    torch(here.site)
    home = here.folder / "home"
    lock(home / ".cache/huggingface/datasets/_data_set.lock")  # the library leaves this file after each use
    kernel(here.python.parent.parent / "share/jupyter", "python3", str(here.python))
    (here.folder / "train.py").write_text(GUARDED)
    network = {"NCCL_SOCKET_IFNAME": "^docker,lo", "GLOO_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "0"}
    quiet = {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": "ALL", "NCCL_P2P_DISABLE": "0"}
    return set(doctor(here, Planted({**network, **quiet}, arguments=("--script", "train.py"))))


def test_a_clean_environment_has_no_fault(usual: set[str]) -> None:
    of_the_machine = {"delay accounting", "other processes", "pressure", "kernel log", "SMART", "GPU driver", "swap"}
    of_the_machine |= {"container", "shared memory", "cores", "memory limit", "CPU clock", "clock source"}
    left = {name for name in usual if not name.endswith(("link", "scheduler", "read-ahead", "accounting"))}
    assert left <= of_the_machine
    switch = Path("/proc/sys/kernel/task_delayacct")
    if switch.exists():
        assert ("delay accounting" in usual) == (switch.read_text().strip() == "0")


def two_torches(place: Place) -> Planted:
    torch(place.site, "2.5.1")
    torch(place.folder / "old", "1.13.1")
    return Planted({"PYTHONPATH": f"{Path(__file__).resolve().parents[3]}:{place.folder / 'old'}"})


def mixed_torch(place: Place) -> Planted:
    torch(place.site, "2.5.1", recorded="2.3.0")
    return Planted()


def numpy_two(place: Place) -> Planted:
    torch(place.site, "2.2.2")
    package(place.site, "numpy", "2.1.0")
    return Planted()


def unmet(place: Place) -> Planted:
    """This torchvision needs another torch than the one that numpy_two installs."""
    package(place.site, "torchvision", "0.20.1", requires=["torch==2.5.1", "pillow>=5; extra == 'tests'"])
    return Planted()


def other_python(place: Place) -> Planted:
    package(place.site, "scipy", "1.7.0", tag=f"cp37-cp37m-manylinux_2_17_{os.uname().machine}")
    return Planted()


def newer_libc(place: Place) -> Planted:
    package(place.site, "numpy", "2.9.0", tag=f"{FAMILY}-{FAMILY}-manylinux_2_99_{os.uname().machine}")
    return Planted()


def interrupted_install(place: Place) -> Planted:
    package(place.site, "numpy", "1.26.4")
    package(place.site, "numpy", "2.1.0")
    return Planted()


def cuda_families(place: Place) -> Planted:
    package(place.site, "nvidia_cudnn_cu11", "8.9.6")
    package(place.site, "nvidia_cudnn_cu12", "9.1.0")
    return Planted()


def pip_over_conda(place: Place) -> Planted:
    """newer_libc installs the NumPy of pip."""
    conda(place.python.parent.parent, ("numpy", "1.26.4", "conda-forge"))
    return Planted()


def channels(place: Place) -> Planted:
    """pip_over_conda installs a package of conda-forge."""
    conda(place.python.parent.parent, ("mkl", "2023.1.0", "pkgs/main"))
    return Planted()


def hidden_module(place: Place) -> Planted:
    (place.folder / "random.py").write_text("seed = 1\n")
    return Planted()


def lock(path: Path) -> Path:
    """Create a lock file that is an hour old."""
    path.parent.mkdir(parents=True)
    path.touch()
    os.utime(path, (time.time() - 3600, time.time() - 3600))
    return path


def kernel(folder: Path, name: str, python: str) -> None:
    """Create a kernel of Jupyter that starts this Python."""
    (folder / "kernels" / name).mkdir(parents=True)
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (folder / "kernels" / name / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": name}))


def old_lock(place: Place) -> Planted:
    lock(place.folder / "home/.cache/torch_extensions/py311_cu121/fused_adam/lock")
    return Planted()


def old_libstdcxx(place: Place) -> Planted:
    (place.folder / "lib").mkdir()
    (place.folder / "lib/libstdc++.so.6").write_bytes(b"\0GLIBCXX_3.4\0GLIBCXX_3.4.9\0")
    return Planted({"LD_LIBRARY_PATH": str(place.folder / "lib")})


def blocking(place: Place) -> Planted:
    return Planted({"CUDA_LAUNCH_BLOCKING": "1"})


def threads(place: Place) -> Planted:
    return Planted({"OMP_NUM_THREADS": "4096"})


def few_files(place: Place) -> Planted:
    return Planted(limits={resource.RLIMIT_NOFILE: 256})


def small_files(place: Place) -> Planted:
    return Planted(limits={resource.RLIMIT_FSIZE: 1 << 30})


def address_space(place: Place) -> Planted:
    return Planted(limits={resource.RLIMIT_AS: 16 << 30})


Fault = tuple[Plant, str, str, str]
FAULTS: tuple[tuple[Fault, ...], ...] = (
    (
        (two_torches, "torch", "fail", "2 on the path: "),
        (newer_libc, "wheels", "fail", "numpy is built for manylinux_2_99_"),
        (pip_over_conda, "conda and pip", "fail", "numpy 1.26.4 by conda and 2.9.0 by pip"),
        (channels, "conda channels", "warn", "1 package of conda-forge, 1 of conda.anaconda.org/pkgs/main"),
        (hidden_module, "current folder", "fail", "random.py in the current folder hides the module"),
        (few_files, "open files", "fail", "256 open files"),
    ),
    (
        (mixed_torch, "torch", "fail", "its metadata names 2.3.0, but its files belong to 2.5.1"),
        (cuda_families, "CUDA libraries", "warn", "nvidia-cudnn is installed for CUDA 11 and 12"),
        (old_lock, "lock fused_adam", "warn", "an old lock of an extension's build"),
        (small_files, "file size", "fail", "limited to 1 GB"),
        (address_space, "address space", "fail", "limited to 16 GB"),
    ),
    (
        (numpy_two, "torch", "fail", "torch 2.2.2 is compiled for NumPy 1, but NumPy 2.1.0 is installed"),
        (unmet, "requirements", "fail", "torchvision needs torch==2.5.1, 2.2.2 is installed"),
        (old_libstdcxx, "libstdc++", "warn", "LD_LIBRARY_PATH puts "),
        (blocking, "CUDA_LAUNCH_BLOCKING", "warn", "1: the CPU waits for each kernel"),
        (threads, "OMP_NUM_THREADS", "warn", "4096 threads on "),
    ),
    (
        (other_python, "wheels", "fail", "scipy is built for cp37"),
        (interrupted_install, "numpy twice", "fail", "metadata of 1.26.4 and 2.1.0 in "),
    ),
)
"""Each group is planted into one environment, because each of its faults has a different name."""


@pytest.mark.parametrize("faults", FAULTS, ids=["-".join(one[0].__name__ for one in faults) for faults in FAULTS])
def test_exactly_the_planted_faults_are_reported(place: Place, usual: set[str], faults: tuple[Fault, ...]) -> None:
    planted = [plant(place) for plant, *_ in faults]
    variables = {name: value for one in planted for name, value in one.variables.items()}
    limits = {number: value for one in planted for number, value in one.limits.items()}
    found = doctor(place, Planted(variables, limits=limits))
    assert set(found) - usual == {name for _, name, *_ in faults}
    for _, name, state, text in faults:
        assert found[name][0] == state
        assert found[name][1].startswith(text)
        assert found[name][2]


def test_faults_of_process_start_network_and_locks_are_reported(place: Place, usual: set[str]) -> None:
    """The nine faults are in one environment, because each has a different name."""
    env = place.python.parent.parent
    (place.folder / "train.py").write_text(GUARDED.replace("if __name__ == '__main__':", "if True:"))
    kernel(place.folder / "home/.local/share/jupyter", "old", "/opt/removed/bin/python")
    lock(env / "pkgs/.conda_lock-4711")
    lock(place.folder / "home/.cache/matplotlib/fontlist-v390.json.matplotlib-lock")
    held = lock(place.folder / "home/.cache/huggingface/datasets/_data_set.lock")
    variables = {
        "NCCL_SOCKET_IFNAME": "eth_missing", "GLOO_SOCKET_IFNAME": "l", "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,COLL", "NCCL_P2P_DISABLE": "1",
    }  # fmt: skip
    with held.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = doctor(place, Planted(variables, arguments=("--script", "train.py")))
    states = {name: found[name][0] for name in set(found) - usual}
    assert states == {
        "main guard": "fail", "Jupyter kernel old": "warn", "lock .conda_lock-4711": "warn",
        "lock fontlist-v390.json.matplotlib-lock": "warn", "lock in datasets": "warn", "NCCL_SOCKET_IFNAME": "fail",
        "GLOO_SOCKET_IFNAME": "fail", "NCCL_DEBUG_SUBSYS": "warn", "NCCL_P2P_DISABLE": "warn",
    }  # fmt: skip
    assert f"process {os.getpid()} (" in found["lock in datasets"][1]
    assert found["main guard"][1].startswith(
        "iteration over DataLoader on line 10 runs on import, and each worker started by spawn"
    )


@pytest.mark.skipif(not ROOT or not shutil.which("unshare"), reason="needs root for a network namespace")
def test_an_interface_that_is_down_is_reported_for_a_notebook(place: Place, usual: set[str]) -> None:
    cells = [GUARDED.replace("if __name__ == '__main__':", "%matplotlib inline\nif True:").splitlines(keepends=True)]
    cells.append(["%%bash\n", "ls -l"])
    book = {"cells": [{"cell_type": "code", "source": one} for one in cells]}
    (place.folder / "train.ipynb").write_text(json.dumps(book))
    alone = ("unshare", "-n", "-m", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh")
    planted = Planted({"NCCL_SOCKET_IFNAME": "=lo"}, alone, arguments=("--script", "train.ipynb"))
    found = doctor(place, planted)
    assert {"NCCL_SOCKET_IFNAME", "notebook"} <= set(found) - usual <= {"NCCL_SOCKET_IFNAME", "notebook", "cgroup"}
    assert found["NCCL_SOCKET_IFNAME"][1] == "=lo: lo is down (existing: lo): ranks cannot connect"
    assert found["notebook"][1] == "workers start by spawn: they cannot load Images, which a cell defines"


@pytest.mark.skipif(not ROOT or not shutil.which("unshare"), reason="needs root for namespaces")
def test_a_pid_namespace_and_a_small_dev_shm_are_reported(place: Place, usual: set[str]) -> None:
    mount = 'mount --make-rprivate / && mount -t tmpfs -o size=16m tmpfs /dev/shm && exec "$@"'
    found = doctor(place, Planted(before=("unshare", "-m", "--pid", "--fork", "--mount-proc", "sh", "-c", mount, "sh")))
    assert {"container"} <= set(found) - usual <= {"container", "shared memory"}
    assert found["shared memory"][:2] == (
        "fail", "/dev/shm has 16 MB, 16 MB free: DataLoader workers end with a bus error",
    )  # fmt: skip
    state, text, remedy = found["container"]
    assert (state, remedy) == ("warn", "start the container with --pid=host")
    assert text.endswith(": processes of the host are not visible")


def quota_group(cores: float) -> tuple[Path, str]:
    """Create a cgroup with this quota. Returns its folder and ""; or any path, and the reason why it failed."""
    name = f"iotop-doctor-{os.getpid()}"
    for top, file, text in (
        (Path("/sys/fs/cgroup"), "cpu.max", f"{int(cores * 100_000)} 100000"),
        (Path("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us", str(int(cores * 100_000))),
    ):
        folder = top / name
        if not (top / "cgroup.procs").exists():
            continue
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / file).write_text(text)
        except OSError:
            folder.rmdir()
            continue
        return folder, ""
    return Path(), "no cgroup with a CPU controller can be made here"


def test_a_cpu_quota_is_reported(place: Place, usual: set[str]) -> None:
    folder, why = quota_group(1.0)
    if why:
        pytest.skip(why)
    try:
        join = f'echo $$ > {folder}/cgroup.procs && exec "$@"'
        found = doctor(place, Planted(before=("sh", "-c", join, "sh")))
    finally:
        folder.rmdir()
    assert found["cores"][1].endswith("a quota of 1: a trainer and its workers share it")
    assert set(found) - usual <= {"cores", "threads"}
    if (os.cpu_count() or 1) > 1:
        assert found["threads"][2] == "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1"


needs_library = pytest.mark.skipif(bool(why_no_library()), reason=why_no_library() or "built")


def gpu_rig(place: Place, gpu: Mapping[str, object], **variables: str) -> Planted:
    build(place.folder)
    machine(place.folder / "gpu.conf", [{**gpu, "rows": "2,1,0,0"}])
    library = {"LD_LIBRARY_PATH": str(place.folder), "FAKE_NVML": str(place.folder / "gpu.conf")}
    return Planted({**library, **variables})


@needs_library
@pytest.mark.parametrize(
    ("cuda", "gpu", "visible", "faults"),
    [
        (
            "13.0",
            {"power_limit_mw": 350000, "pcie_width": 4},
            "0,1",
            {
                "torch build": "torch is built for CUDA 13.0, which needs driver 580.65.06 or newer; the",
                "CUDA_VISIBLE_DEVICES": "'0,1': GPU 1 does not exist",
                "GPU 0 power": "limited to 350 W of 700 W",
                "GPU 0 link": "PCIe x4 of x16",
            },
        ),
        (
            "",
            {},
            "-1",
            {
                "torch build": "torch 2.5.1 is built without CUDA: it trains on the CPU",
                "CUDA_VISIBLE_DEVICES": "'-1' hides every GPU",
            },
        ),
    ],
)
def test_exactly_the_faults_of_a_gpu_are_reported(
    place: Place, usual: set[str], cuda: str, gpu: Mapping[str, object], visible: str, faults: Mapping[str, str]
) -> None:
    torch(place.site, "2.5.1", cuda)
    found = doctor(place, gpu_rig(place, {**HOPPER, **gpu}, CUDA_VISIBLE_DEVICES=visible))
    assert set(found) - usual == set(faults)
    for name, text in faults.items():
        assert found[name][1].startswith(text)
        assert found[name][2]


@needs_library
def test_a_gpu_without_a_fault_is_not_reported(place: Place, usual: set[str]) -> None:
    torch(place.site, "2.5.1", "12.4")
    assert set(doctor(place, gpu_rig(place, HOPPER, CUDA_VISIBLE_DEVICES="0"))) <= usual


def test_a_python_that_does_not_start_is_reported(place: Place, usual: set[str]) -> None:
    place.python.unlink()
    place.python.write_text("#!/bin/sh\necho 'no such module: encodings' >&2\nexit 1\n")
    place.python.chmod(0o755)
    found = doctor(place)
    assert set(found) - usual == {"interpreter"}
    state, text, _ = found["interpreter"]
    assert (state, text) == ("unknown", f"{place.python}: it does not run: no such module: encodings")
