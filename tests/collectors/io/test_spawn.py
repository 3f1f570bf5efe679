"""How children are started: by one module, in "/", and for root without the PATH of the caller."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import iotop_ai
from iotop_ai.collectors.io.programs import find_program, find_user_program
from iotop_ai.collectors.io.spawn import own_environment, own_program, own_python, run, start
from tests.rigs.nobody import as_user

PACKAGE = Path(iotop_ai.__file__).parent
SPAWN = "collectors/io/spawn.py"
STARTS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {"system", "popen", "fork", "forkpty", "startfile"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "loop": {"subprocess_exec", "subprocess_shell"},
    "shutil": {"which"},
    "pty": {"spawn", "fork"},
    "sys": {"executable"},
}
ALLOWED = {
    SPAWN: {"asyncio.create_subprocess_exec", "subprocess.Popen", "sys.executable"},
    "cli/commands/assets.py": {"sys.executable"},  # this path is named in the scripts for Slurm
    "cli/commands/record/child.py": {"subprocess.Popen", "os.execvpe"},  # the user's command after ``record --``
    "collectors/process/python_code.py": {"sys.executable"},  # py-spy is installed beside this Python
    "preflight/loader/run_child.py": {"os.fork"},  # the process that ends the workers runs this program's code too
    "preflight/storage/reader.py": {"os.fork"},  # the readers run this program's code, so no program is started
}


MAY_START = re.compile(
    r"\b(subprocess|asyncio|loop|shutil|pty)\b|\bos\.(system|popen|fork|startfile|exec|spawn|posix_spawn)"
    r"|\bsys\.executable|\bfrom (os|sys) import|[\"']-m[\"']"
)
"""Matches the text of every file that may start a program. Parsing all files would take seconds."""


def starts(tree: ast.AST) -> Iterator[str]:
    """Every use of a function that starts a program, and of a Python that runs a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            begins = owner == "os" and name.startswith(("exec", "spawn", "posix_spawn"))
            if begins or name in STARTS.get(owner, ()):
                yield f"{owner}.{name}"
        elif isinstance(node, ast.ImportFrom) and node.module in STARTS:
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name in STARTS[node.module])
        elif isinstance(node, ast.List | ast.Tuple):
            words = [part.value for part in node.elts if isinstance(part, ast.Constant)]
            if "-m" in words and any(str(word).startswith("iotop_ai") for word in words):
                yield "-m"


def test_every_program_is_started_in_one_place() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not MAY_START.search(text):
            continue
        tree = ast.parse(text)
        for node in ast.walk(tree):  # a type annotation does not start anything
            for field in ("annotation", "returns"):
                if getattr(node, field, None) is not None:
                    setattr(node, field, None)
        if here := set(starts(tree)):
            found[str(path.relative_to(PACKAGE))] = here
    assert found == ALLOWED


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(['ls'])",
        "from subprocess import Popen",
        "os.execv('/bin/ls', ['ls'])",
        "os.posix_spawnp('ls', ['ls'], {})",
        "asyncio.create_subprocess_shell('ls')",
        "shutil.which('ls')",
        "x = [sys.executable]",
        "x = ['python3', '-m', 'iotop_ai.store.write.compress']",
    ],
)
def test_a_start_in_another_place_is_found(line: str) -> None:
    assert MAY_START.search(line)
    assert list(starts(ast.parse(line)))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with programs of known names, and with packages that a Python started there would import."""
    package = tmp_path / "iotop_ai"
    package.mkdir()
    for name in ("__init__", "__main__", "json"):
        (package / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    for name in ("ssh", "tmux", "smartctl", "sudo", "rsync", "sysctl"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
        program.chmod(0o755)
    return tmp_path


def test_a_python_child_imports_nothing_from_the_current_folder(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hostile)
    child = start(own_python("iotop_ai", "--version"), env=own_environment(), stdout=subprocess.PIPE)
    out, _ = child.communicate(timeout=60)
    assert out.startswith(b"iotop-ai ")
    assert child.returncode == 0
    assert not (hostile / "ran").exists()


def test_without_the_flag_p_the_current_folder_is_searched(hostile: Path) -> None:
    # This shows that the previous test means something: this Python does import from that folder.
    subprocess.run([sys.executable, "-m", "iotop_ai"], cwd=hostile, check=True, timeout=60)
    assert (hostile / "ran").exists()


def test_a_child_gets_a_clean_environment() -> None:
    unclean = {
        "PYTHONPATH": ".::/modules:lib",
        "PYTHONSTARTUP": "x",
        "LD_PRELOAD": "./x.so",
        "LD_LIBRARY_PATH": "/n",
        "HOME": "/h",
    }
    environment = own_environment(unclean)
    assert environment.pop("PYTHONPATH").removeprefix(f"{PACKAGE.parent}:") == "/modules"
    assert environment == {"HOME": "/h"}
    assert own_environment(unclean, libraries=True)["LD_LIBRARY_PATH"] == "/n"


def test_a_child_runs_in_a_safe_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["/bin/pwd"], capture_output=True).stdout == b"/\n"
    with pytest.raises(FileNotFoundError):
        start(["pwd"])
    with pytest.raises(FileNotFoundError):
        run(["./pwd"])


def test_a_program_gets_its_input_and_ends_at_its_time_limit() -> None:
    result = run(["/bin/cat"], input_bytes=b"in", capture_output=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"in", b"")
    with pytest.raises(subprocess.TimeoutExpired):
        run(["/bin/sleep", "600"], input_bytes=bytes(1 << 20), timeout=0.1)


AS_ROOT = "#include <unistd.h>\nint main(void) { char c; alarm(60); return setuid(0) || read(WAIT_FOR, &c, 1); }"
"""Becomes root like sudo, so that its user cannot kill it, and waits for the end of a pipe, for at most a minute."""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("cc"), reason="needs root, for a setuid program, and cc")
def test_a_program_that_cannot_be_killed_is_abandoned(tmp_path: Path) -> None:
    program = tmp_path / "program"
    reader, writer = os.pipe()
    flags = ["-x", "c", f"-DWAIT_FOR={reader}", "-o", str(program), "-"]
    subprocess.run(["cc", *flags], input=AS_ROOT, text=True, check=True)
    program.chmod(0o4755)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)

    def run_program() -> None:
        os.close(writer)
        begun = time.monotonic()
        with pytest.raises(subprocess.TimeoutExpired):
            run([str(program)], capture_output=True, timeout=0.1, pass_fds=(reader,))
        assert time.monotonic() - begun < 30

    try:
        assert as_user(65534, run_program) == 0
    finally:
        os.close(writer)
        os.close(reader)


def test_own_program_is_the_script_or_a_python_with_safe_flags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert own_program() == [str(tmp_path / "python"), "-P", "-m", "iotop_ai"]
    (tmp_path / "iotop-ai").touch(0o755)
    assert own_program() == [str(tmp_path / "iotop-ai")]
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(FileNotFoundError, match="does not know its own path"):
        own_program()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root does not search PATH")
def test_root_does_not_search_the_callers_path(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{hostile}:.:{os.environ['PATH']}")
    for name in ("ssh", "tmux", "sudo", "rsync", "sysctl", "smartctl"):
        for find in (find_program, find_user_program):
            found = find(name)
            assert not found or Path(found).parent != hostile


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_an_ordinary_users_programs_are_searched_in_path(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (hostile, *hostile.parents[:-2]):
        folder.chmod(0o755)
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PATH", f".::{hostile}:/usr/bin")

    def find_programs() -> None:
        assert [find_user_program(name) for name in ("ssh", "tmux")] == [str(hostile / "ssh"), str(hostile / "tmux")]
        assert find_program("rsync") != str(hostile / "rsync")
        os.environ["PATH"] = ".:"
        assert find_user_program("ssh") == ""

    assert as_user(65534, find_programs) == 0


def test_a_missing_program_is_an_error() -> None:
    assert find_program("no-such-program-here") == ""
