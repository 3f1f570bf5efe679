"""User names by uid, asked once each."""

from __future__ import annotations

import pwd

from iotop_ai.collectors.root import Root
from iotop_ai.model.clean import clean


class Users:
    """uid to name, through the machine's own name service when the root is live.

    A name service may be slow (LDAP): each uid is asked once, unknown ones too.
    """

    def __init__(self, root: Root) -> None:
        self._live = root.live
        self._names: dict[int, str] = {}

    def name(self, uid: int) -> str:
        """The clean user name; the uid as text when nobody has it or the root is a captured tree."""
        known = self._names.get(uid)
        if known is None:
            known = self._names[uid] = self._ask(uid)
        return known

    def _ask(self, uid: int) -> str:
        if self._live:
            try:
                return clean(pwd.getpwuid(uid).pw_name) or str(uid)
            except (KeyError, OverflowError):
                return str(uid)
        return str(uid)
