"""Files in the current folder that hide a module of a real Python, and variables that 0 does not switch off."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.clean import LONGEST
from iotop_ai.model.preflight.environment.check import State
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts
from iotop_ai.preflight.environment.judge_python import judge_python, judge_variables
from iotop_ai.preflight.environment.python import read_python


def shadows(folder: Path, script: str | None = None, **variables: str) -> tuple[str, ...]:
    """The modules that this Python finds hidden if training starts in the folder."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **variables}
    found = read_python(sys.executable, str(folder), Clock(), environ, script)
    assert found.error == ""
    return found.shadows


@pytest.mark.parametrize("path", ["", ".:/tmp:{}"])
def test_a_file_that_hides_a_module_is_found_also_through_pythonpath(tmp_path: Path, path: str) -> None:
    for name in ("statistics", "random", "glob", "json"):  # the program itself imports some of these modules
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "mine.py").touch()
    variables = {"PYTHONPATH": path.format(tmp_path)} if path else {}
    assert shadows(tmp_path, **variables) == ("glob.py", "json.py", "random.py", "statistics.py")


def test_a_file_named_like_a_part_of_the_interpreter_hides_nothing(tmp_path: Path) -> None:
    """Python finds these modules before it searches a folder."""
    for name in ("abc", "codecs", "encodings", "io", "marshal", "os", "site", "stat", "sys", "time", "json"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "train.py").write_text("import abc, codecs, encodings, io, marshal, os, site, stat, sys, time\n")
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=True)
    assert shadows(tmp_path) == ("json.py",)


def test_a_folder_of_modules_hides_nothing() -> None:
    assert shadows(Path(sysconfig.get_path("stdlib"))) == ()
    assert shadows(Path(sysconfig.get_path("purelib"))) == ()


def test_the_folder_of_the_script_counts_not_the_current_one(tmp_path: Path) -> None:
    src = tmp_path / "my src"
    src.mkdir()
    for path in (tmp_path / "json.py", src / "random.py", src / "train.py"):
        path.touch()
    (tmp_path / "link.py").symlink_to(src / "train.py")
    (src / "other.py").symlink_to(tmp_path / "main.py")
    for script in ("my src/train.py", str(src / "train.py"), "link.py"):
        assert shadows(tmp_path, script) == (str(src / "random.py"),)
    for script in ("main.py", "my src/other.py", "my src/../main.py", None):
        assert shadows(tmp_path, script) == ("json.py",)


def test_a_remedy_names_the_folder_of_the_script() -> None:
    facts = PythonFacts("/p", unmet=(), shadows=("/my src/random.py", "/my src/json.py"))
    (check,) = (check for check in judge_python(facts, HostFacts()) if check.state is State.FAIL)
    assert check.text == "random.py, json.py in /my src hide the modules of these names"
    assert (check.name, check.remedy) == ("script folder", "mv '/my src/random.py' '/my src/my_random.py'")
    cut = facts._replace(shadows=(f"/{'x' * LONGEST}/random.py"[:LONGEST],))
    assert [check.remedy for check in judge_python(cut, HostFacts()) if check.state is State.FAIL] == [""]


def test_a_framework_is_hidden_only_if_it_is_installed(tmp_path: Path) -> None:
    mine, library = tmp_path / "mine", tmp_path / "library"
    for place in (mine, library):
        (place / "datasets").mkdir(parents=True)
        (place / "datasets/__init__.py").touch()
    (mine / "lightning").mkdir()
    (mine / "lightning/__init__.py").touch()
    (library / "lightning").mkdir()  # this folder is not a package
    assert shadows(mine, PYTHONPATH=str(mine)) == ()
    assert shadows(mine, PYTHONPATH=str(library)) == ("datasets",)


@pytest.mark.parametrize(
    ("name", "value", "on"),
    [
        ("PYTHONDEVMODE", "0", True),
        ("PYTHONDEVMODE", "", False),
        ("PYTHONPROFILEIMPORTTIME", "0", True),
        ("PYTHONPROFILEIMPORTTIME", "", False),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "0", True),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "", True),
        ("CUDA_LAUNCH_BLOCKING", "0", False),
        ("CUDA_LAUNCH_BLOCKING", "1", True),
    ],
)
def test_a_variable_is_on_for_these_values(name: str, value: str, on: bool) -> None:
    assert [one.name for one in judge_variables(HostFacts(variables={name: value}))] == ([name] if on else [])
