"""Looks up user names by UID on a thread, because the name service (NIS, LDAP, sssd) may be slow or never answer.

A UID that has a name is looked up only once.
"""

from __future__ import annotations

import pwd
from collections.abc import Callable, Sequence

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.with_timeout import BackgroundWorker
from iotop_ai.model.clean import clean
from iotop_ai.model.process.change_tracking import TrackedDictBuilder
from iotop_ai.model.process.records import ProcessInfo, ProcessKey

TIMEOUT_S = 0.05
"""How long a tick waits for names, in seconds.

A name in /etc/passwd takes 0.1 ms. Until a slower name arrives, the UID is shown.
"""
RETRY_S, LONGEST_RETRY_S = 60.0, 3600.0
"""The shortest and the longest time until the UIDs without a name are looked up again, in seconds.

A name service that does not answer looks like a UID that has no name.
"""

Lookup = Callable[[int], str]


def look_up_name(uid: int) -> str:
    """Return the name of a UID from the machine's name service. Raises KeyError when the UID has no name."""
    return pwd.getpwuid(uid).pw_name


class Users:
    """User names by UID. No names are looked up if /proc is not this process's own (--procfs, or a saved copy).

    A UID without a name is looked up again after a minute, then after two, and so on up to an hour. look_up: a function
    like ``look_up_name``.
    """

    def __init__(
        self,
        root: Root,
        look_up: Lookup = look_up_name,
        timeout_s: float = TIMEOUT_S,
        clock: Clock = Clock(),  # noqa: B008 - it has no state
    ) -> None:
        self._live = root.live
        self._timeout_s = timeout_s
        self._look_up = look_up
        self._names: dict[int, str] = {}
        """The name by UID; the UID as text while the name is unknown."""
        self._pending: list[int] = []
        """The UIDs whose lookup has not begun."""
        self._nameless: list[int] = []
        """The UIDs without a name at their last lookup."""
        self._clock = clock
        self._retry_s, self._retry_ns = RETRY_S, clock.monotonic_ns() + int(RETRY_S * 1e9)
        self._worker = BackgroundWorker("users")
        self._arrived: list[tuple[int, str]] = []
        self._late: dict[int, str] = {}
        """The names by UID that have arrived since the last call of ``late_names``."""

    def name(self, uid: int) -> str:
        """Return the user's name without control characters; the UID as text while the name is unknown."""
        name = self._names.get(uid)
        if name is not None:
            return name
        self._names[uid] = str(uid)
        if self._live:
            self._pending.append(uid)
            self._collect(self._timeout_s)
            self._late.pop(uid, None)
        return self._names[uid]

    def late_names(self) -> dict[int, str]:
        """Return the names by UID that have arrived since the last call, and start the pending lookups."""
        self._collect(0.0)
        names, self._late = self._late, {}
        return names

    def _collect(self, timeout_s: float) -> None:
        """Start the pending lookups, wait at most ``timeout_s`` for them, and store the names that have arrived."""
        if self._nameless and not self._worker.busy and self._clock.monotonic_ns() >= self._retry_ns:
            self._pending += self._nameless
            self._nameless = []
            self._retry_s = min(LONGEST_RETRY_S, 2 * self._retry_s)
            self._retry_ns = self._clock.monotonic_ns() + int(self._retry_s * 1e9)
        uids = tuple(self._pending)
        if uids and self._worker.submit(lambda: self._look_up_names(uids)):
            self._pending = []
            self._worker.wait(timeout_s)
        while self._arrived:
            uid, name = self._arrived.pop()
            self._names[uid] = self._late[uid] = name
            self._retry_s = RETRY_S

    def apply_late_names(self, info: TrackedDictBuilder[ProcessKey, ProcessInfo]) -> None:
        """Put the names that have arrived since the last call into the info of the users' processes."""
        if names := self.late_names():
            for key, old in [(key, old) for key, old in info.now.items() if old.uid in names]:
                info.put(key, old._replace(user=names[old.uid]))

    def close(self) -> None:
        """End the thread."""
        self._worker.close()

    def _look_up_names(self, uids: Sequence[int]) -> None:
        for uid in uids:
            try:
                self._arrived.append((uid, clean(self._look_up(uid)) or str(uid)))
            except (KeyError, OverflowError, OSError):
                self._nameless.append(uid)
