"""Another machine on this screen: a recording that comes through a pipe as it is made, started by ssh when asked."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from iotop_ai.cli.monitor import Opening, run_screen
from iotop_ai.collectors.clock import Clock
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.sources.replay import ReplaySource

if TYPE_CHECKING:
    from iotop_ai.tui.keeper import Keeper

NO_SUCH_PROGRAM = 127
"""What a shell exits with when it finds no such program."""
NO_CONNECTION = 255
"""What ssh exits with for an error of its own."""
ALIVE = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
"""A host that is gone without a word (a cable, a crash) is noticed after 15 s, not after TCP's quarter of an hour."""
_HEARD = 4096
_LEAVE_S = 1.0


def show_stream(
    settings: Settings,
    fd: int,
    *,
    allow_root: bool = False,
    shared: bool = False,
    why: Callable[[], str] = lambda: "",
    lost: Callable[[], str] = lambda: "",
) -> int:
    """Show what comes on a descriptor until the user leaves; the exit code.

    shared: the sender may read the same terminal. why: what it says when nothing comes. lost: what it says when it has
    ended before the user left, which is then told. Raises InputError when nothing comes.
    """
    source = ReplaySource("-", allow_root=allow_root, fd=fd)
    ended = False

    def coming() -> Iterator[Frame]:
        nonlocal ended
        yield from frames(source)
        ended = True

    def opening() -> Opening:
        stream = coming()
        try:
            first = next(stream, None)
        except InputError as error:
            raise InputError(why() or str(error)) from None
        if first is None:
            raise InputError(why() or "the stream has ended before its first Snapshot")
        interval_s = first.snapshot.interval_s
        changes = {"remote": True, "interval_s": interval_s}
        return Opening(first, stream, source, changes, keeper=_keeper, shared=shared)

    code = run_screen(settings, opening, source.close)
    if ended and (reason := lost()):
        print(reason, file=sys.stderr)
    return code


def _keeper() -> Keeper:
    from iotop_ai.cli.keep import new_ring
    from iotop_ai.tui.keeper import Keeper

    return Keeper(Clock(), new_ring)


def show_host(settings: Settings, host: str) -> int:
    """Start ``iotop-ai record`` on another machine through ssh and show what it sends; the exit code.

    Raises UsageError for a name that ssh would read as an option, InputError when ssh or the other side fails.
    """
    if not host or host.startswith("-") or any(c.isspace() or not c.isprintable() for c in host):
        raise UsageError(f"{clean(host)!r} is no host; write name or user@name")
    with Ssh(host, f"iotop-ai record -o - -d {settings.interval_s:g}") as ssh:
        # What comes is decoded by the same bounded reader whoever sends it; root asked for this host by name.
        return show_stream(settings, ssh.fd, allow_root=True, why=ssh.why, lost=ssh.lost)


class Ssh:
    """A command on another machine. fd: its standard output. It may ask for a password on the terminal itself."""

    def __init__(self, host: str, command: str, program: str = "ssh") -> None:
        self._host = host
        try:
            self._child = subprocess.Popen(
                [program, *ALIVE, "--", host, command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise InputError(f"{program}: {error.strerror}; is the OpenSSH client installed?") from None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self.fd = self._child.stdout.fileno()
        self._heard = b""
        self._ear = threading.Thread(target=self._listen, args=(self._child.stderr.fileno(),), daemon=True)
        self._ear.start()

    def _listen(self, fd: int) -> None:
        """Keep the last words; the pipe must not fill."""
        while piece := os.read(fd, _HEARD):
            self._heard = (self._heard + piece)[-_HEARD:]

    def why(self) -> str:
        """Why nothing came, in one line."""
        last = self._last_words()
        if self._child.returncode == NO_SUCH_PROGRAM:
            return f"{self._host}: there is no iotop-ai in the PATH there"
        if self._child.returncode == NO_CONNECTION:
            return f"{self._host}: no connection{': ' + last if last else ''}"
        return f"{self._host}: {last or 'the connection was closed before anything came'}"

    def lost(self) -> str:
        """Why no more came, in one line."""
        last = self._last_words()
        if self._child.returncode == 0:
            return f"{self._host}: the recorder there has ended"
        return f"{self._host}: the connection was lost{': ' + last if last else ''}"

    def _last_words(self) -> str:
        self._ear.join(_LEAVE_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_LEAVE_S)
        lines = [clean(line).strip() for line in self._heard.decode("utf-8", "replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")

    def __enter__(self) -> Ssh:
        return self

    def __exit__(self, *_: object) -> None:
        """End it: the other side ends when its pipe is gone."""
        self._child.terminate()
        try:
            self._child.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        for stream in (self._child.stdout, self._child.stderr):
            if stream is not None:
                self._ear.join(_LEAVE_S)
                stream.close()
