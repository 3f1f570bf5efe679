"""The crash log of the screen: the traceback is written to a file, and one line on stderr names the file."""

from __future__ import annotations

import contextlib
import platform
import traceback

import iotop_ai
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.state.folder import keep_file, state_folder, state_path
from iotop_ai.model.errors import IotopError
from iotop_ai.store.format.secrets import without_secrets

NAME = "crash.log"


def note_crash(error: BaseException) -> BaseException:
    """Write the crash log and return the error with a note that names the log.

    An expected error (an IotopError or a Ctrl-C) is returned without a note. The note is also missing if the log cannot
    be written.

    The log holds no values of local variables and no text that looks like a secret. The next crash replaces the log.
    """
    if isinstance(error, IotopError | KeyboardInterrupt):
        return error
    with contextlib.suppress(OSError):
        error.add_note(f"log: {call_with_timeout(HOME_TIMEOUT_S, state_path(), lambda: _write(error))}")
    return error


def _write(error: BaseException) -> str:
    folder = state_folder()
    when = Clock().wall_ns() // 1_000_000_000
    head = (
        f"iotop-ai {iotop_ai.__version__}, Python {platform.python_version()}, {platform.release()}, Unix time {when}\n"
    )
    lines = "".join(traceback.format_exception(error)).split("\n")
    text = head + "\n".join(map(without_secrets, lines))
    keep_file(folder, NAME, text.encode("utf-8", "replace"))
    return str(folder / NAME)
