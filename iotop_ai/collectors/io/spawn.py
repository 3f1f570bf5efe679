"""Starts child processes in the folder "/". No signal is blocked in them, unless a function says otherwise.

``python -m`` searches the current folder first, which another user may own; the option ``-P`` prevents that search.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import iotop_ai

if TYPE_CHECKING:
    import subprocess
    from asyncio.subprocess import Process

SAFE_FOLDER = "/"
_KILLED_WAIT_S = 1.0
MODULE_FOLDERS = ("site-packages", "dist-packages")
"""The names of folders in which Python finds installed packages."""


@contextlib.contextmanager
def signals_unblocked() -> Iterator[None]:
    """Unblock all signals in this thread. A child that is started meanwhile starts with no signal blocked."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def own_python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs one of our modules.

    Raises FileNotFoundError when Python does not know its own path.
    """
    if not sys.executable:
        raise FileNotFoundError("this Python does not know its own path")
    return [sys.executable, "-P", "-m", module, *arguments]


def own_program() -> list[str]:
    """Return the command that runs this program: its script, or its module if there is no script.

    Raises FileNotFoundError when Python does not know its own path.
    """
    command = own_python("iotop_ai")
    script = os.path.join(os.path.dirname(sys.executable), "iotop-ai")
    return [script] if os.access(script, os.X_OK) else command


def own_environment(environ: Mapping[str, str] = os.environ, *, libraries: bool = False) -> dict[str, str]:
    """Return the environment for a Python child: without LD_ and PYTHON variables, except absolute PYTHONPATH folders.

    libraries: whether to keep the caller's LD_ variables; some containers need them to find NVML.
    """
    dropped_prefixes = ("PYTHON",) if libraries else ("LD_", "PYTHON")
    environment = {name: value for name, value in environ.items() if not name.startswith(dropped_prefixes)}
    # A relative path would name a different folder in the child, which runs in "/".
    folders = [folder for folder in environ.get("PYTHONPATH", "").split(":") if folder.startswith("/")]
    package_parent = os.path.dirname(os.path.dirname(os.path.abspath(iotop_ai.__file__)))
    if os.path.basename(package_parent) not in MODULE_FOLDERS:
        folders.insert(0, package_parent)  # in a checkout, the child finds the package only through PYTHONPATH
    if folders:
        environment["PYTHONPATH"] = ":".join(folders)
    return environment


def start(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program by its absolute path, like ``subprocess.Popen``. Raises OSError."""
    _must_be_absolute(argv[0])
    return start_user_command(argv, **options)


def start_own_child(module: str) -> subprocess.Popen[bytes]:
    """Start one of our modules in a new session, with pipes to its input and output. Raises OSError."""
    import subprocess

    return start(
        own_python(module),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=own_environment(),
        start_new_session=True,
    )


def run(
    argv: Sequence[str],
    *,
    input_bytes: bytes | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program by its absolute path until it ends, like ``subprocess.run``.

    After ``timeout`` seconds the program is killed. A program that cannot be killed, because it waits for a disk (state
    D) or runs as root through sudo, is abandoned. Raises OSError and TimeoutExpired.
    """
    import subprocess

    if input_bytes is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    child = start(argv, **options)
    try:
        out, stderr = child.communicate(input_bytes, timeout)
    except BaseException:
        _kill(child)
        raise
    return subprocess.CompletedProcess(child.args, child.returncode, out, stderr)


def _kill(child: subprocess.Popen[bytes]) -> None:
    from subprocess import TimeoutExpired

    with contextlib.suppress(PermissionError):
        child.kill()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):  # the child has not read all of its input
                pipe.close()
    with contextlib.suppress(TimeoutExpired):
        child.wait(_KILLED_WAIT_S)


def start_with_blocked_signals(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program like ``start``, but signals that this thread blocks stay blocked, here and in the program.

    A training may block a signal and collect it with sigwait. If this thread unblocked the signal for a moment, a
    pending one would end the training. Raises OSError.
    """
    import subprocess

    _must_be_absolute(argv[0])
    return subprocess.Popen(list(argv), **{"stdin": subprocess.DEVNULL, "cwd": SAFE_FOLDER, **options})


async def start_async(argv: Sequence[str], **options: Any) -> Process:
    """Start a program like ``start``, but for asyncio. Signals that this thread blocks stay blocked. Raises OSError."""
    import asyncio

    _must_be_absolute(argv[0])
    return await asyncio.create_subprocess_exec(*argv, **{"cwd": SAFE_FOLDER, **options})


def start_user_command(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command that the user gave; the program is looked up in the user's PATH. Raises OSError."""
    import subprocess  # imported here, because it is slow and the start of iotop-ai does not need it

    with signals_unblocked():
        return subprocess.Popen(list(argv), **{"stdin": subprocess.DEVNULL, "cwd": SAFE_FOLDER, **options})


def _must_be_absolute(program: str) -> None:
    if not program.startswith("/"):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
