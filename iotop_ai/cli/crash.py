"""Where the screen broke: the traceback goes into a file, one line says which."""

from __future__ import annotations

import contextlib
import platform
import traceback

import iotop_ai
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.state_folder import keep_file, state_folder
from iotop_ai.model.errors import IotopError

NAME = "crash.log"


def note_crash(error: BaseException) -> BaseException:
    """The error, with a note of the file that holds its traceback; without one where it is expected or cannot be kept.

    The file is replaced by the next crash and holds no value of a variable.
    """
    if isinstance(error, IotopError | KeyboardInterrupt):
        return error
    with contextlib.suppress(OSError):
        error.add_note(f"log: {_write(error)}")
    return error


def _write(error: BaseException) -> str:
    folder = state_folder()
    when = Clock().wall_ns() // 1_000_000_000
    head = (
        f"iotop-ai {iotop_ai.__version__}, Python {platform.python_version()}, {platform.release()}, Unix time {when}\n"
    )
    text = head + "".join(traceback.format_exception(error))
    keep_file(folder, NAME, text.encode("utf-8", "replace"))
    return str(folder / NAME)
