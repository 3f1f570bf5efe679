"""A file that appears whole or not at all."""

from __future__ import annotations

import os
from types import TracebackType

from iotop_ai.model.errors import InputError, UsageError


class OutFile:
    """Written as OUT.PID.part beside OUT and renamed by ``commit``; without it, leaving the block removes the part.

    An existing OUT is refused without ``force``, also one that appears while the part is being written. Mode 0600:
    what is exported names users and programs.
    """

    def __init__(self, path: str, *, force: bool = False) -> None:
        self.path = path
        self.part = f"{path}.{os.getpid()}.part"
        self._force = force
        if os.path.isdir(path):
            raise UsageError(f"{path} is a folder")
        if os.path.lexists(path) and not force:
            raise UsageError(f"{path} exists; --force replaces it")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(self.part, flags, 0o600))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        self._open = True

    def commit(self) -> None:
        """Give it its name. What was written must be closed."""
        if self._force:
            os.replace(self.part, self.path)
        else:
            self._name()
        self._open = False

    def _name(self) -> None:
        try:
            # Unlike a rename, a link does not replace what has come to be there meanwhile.
            os.link(self.part, self.path)
        except FileExistsError:
            raise UsageError(f"{self.path} exists; --force replaces it") from None
        except OSError:  # a filesystem without hard links
            os.rename(self.part, self.path)
        else:
            os.unlink(self.part)

    def __enter__(self) -> OutFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            os.unlink(self.part)
            self._open = False
