"""The screen for another machine: shows a live recording from a pipe. With --host, ssh starts that recording."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from iotop_ai.cli.commands.monitor.command import ScreenStart, memory_session_recorder, run_screen
from iotop_ai.cli.options.devices import devices_in_frame
from iotop_ai.cli.stderr import print_notice
from iotop_ai.collectors.io.programs import find_user_program
from iotop_ai.collectors.io.spawn import start
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.sources.recorded.source import STREAM_NAME, NoLineError, ReplaySource

SSH_VARIABLE = "IOTOP_AI_SSH"
"""The environment variable that holds the absolute path of the ssh to use."""
NOT_FOUND = 127
"""The exit code of a shell for an unknown program."""
NO_CONNECTION = 255
"""The exit code of ssh for errors of ssh itself."""
KEEPALIVE = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
"""With these options ssh notices a lost host (an unplugged cable, a crash) after 15 s instead of TCP's 15 minutes."""
_STDERR_BYTES = 4096
_EXIT_S = 1.0
"""The longest wait for ssh to exit, and for the end of its stderr, in seconds."""


def show_stream(
    settings: Settings,
    fd: int,
    *,
    shared: bool = False,
    why_failed: Callable[[InputError], str] = str,
    why_ended: Callable[[], str] = lambda: "",
) -> int:
    """Show the recording from a descriptor until the user leaves the screen; return the exit code.

    Raises InputError for a stream without a Snapshot.

    shared: whether the sender can read the same terminal. why_failed: returns the message for an error of the stream
    before its first Snapshot. why_ended: returns the sender's reason for a stream that ended before the user left.
    """
    source = ReplaySource("-", fd=fd)
    ended = False

    def frames_until_end() -> Iterator[Frame]:
        nonlocal ended
        yield from frames(source)
        ended = not source.closed

    def make_screen_start() -> ScreenStart:
        stream = frames_until_end()
        try:
            first = next(stream, None)
            if first is None:
                raise InputError("the stream ended before its first Snapshot")
        except InputError as error:
            raise InputError(why_failed(error)) from None
        base = first.snapshot if settings.accumulated else None
        devices = devices_in_frame(first, settings.devices)
        changes = {"remote": True, "interval_s": first.snapshot.interval_s, "base": base, "devices": devices}
        return ScreenStart(first, stream, source, changes, make_session_recorder=memory_session_recorder, shared=shared)

    code = run_screen(settings, make_screen_start, source.close)
    if ended and (reason := why_ended()):
        print_notice(reason)
    return code


def show_host(settings: Settings, host: str, flags: Mapping[str, object] = {}) -> int:
    """Start ``iotop-ai record`` on another machine through ssh and show its recording; return the exit code.

    Raises UsageError for a name that is not a host, such as an option, and InputError when ssh or the other machine
    fails.

    flags: the values of the flags on the command line, as ``flags_of`` returns them.
    """
    if not host or host.startswith("-") or any(c.isspace() or not c.isprintable() for c in host):
        raise UsageError(f"{clean(host)!r} is not a host; write name or user@name")
    with Ssh(host, record_command(settings.interval_s, flags), find_ssh()) as ssh:
        return show_stream(settings, ssh.fd, why_failed=ssh.why_failed, why_ended=ssh.why_ended)


def record_command(interval_s: float, flags: Mapping[str, object]) -> str:
    """Return the shell command that records the other machine to standard output.

    flags: as in ``show_host``. Flags about how the monitor reads a machine become flags of this command.
    """
    words = ["iotop-ai", "record", "-o", "-", "-d", f"{interval_s:g}"]
    words += ["--exact"] if "exact" in flags else []
    if "smart" in flags:
        words += ["--smart" if flags["smart"] else "--no-smart"]
    words += [f"--{name}={flags[name]}" for name in ("smartctl", "procfs", "sysfs") if name in flags]
    for disk, type_name in cast("tuple[tuple[str, str], ...]", flags.get("smart_types", ())):
        words += [f"--smart-type={disk}={type_name}"]
    return shlex.join(words)


def find_ssh() -> str:
    """Return the path of ssh: the value of IOTOP_AI_SSH, or else the first ssh in the PATH.

    Root searches the system's folders instead of the PATH. Raises InputError when ssh is not found.
    """
    if configured := os.environ.get(SSH_VARIABLE, ""):
        return configured
    if found := find_user_program("ssh"):
        return found
    searched = "the system's folders" if os.geteuid() == 0 else "the PATH"
    raise InputError(f"no ssh in {searched}; install the OpenSSH client, or set {SSH_VARIABLE} to its path")


class Ssh:
    """A command that ssh runs on another machine. ssh may ask for a password on the terminal.

    fd: the descriptor of the command's standard output.
    """

    def __init__(self, host: str, command: str, program: str) -> None:
        self._host = host
        argv = [program, *KEEPALIVE, "--", host, command]
        try:
            self._child = start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as error:
            raise InputError(f"{clean(program)}: {error.strerror}; is the OpenSSH client installed?") from None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self.fd = self._child.stdout.fileno()
        self._stderr = b""
        self._stderr_thread = threading.Thread(
            target=self._read_stderr, args=(self._child.stderr.fileno(),), daemon=True
        )
        self._stderr_thread.start()

    def _read_stderr(self, fd: int) -> None:
        """Keep the last bytes of stderr. All of stderr is read, because a full pipe would block ssh."""
        while block := os.read(fd, _STDERR_BYTES):
            self._stderr = (self._stderr + block)[-_STDERR_BYTES:]

    def why_failed(self, error: InputError) -> str:
        """Return the reason for a stream without a Snapshot, in one line. error: the error from reading the stream."""
        last = self._last_error_line()
        code = self._child.returncode
        if code == NOT_FOUND:
            return f"{self._host}: no iotop-ai in the PATH of that machine"
        if code == NO_CONNECTION:
            return f"{self._host}: no connection{': ' + last if last else ''}"
        if isinstance(error, NoLineError):
            return f"{self._host}: {last or 'the connection was closed before any data arrived'}"
        if code and last:
            return f"{self._host}: {last}"
        return f"{self._host}: {str(error).removeprefix(STREAM_NAME + ': ')}"

    def why_ended(self) -> str:
        """Return the reason for the end of the stream, in one line."""
        last = self._last_error_line()
        if self._child.returncode == 0:
            return f"{self._host}: its recorder has ended"
        if 0 < (self._child.returncode or 0) < NO_CONNECTION:  # the exit code of the recorder
            return f"{self._host}: its recorder has failed: {last or f'exit code {self._child.returncode}'}"
        return f"{self._host}: the connection was lost{': ' + last if last else ''}"

    def _last_error_line(self) -> str:
        self._stderr_thread.join(_EXIT_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_EXIT_S)
        lines = [clean(line).strip() for line in self._stderr.decode("utf-8", "replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")

    def __enter__(self) -> Ssh:
        return self

    def __exit__(self, *_: object) -> None:
        """End ssh. The recorder on the other machine ends when its pipe closes."""
        self._child.terminate()
        try:
            self._child.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._child.stdout.close()
        self._stderr_thread.join(_EXIT_S)
        # The master process of a shared connection (ControlPersist) keeps stderr open, so the thread may still be
        # reading. If the descriptor were closed now, the thread would read the next file that gets the same number.
        if not self._stderr_thread.is_alive():
            self._child.stderr.close()
