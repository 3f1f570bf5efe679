"""The decoding of a sample of pictures, measured in the user's own Python."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from iotop_ai.collectors.io.spawn import run
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.dataset import Decoding

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")
MOST_FILES, MOST_BYTES = 32, 32 << 20
_TIMEOUT_S = 15.0
_SOURCE = Path(__file__).with_name("decode_child.py")


def is_picture(path: str) -> bool:
    """Whether a file's name says so."""
    return path.lower().endswith(PICTURES)


def decode(python: str, files: Sequence[bytes]) -> Decoding:
    """Decode these files. Never raises: without a result ``why`` says the reason."""
    if not python:
        return Decoding(why="no Python of yours is found; --python names one")
    raw = b"".join(struct.pack(">I", len(each)) + each for each in files)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    try:
        done = run(
            [python, "-c", _SOURCE.read_text()], input=raw, capture_output=True, timeout=_TIMEOUT_S, env=environment
        )
        found = Decoding(**json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        return Decoding(why=f"decoding took more than {_TIMEOUT_S:g} s")
    except (OSError, ValueError, TypeError):
        return Decoding(why=f"{clean(python)} does not run")
    return found._replace(decoder=clean(found.decoder, 40), why=clean(found.why, 200))
