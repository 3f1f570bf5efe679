"""Users paste a remedy into a shell, so each path and each name in it must be one word."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import CondaPackage, Package, PythonFacts, Torch, Unmet
from iotop_ai.preflight.environment.judge_nccl import judge_nccl
from iotop_ai.preflight.environment.judge_packages import judge_packages
from iotop_ai.preflight.environment.judge_python import judge_python
from iotop_ai.preflight.environment.judge_script import judge_script
from iotop_ai.preflight.environment.python import read_python
from tests.preflight.environment.plant import make_venv, package, site

HOME = "/home/john doe; ls $HOME"
PYTHON = f"{HOME}/bin/python"
BASE = PythonFacts(PYTHON, version="3.11.2", implementation="CPython", unmet=())


def remedies(facts: PythonFacts) -> list[list[str]]:
    """The words of each remedy, as a shell splits them."""
    checks = [*judge_python(facts, HostFacts()), *judge_script(facts, HostFacts(), None)]
    return [shlex.split(one.remedy) for one in checks if one.remedy]


def test_the_path_of_a_lock_is_one_word() -> None:
    path = f"{HOME}/.cache/torch_extensions/py311/x/lock"
    assert remedies(BASE._replace(locks=(("torch", path),))) == [["rm", "-r", "--", path]]


@pytest.mark.parametrize("path", ["/" + "x/" * 300, "/home/j\ufffd/lock"])
def test_a_lock_whose_path_is_cut_has_no_remedy(path: str) -> None:
    assert remedies(BASE._replace(locks=(("torch", path[:512]),))) == []


def test_names_of_kernels_and_interfaces_are_one_word() -> None:
    kernels = BASE._replace(lost_kernels=(("my kernel;", "/gone"),))
    assert remedies(kernels) == [["jupyter", "kernelspec", "remove", "my kernel;"]]
    (check,) = judge_nccl(HostFacts(links=(("a;b", "down"),), variables={"GLOO_SOCKET_IFNAME": "a;b"}))
    assert shlex.split(check.remedy)[-4:] == ["link", "set", "a;b", "up"]


@pytest.mark.parametrize(
    "facts",
    [
        BASE._replace(unmet=None),
        BASE._replace(unmet=(Unmet("a", "b>2"),)),
        BASE._replace(torches=(Torch("/t", "2.1"),), packages=(Package("torch", "2.0"),)),
        BASE._replace(torches=(Torch("/t", "2.1"),), packages=(Package("numpy", "2.0"),)),
        BASE._replace(torches=(Torch("/t", "2.1"), Torch("/u", "2.0"))),
        BASE._replace(packages=(Package("numpy", "2.0"), Package("numpy", "1.0"))),
        BASE._replace(packages=(Package("nvidia-a-cu11", "2"), Package("nvidia-a-cu12", "1"))),
        BASE._replace(
            packages=(Package("numpy", "2", "pip"),), conda=True, conda_packages=(CondaPackage("numpy", "1"),)
        ),
    ],
)
def test_the_path_of_the_python_is_one_word(facts: PythonFacts) -> None:
    (words,) = remedies(facts)
    assert words[:2] == [PYTHON, "-m"]


@pytest.mark.parametrize("name", ["/usr/bin/python3", sys.executable])
def test_pip_installs_into_a_venv_if_the_distribution_manages_the_packages(name: str, tmp_path: Path) -> None:
    """pip refuses to change such a Python (PEP 668)."""
    if not Path(name).exists():
        pytest.skip(f"{name} is missing")
    asked = "import os, sys; print(os.path.dirname(os.__file__) if sys.prefix == sys.base_prefix else '/')"
    folder = subprocess.run([name, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    managed = Path(folder, "EXTERNALLY-MANAGED").exists()
    found = read_python(name, str(tmp_path), Clock())
    assert (found.error, found.managed) == ("", managed)
    (check,) = judge_packages(found._replace(unmet=(Unmet("a", "b>2"),), packages=(), pip=True))
    pip = [name, "-m", "venv", "--system-site-packages", ".venv", "&&", ".venv/bin/python"] if managed else [name]
    assert shlex.split(check.remedy) == [*pip, "-m", "pip", "install", "b>2"]


@pytest.mark.parametrize("maker", ["", "uv = 0.9.11\n"])
@pytest.mark.parametrize("pip", [True, False])
def test_packages_are_changed_with_the_installer_of_the_environment(tmp_path: Path, maker: str, pip: bool) -> None:
    """uv installs no pip into its environments."""
    python = str(make_venv(tmp_path / "my env"))
    with (tmp_path / "my env/pyvenv.cfg").open("a") as file:
        file.write(maker)
    if pip:
        package(site(Path(python)), "pip", "25.3")
    found = read_python(python, str(tmp_path), Clock(), {"PATH": os.environ["PATH"]})
    for command, action in ((found.pip_install, "install"), (found.pip_uninstall, "uninstall")):
        if maker and not pip:
            words = ["uv", "pip", action, "--python", python]
        else:
            words = [*([] if pip else [python, "-m", "ensurepip", "&&"]), python, "-m", "pip", action]
        assert shlex.split(command) == words
