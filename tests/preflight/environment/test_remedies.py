"""Users paste a remedy into a shell, so each path and each name in it must be one word."""

from __future__ import annotations

import shlex

import pytest

from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import CondaPackage, Package, PythonFacts, Torch, Unmet
from iotop_ai.preflight.environment.judge_nccl import judge_nccl
from iotop_ai.preflight.environment.judge_python import judge_python
from iotop_ai.preflight.environment.judge_script import judge_script

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


def test_names_of_packages_are_one_word() -> None:
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
