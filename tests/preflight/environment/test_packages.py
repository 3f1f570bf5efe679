"""Packages as the metadata of a Python lists them, as requirements, and as the difference of two environments."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.trust import invoking_user
from iotop_ai.export.text.requirements import environment_text, requirements_text
from iotop_ai.model.preflight.environment.python import PythonFacts
from iotop_ai.model.preflight.environment.report import Difference, differences
from iotop_ai.preflight.environment.python import child_environment, read_python
from iotop_ai.preflight.storage.decode import decode
from tests.preflight.environment.plant import package

COMMIT = "9604f5995cc628619f0e4fd913453b4d7d61db3f"
GIT = {"vcs": "git", "commit_id": COMMIT, "requested_revision": "main"}


ORIGINS: tuple[tuple[Mapping[str, object], str], ...] = (
    ({"url": "https://host/d0.git", "vcs_info": GIT}, f"d0 @ git+https://host/d0.git@{COMMIT}"),
    (
        {"url": "https://host/all.git", "vcs_info": GIT, "subdirectory": "python/d1"},
        f"d1 @ git+https://host/all.git@{COMMIT}#subdirectory=python/d1",
    ),
    ({"url": "ssh://git@host/d2.git", "vcs_info": GIT}, f"d2 @ git+ssh://git@host/d2.git@{COMMIT}"),
    ({"url": "https://me:token@host/d3.git", "vcs_info": GIT}, f"d3 @ git+https://***@host/d3.git@{COMMIT}"),
    ({"url": "https://host/d4.whl", "archive_info": {}}, "d4 @ https://host/d4.whl"),
    ({"url": "file:///src/d5", "vcs_info": GIT}, f"# d5==0.6 is installed from git+file:///src/d5@{COMMIT}"),
    ({"url": "file:///src/d6", "dir_info": {}}, "# d6==0.6 is installed from file:///src/d6"),
    ({"url": "https://host/d7.git", "vcs_info": []}, "d7 @ https://host/d7.git"),
    ({}, "d8==0.6"),
)
"""The origin of each package d0, d1, ... and the line that requires it."""


@pytest.fixture(scope="module")
def with_origins(tmp_path_factory: pytest.TempPathFactory) -> PythonFacts:
    """The facts of a Python that has all the packages of ORIGINS."""
    folder = tmp_path_factory.mktemp("origins")
    for number, (direct, _) in enumerate(ORIGINS):
        package(folder, f"d{number}", "0.6")
        (folder / f"d{number}-0.6.dist-info/direct_url.json").write_text(json.dumps(direct))
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)}
    return read_python(sys.executable, str(folder), Clock(), environ)


@pytest.mark.parametrize(("name", "line"), [(f"d{number}", line) for number, (_, line) in enumerate(ORIGINS)])
def test_a_package_from_a_url_is_required_from_that_url(with_origins: PythonFacts, name: str, line: str) -> None:
    only = with_origins._replace(packages=tuple(one for one in with_origins.packages if one.name == name))
    assert requirements_text(only).splitlines()[1:] == [line]
    quoted = f'"{line}"' if " " in line else line
    assert environment_text(only, "e").splitlines()[-1] == f"      - {quoted}"


def test_a_package_of_conda_is_required_by_its_version(tmp_path: Path) -> None:
    """The builds of conda leave the folder in which they were built as the origin."""
    package(tmp_path, "numpy", "1.26.4", installer="conda")
    built = {"url": "file:///home/conda/feedstock_root/build_artifacts/numpy_1/work", "dir_info": {}}
    (tmp_path / "numpy-1.26.4.dist-info/direct_url.json").write_text(json.dumps(built))
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    facts = read_python(sys.executable, str(tmp_path), Clock(), environ)
    only = facts._replace(packages=tuple(one for one in facts.packages if one.name == "numpy"))
    assert requirements_text(only).splitlines()[1:] == ["numpy==1.26.4"]


@pytest.mark.parametrize("end", ["\\n", ""])
def test_a_python_that_prints_when_it_starts_is_read(tmp_path: Path, end: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"print('{{}}', 'hello', sep='\\n', end='{end}')\n")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    found = read_python(sys.executable, str(tmp_path), Clock(), environ)
    assert (found.error, found.version) == ("", platform.python_version())


def test_damaged_metadata_of_one_package_hides_no_other_fact(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged-1.0.egg-info"
    damaged.mkdir()
    (damaged / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: damaged\nVersion: 1.0\n")
    (damaged / "requires.txt").write_bytes(b"\xff\n")
    package(tmp_path, "sound", "0.6")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    found = read_python(sys.executable, str(tmp_path), Clock(), environ)
    assert not found.error
    assert {"damaged", "sound"} <= {one.name for one in found.packages}


def test_packages_of_conda_are_compared() -> None:
    first, second = ({"conda_packages": {"cudatoolkit": one, "mkl": "1"}} for one in ("11.8", "12.4"))
    assert list(differences(first, second)) == [Difference("conda_packages", "cudatoolkit", "11.8", "12.4")]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_runs_nothing_of_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sudo may keep HOME, whose ~/.local has modules that a Python runs when it starts."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("needs a Python outside of a virtual environment")
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = [python, "-c", "import site; print(site.getusersitepackages())"]
    found = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    found.mkdir(parents=True)
    ran = tmp_path / "ran"
    (found / "a.pth").write_text(f"import os; open({str(ran)!r}, 'a')\n")
    monkeypatch.setenv("SUDO_UID", "1000")
    assert not read_python(python, str(tmp_path), Clock()).error
    decode(python, [b""], Clock(), lambda: True)
    assert not ran.exists()
    monkeypatch.delenv("SUDO_UID")
    read_python(python, str(tmp_path), Clock())  # without sudo the modules belong to root, and may run
    assert ran.exists() or invoking_user(os.environ) is not None


@pytest.mark.parametrize("user", [{}, {"SUDO_UID": "1000"}])
def test_no_compiled_files_are_written_to_the_users_folders(user: Mapping[str, str]) -> None:
    assert child_environment({"PYTHONPATH": "src", **user}, "/home/me")["PYTHONDONTWRITEBYTECODE"] == "1"


def test_a_package_named_like_a_path_of_the_interpreter_is_compared() -> None:
    first, second = (
        {"python": {"prefix": one, "torch": {"folder": one}}, "packages": {"prefix": one}} for one in ("1.0", "2.0")
    )
    assert list(differences(first, second)) == [Difference("packages", "prefix", "1.0", "2.0")]
