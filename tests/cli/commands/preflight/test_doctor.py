"""``iotop-ai doctor`` as the real program runs it: text, JSON, the list of packages, two compared snapshots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import iotop, iotop_here, iotop_started
from tests.preflight.environment.plant import conda, make_venv, package, site, torch

QUICK = ("doctor", "--no-smart")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = make_venv(tmp_path_factory.mktemp("env") / "env")
    package(site(path), "numpy", "1.26.4")
    torch(site(path), "2.5.1+cpu")
    return str(path)


def test_the_text_has_a_line_for_each_check(python: str) -> None:
    done = iotop(*QUICK, "--python", python)
    assert done.returncode in (0, 1, 2)
    lines = done.stdout.splitlines()
    names = {line[12:28].strip() for line in lines if line[:4] in ("ok  ", "warn", "fail", "cann")}
    assert {"other processes", "pressure", "GPU driver", "shared memory", "open files", "swap", "torch"} <= names
    assert any(line == "ok          torch            2.5.1+cpu, CPU only" for line in lines)
    shown = [line for line in lines if line[:4] in ("ok  ", "warn", "fail", "cann")]
    totals = [int(part.split()[0]) for part in lines[-1].split(", ")]
    assert sum(totals) == len(shown)
    quiet = iotop(*QUICK, "--python", python, "--quiet")
    assert not [line for line in quiet.stdout.splitlines() if line.startswith("ok")]


def test_two_saved_snapshots_are_compared(python: str, tmp_path: Path) -> None:
    first, second = tmp_path / "here.json", tmp_path / "there.json"
    done = iotop_started(*QUICK, "--python", python, "--json")
    found = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode
    assert found["packages"] == {"numpy": "1.26.4", "torch": "2.5.1+cpu"}
    assert found["python"]["torch"]["version"] == "2.5.1+cpu"
    first.write_text(done.stdout)
    other = make_venv(tmp_path / "env")
    package(site(other), "numpy", "2.1.0")
    second.write_text(iotop(*QUICK, "--python", str(other), "--json", CUDA_LAUNCH_BLOCKING="1").stdout)
    assert iotop("doctor", "--diff", str(first), str(first)).returncode == 0
    done = iotop("doctor", "--diff", str(first), str(second))
    assert (done.returncode, done.stderr) == (1, "")
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:]}
    assert rows["packages.numpy"] == ["1.26.4", "2.1.0"]
    assert rows["packages.torch"] == ["2.5.1+cpu", "-"]
    assert rows["variables.CUDA_LAUNCH_BLOCKING"] == ["-", "1"]
    assert rows["checks.CUDA_LAUNCH_BLOCKING"] == ["-", "warn"]
    assert not [name for name in rows if name.startswith(("machine", "limits"))]
    differences = json.loads(iotop("doctor", "--json", "--diff", str(first), str(second)).stdout)["differences"]
    assert {"section": "packages", "name": "numpy", "first": "1.26.4", "second": "2.1.0"} in differences


def test_packages_are_exported_as_requirements(python: str, tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    done = iotop("doctor", "--python", python, "--export", str(path))
    assert done.returncode == 0
    assert path.read_text().splitlines()[1:] == [
        "--extra-index-url https://download.pytorch.org/whl/cpu",
        "numpy==1.26.4",
        "torch==2.5.1+cpu",
    ]
    again = iotop("doctor", "--python", python, "--export", str(path))
    assert (again.returncode, again.stderr) == (2, f"usage: {path} exists; --force replaces it\n")


def test_packages_are_exported_for_conda(tmp_path: Path) -> None:
    env = tmp_path / "env"
    path = make_venv(env)
    conda(env, ("numpy", "1.26.4", "conda-forge"), ("python", "3.11.9", "conda-forge"))
    package(site(path), "numpy", "1.26.4", installer="conda")
    package(site(path), "tqdm", "4.66.0")
    out = tmp_path / "environment.yml"
    assert iotop("doctor", "--python", str(path), "--export", str(out)).returncode == 0
    assert out.read_text().splitlines() == [
        "name: env",
        "channels:",
        "  - conda-forge",
        "dependencies:",
        "  - numpy=1.26.4",
        "  - python=3.11.9",
        "  - pip:",
        "      - tqdm==4.66.0",
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--python", "/nonexistent"), "usage: --python /nonexistent is not a program"),
        (("--export", "list.json"), "usage: --export list.json: the name must end in .txt (pip) or .yml (conda)"),
        (("--export", ""), "usage: --export is empty (see iotop-ai doctor --help)"),
        (("--diff", "/nonexistent", "/etc/hostname"), "input: /nonexistent: No such file or directory"),
        (("--diff", "/etc/hostname", "/etc/hostname"), "input: /etc/hostname was not saved with iotop-ai doctor"),
        (("--diff", "/etc", "/etc"), "input: /etc: Is a directory"),
        (("--export", "x.txt", "--python", "/bin/ls"), "unknown: /bin/ls: it is not a Python"),
        (("--export", "/dev/null/x.txt", "--python", "/bin/false"), "unknown: /bin/false: it does not run: exit 1"),
    ],
)
def test_errors_are_one_line(arguments: tuple[str, ...], error: str) -> None:
    done = iotop_here("doctor", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(error)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_deeply_nested_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    for depth in (700, 950):  # Python's limit of nested calls is 1000, and cleaning takes up to two calls a level
        path.write_text(f'{{"format": 1, "checks": {"[" * depth}{"]" * depth}}}')
        done = iotop_here("doctor", "--diff", str(path), str(path))
        assert "RecursionError" not in done.stderr
        assert done.stderr.count("\n") <= 1


def test_control_characters_in_the_environment_are_not_printed(tmp_path: Path) -> None:
    path = make_venv(tmp_path / "env")
    package(site(path), "numpy", "1.0")
    info = site(path) / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: \x1b]0;owned\x07\nVersion: 1\x1b[2J\n")
    done = iotop(*QUICK, "--python", str(path), CUDA_LAUNCH_BLOCKING="\x1b[31m1")
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x07" not in done.stdout + done.stderr
