"""Keeps the exit codes of processes that have exited but are still listed."""

from __future__ import annotations

import contextlib

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.exit_codes import ExitWatch


class KnownExits:
    """Collects exit codes from zombies and, if the kernel permits it, from the kernel's reports.

    codes: by PID, the exit code or minus the signal. It contains each zombie that was seen alive and whose io we can
    read; if the kernel reports exits, it also contains every other exited process.
    """

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self._watch: ExitWatch | None = None

    @property
    def listening(self) -> bool:
        """Whether the kernel reports every exit."""
        return self._watch is not None

    def listen(self, root: Root) -> None:
        """Ask the kernel to report exits; it refuses without CAP_NET_ADMIN."""
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
        """Stop listening; a second call does nothing."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
