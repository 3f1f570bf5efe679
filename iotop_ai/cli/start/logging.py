"""The program's log: off, or written to the file that IOTOP_AI_LOG names."""

from __future__ import annotations

import logging
import os

from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError

LOG_VARIABLE = "IOTOP_AI_LOG"
_LONGEST_LINE = 4096
"""The maximum number of characters of a line."""


def quiet_log() -> None:
    """Keep log lines off the terminal: write them to the file that IOTOP_AI_LOG names, or drop them.

    A second call, for example for another screen, does nothing. Raises InputError for a file to which the program may
    not append: another user's file, or a symbolic link.
    """
    path, log = os.environ.get(LOG_VARIABLE), logging.getLogger("iotop_ai")
    name = f"{LOG_VARIABLE}={path or ''}"
    if any(handler.get_name() == name for handler in log.handlers):
        return
    handler = _file_handler(path) if path else logging.NullHandler()
    handler.set_name(name)
    log.addHandler(handler)


def _file_handler(path: str) -> logging.Handler:
    from iotop_ai.store.format.secrets import without_secrets

    class CleanFormatter(logging.Formatter):
        """Formats a record without control characters and without text that looks like a secret."""

        def format(self, record: logging.LogRecord) -> str:
            lines = super().format(record).split("\n")
            return "\n".join(without_secrets(clean(line, _LONGEST_LINE)) for line in lines)

    handler = logging.StreamHandler(open(_open_log(path), "a", encoding="utf-8", errors="replace"))  # noqa: SIM115
    handler.setFormatter(CleanFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler


def _open_log(path: str) -> int:
    from iotop_ai.collectors.io.own_file import open_to_append

    try:
        return open_to_append(path)
    except OSError as error:
        why = "a symbolic link; name the file itself" if os.path.islink(path) else error.strerror
        raise InputError(f"{LOG_VARIABLE}: {clean(path)}: {why}") from None
