"""The version of the installed Textual. Private parts of Textual are replaced only in releases with which the
replacement was tested.
"""

from __future__ import annotations

import contextlib
import os

import textual


def installed_version() -> str:
    """Textual's version, from the name of its metadata folder; ``textual.__version__`` takes 15 ms to read it."""
    begin, end = "textual-", ".dist-info"
    with contextlib.suppress(OSError):
        names = os.listdir(os.path.dirname(os.path.dirname(textual.__file__)))
        folders = [name for name in names if name.startswith(begin) and name.endswith(end)]
        if len(folders) == 1:
            return folders[0][len(begin) : -len(end)]
    return textual.__version__
