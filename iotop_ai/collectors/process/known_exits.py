"""The processes that have exited and are still listed, with their exit codes."""

from __future__ import annotations

import contextlib

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.exit_codes import ExitWatch


class KnownExits:
    """Exit codes of processes that have exited and are still listed.

    codes: exit code, or minus the signal, by pid: of zombies, and of all that exit where the kernel reports it.
    """

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self._watch: ExitWatch | None = None

    @property
    def listening(self) -> bool:
        """Whether the kernel reports every exit."""
        return self._watch is not None

    def listen(self, root: Root) -> None:
        """Ask the kernel to report exits; without CAP_NET_ADMIN it does not."""
        with contextlib.suppress(Unavailable):
            self._watch = ExitWatch(root)

    def take(self) -> None:
        """Add the exits that the kernel has reported since the last call."""
        if self._watch is not None:
            try:
                self.codes.update(self._watch.read())
            except OSError:
                self.close()

    def close(self) -> None:
        """Stop listening; may be called twice."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
