"""Reads secrets from files, such as a token or a password.

Secrets are never taken from the command line, because every user can read the command lines of all processes.
"""

from __future__ import annotations

import os
import stat

from iotop_ai.collectors.io.input_file import open_input
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError

_MOST_BYTES = 4096
"""The most bytes that the file may have."""


def read_secret(path: str, flag: str, description: str = "a token") -> str:
    """Return the single word that a file holds.

    flag, description: the option that names the file, and what it holds, for error messages. Raises InputError unless
    the file belongs to us or to root, only its owner can write it, only its owner and group can read it, and it holds
    one ASCII word.
    """
    named = f"{flag} {clean(path)}"
    try:
        with open_input(path) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{named} is not a regular file")
            if status.st_uid not in (0, os.geteuid()):
                raise InputError(f"{named}: it belongs to user {status.st_uid}, not to you or to root (chown it)")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_IROTH):
                raise InputError(f"{named}: other users can read it or write to it (chmod 600)")
            raw = file.read(_MOST_BYTES + 1)
            if len(raw) > _MOST_BYTES:
                raise InputError(f"{named} is longer than {_MOST_BYTES} bytes")
            word = raw.decode("ascii").strip()
    except OSError as error:
        raise InputError(f"{named}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{named}: {description} must be ASCII text") from None
    if not word or not word.isprintable() or " " in word:
        raise InputError(f"{named}: write {description} on one line, without spaces")
    return word
