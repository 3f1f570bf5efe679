"""The data set of a case. Its stack writes it once; later runs copy it, which is faster than importing the stack."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.scenarios.stacks.case import HERE, Case
from tests.scenarios.stacks.install import folder


def fill_from_cache(target: Path, key: str, write: Callable[[Path], None]) -> None:
    """Copy the data set with this key into the folder. write: makes the data set if it is missing."""
    kept = folder() / "data" / key
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as place:
            fresh = Path(place) / "fresh"
            fresh.mkdir()
            write(fresh)
            fresh.rename(kept)
    shutil.copytree(kept, target, dirs_exist_ok=True)


def fill(case: Case, target: Path) -> None:
    """Write the case's data set. Raises RuntimeError with the stack's message when that fails."""
    text = b"".join((HERE / name).read_bytes() for name in (case.script, "images.py"))
    stream = "-stream" if "--stream" in case.options else ""
    form = f"-{case.options[case.options.index('--format') + 1]}" if "--format" in case.options else ""
    key = f"{case.stack}-{case.megabytes}{stream}{form}-{hashlib.sha256(text).hexdigest()[:12]}"

    def write(place: Path) -> None:
        done = subprocess.run(case.prepare(place), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the data set cannot be written: {done.stderr[-600:]}")

    fill_from_cache(target, key, write)
