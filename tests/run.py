"""Install what the tests need, and run all tests: ``python3 tests/run.py [--slow] [pytest arguments]``.

It uses only the standard library, so that a system Python 3.11 with venv and pip can start it. If something cannot be
installed, the reason is printed, and the tests that need it skip themselves.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

TOP = Path(__file__).resolve().parent.parent
DEBIAN_PACKAGES = (
    *("fio", "sysstat", "smartmontools", "tmux", "libfuse3-dev", "fuse3", "pkg-config", "gcc", "libc6-dev"),
    *("valgrind", "strace", "bindfs", "psmisc", "procps", "util-linux", "e2fsprogs", "rsync", "sudo"),
    "prometheus",
)
SLOW_PACKAGES = ("qemu-system-x86", "seabios", "ipxe-qemu", "busybox-static", "cpio", "kmod")
LACKS_SCRIPT = """
import json, sys
from importlib.metadata import PackageNotFoundError, distribution
from pip._vendor.packaging.requirements import Requirement
lacks = []
for line in sys.argv[1:]:
    need = Requirement(line)
    try:
        if not need.specifier.contains(distribution(need.name).version, prereleases=True):
            lacks.append(line)
    except PackageNotFoundError:
        lacks.append(line)
try:
    origin = json.loads(distribution("iotop-ai").read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        lacks.append("iotop-ai, editable")
except PackageNotFoundError:
    lacks.append("iotop-ai, editable")
print("\\n".join(lacks))
"""


def say(text: str) -> None:
    print(f"tests/run.py: {text}", flush=True)


def requirements() -> list[str]:
    """The requirements of the package and its dev group, read here because Debian 12's pip has no --group."""
    import tomllib  # this import is not at the top, so that an older Python gets a message instead of an ImportError

    project = tomllib.loads((TOP / "pyproject.toml").read_text())
    return [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]


def make_venv(folder: Path) -> Path:
    """The Python of a venv that has the package (editable) and the dev group; the venv is created if missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        say(f"making {folder}")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    check = subprocess.run(
        [str(python), "-c", LACKS_SCRIPT, *requirements()], capture_output=True, text=True, check=False
    )
    lacks = check.stdout.split("\n") if check.returncode == 0 else ["everything"]
    lacks = [line for line in lacks if line]
    if not lacks:
        return python
    if not os.access(folder, os.W_OK):
        say(f"{folder} lacks {', '.join(lacks)} and is not yours to change; give your own with --venv DIR")
        raise SystemExit(2)
    say(f"installing into {folder}: {', '.join(lacks)}")
    subprocess.run([str(python), "-m", "pip", "install", "-q", "-e", str(TOP), *requirements()], check=True)
    return python


def report_torch(python: Path) -> None:
    """Report a missing torch: it is large and has several builds, so the user has to install it."""
    check = subprocess.run([str(python), "-c", "import torch"], capture_output=True, check=False)
    if check.returncode and "IOTOP_AI_TORCH_PYTHON" not in os.environ:
        say("skipped tests with torch: install it into the venv, or set IOTOP_AI_TORCH_PYTHON to a Python with it")


def missing_packages(wanted: Sequence[str]) -> list[str]:
    """The packages in ``wanted`` that are not installed."""
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted]
    answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    # A library package may be listed once for each architecture, as name:arch.
    installed = {line.split(" ")[0].split(":")[0] for line in answer.splitlines() if line.endswith(" installed")}
    return [name for name in wanted if name not in installed]


def install_packages(wanted: Sequence[str]) -> None:
    """Install the Debian packages if this is root on Debian; otherwise print a reason."""
    if not shutil.which("dpkg-query") or not shutil.which("apt-get"):
        say(f"skipped Debian packages: no apt here; the tests use {', '.join(wanted)} where they are found")
        return
    lacks = missing_packages(wanted)
    if not lacks:
        return
    if os.geteuid() != 0:
        say(f"skipped Debian packages: not root; missing {', '.join(lacks)} (sudo apt-get install {' '.join(lacks)})")
        return
    say(f"installing Debian packages: {', '.join(lacks)}")
    # In runlevel 1 invoke-rc.d starts no service; otherwise the package of Prometheus would start it.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *lacks]
    for command in (["apt-get", "update", "-q"], install):
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            say(f"skipped Debian packages: {' '.join(command[:2])} failed with {done.returncode}")
            return


NO_TESTS = 5
"""pytest's exit code when no test was selected."""


NICE = ("nice", "-n", "10") if shutil.which("nice") else ()
SIDE_BY_SIDE = "not alone and not pure"


def run_tests(python: Path, arguments: list[str]) -> int:
    """Run pytest in the project's folder: first the tests that must run alone, then those that run side by side.

    Many tests wait for a terminal or a program, so there are three workers for each core. The tests that only compute
    run beside both groups, at a low priority while the first group runs. A failed test is not repeated.
    """
    workers = str(3 * (os.cpu_count() or 1))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output, open(os.devnull, "wb") as unread:
        environment = dict(os.environ)
        command = [str(python), "-m", "pytest"]
        if writable := os.access(TOP, os.W_OK):
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            # Otherwise hundreds of programs would compile the package.
            subprocess.run([str(python), "-m", "compileall", "-q", "-j", "0", str(TOP / "iotop_ai")], env=environment)
        else:
            environment |= {"PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_STORAGE_DIRECTORY": folder}
            command += ["-p", "no:cacheprovider"]

        def start(*words: str, out: IO[bytes]) -> subprocess.Popen[bytes]:
            line = [*NICE, *command, "-m", *words, *arguments]
            return subprocess.Popen(line, cwd=TOP, env=environment, stdout=out, stderr=subprocess.STDOUT)

        def run(*words: str) -> int:
            return subprocess.run([*command, "-m", *words, *arguments], cwd=TOP, env=environment).returncode

        pure = start("pure", out=output)
        # This compiles the tests that run side by side; otherwise each worker would compile them.
        compiles = start(SIDE_BY_SIDE, "--collect-only", "-qq", out=unread) if writable else None
        try:
            codes = [run("alone")]
            if compiles is not None:
                compiles.wait()
            with contextlib.suppress(OSError):  # only root can raise the priority; otherwise it stays low
                os.setpriority(os.PRIO_PROCESS, pure.pid, 0)
            codes += [run(SIDE_BY_SIDE, "-n", workers, "--dist", "loadgroup"), pure.wait()]
        finally:
            for process in (pure, compiles):
                if process is not None:
                    process.kill()
        output.seek(0)
        sys.stdout.write(output.read().decode("utf-8", "replace"))
        sys.stdout.flush()
    if set(codes) == {NO_TESTS}:
        return NO_TESTS
    return next((code for code in codes if code not in (0, NO_TESTS)), 0)


def main() -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - any python3 may start this
        say(f"needs Python 3.11 or newer; this is {sys.version.split()[0]}")
        return 2
    parser = argparse.ArgumentParser(description="Install what the tests need and run them all but the slow ones.")
    parser.add_argument("--slow", action="store_true", help="also the slow ones: QEMU guests, torch, long loops")
    parser.add_argument("--install", action="store_true", help="install only, run nothing")
    parser.add_argument("--venv", type=Path, default=TOP / ".venv", metavar="DIR", help="default: .venv")
    ours, rest = parser.parse_known_args()
    try:
        python = make_venv(ours.venv.absolute())
    except subprocess.CalledProcessError as error:
        say(f"failed: {' '.join(map(str, error.cmd))}")
        return 2
    install_packages((*DEBIAN_PACKAGES, *(SLOW_PACKAGES if ours.slow else ())))
    if ours.install:
        return 0
    if ours.slow:
        report_torch(python)
    return run_tests(python, [*(["--slow"] if ours.slow else []), *rest])


if __name__ == "__main__":
    sys.exit(main())
