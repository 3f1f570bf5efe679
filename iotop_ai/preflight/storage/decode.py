"""Measures how fast the user's Python decodes a sample of images."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.linux_calls import memory_file
from iotop_ai.collectors.io.spawn import start
from iotop_ai.model.clean import clean
from iotop_ai.model.job.exits import how_it_ended
from iotop_ai.model.preflight.dataset import Decoding
from iotop_ai.preflight.user_python import NO_PYTHON, last_line, without_user_site

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")
MOST_FILES, MOST_BYTES = 32, 32 << 20
_TIMEOUT_S = 15.0
_TICK_S = 0.2
_KILLED_S = 1.0
"""The longest wait for a killed Python, in seconds. A killed process that waits for storage does not end."""
_SOURCE = Path(__file__).with_name("decode_child.py")


def is_image(path: str) -> bool:
    """Whether a file's name has the suffix of an image."""
    return path.lower().endswith(IMAGE_SUFFIXES)


def decode(python: str, files: Sequence[bytes], clock: Clock, proceed: Callable[[], bool]) -> Decoding:
    """Decode the content of these files. Never raises: ``why`` of a Decoding without a result holds the reason.

    proceed: called several times a second; if it returns False, the measurement ends.
    """
    if not python:
        return Decoding(why=NO_PYTHON)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment |= without_user_site(os.environ)
    command = [python, "-c", _SOURCE.read_text()]
    end_ns = clock.monotonic_ns() + int(_TIMEOUT_S * 1e9)
    try:
        # A file in memory instead of a pipe, because nothing would fill a pipe while we wait for the child.
        with memory_file("images") as source:
            source.write(b"".join(struct.pack(">I", len(content)) + content for content in files))
            source.seek(0)
            child = start(command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        while True:
            try:
                out, _ = child.communicate(timeout=_TICK_S)
                break
            except subprocess.TimeoutExpired:
                proceeds = proceed()
                if not proceeds or clock.monotonic_ns() > end_ns:
                    child.kill()
                    with suppress(subprocess.TimeoutExpired):
                        child.communicate(timeout=_KILLED_S)
                    return Decoding(why=f"decoding took more than {_TIMEOUT_S:g} s" if proceeds else "stopped")
        if child.returncode < 0:
            return Decoding(why=f"decoding was ended by {how_it_ended(child.returncode)}")
        decoding = Decoding(**json.loads(last_line(out)))
    except (OSError, ValueError, TypeError, RecursionError):
        return Decoding(why=f"{clean(python)} does not run")
    return decoding._replace(decoder=clean(decoding.decoder, 40), why=clean(decoding.why, 200))
