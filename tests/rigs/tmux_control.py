"""A connection to a tmux server that stays open: a process for each command would cost more than the command."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence


class TmuxControl:
    """A client of tmux in control mode. It does not affect the size of the windows, and gets no output of programs."""

    def __init__(self, server: Sequence[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [*server, "-C", "attach-session", "-f", "ignore-size,no-output"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        next(self._blocks())  # the answer to attach-session

    def run(self, argv: Sequence[str]) -> str:
        """Run one command, and return its output. Raises RuntimeError with tmux's message."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(os.fsencode(shlex.join(argv)) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(f"tmux {argv[0]}: no server") from None
        failed, output = next(self._blocks())
        if failed:
            raise RuntimeError(f"tmux {argv[0]}: {output.strip()}")
        return output

    def close(self) -> None:
        """Detach from the server."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def _blocks(self) -> Iterator[tuple[bool, str]]:
        """The answers to commands: whether the command failed, and its output. Notifications between them are left
        out.
        """
        assert self._process.stdout is not None
        number = b""
        lines: list[bytes] = []
        for line in self._process.stdout:
            kind, _, rest = line.partition(b" ")
            if not number:
                number = rest if kind == b"%begin" else b""
            elif kind in (b"%end", b"%error") and rest == number:
                yield kind == b"%error", b"".join(lines).decode("utf-8", "replace")
                number, lines = b"", []
            else:
                lines.append(line)
        raise RuntimeError("tmux: the server has ended")
