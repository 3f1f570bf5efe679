"""A child process with its own NVML library, which is queried line by line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPO = Path(__file__).parents[3]


class Asker:
    """The child process. library: its NVML library; None for that of the machine.

    conf: the text file with the answers of the library. log: the file in which the library lists its calls.
    """

    def __init__(
        self, folder: Path, library: Path | None, every_s: float = 0.05, retry_s: float = 0.1, root: Path | None = None
    ) -> None:
        self.conf, self.log = folder / "gpu.conf", folder / "calls"
        env = {**os.environ, "FAKE_NVML": str(self.conf), "FAKE_NVML_LOG": str(self.log), "PYTHONPATH": str(REPO)}
        if library is not None:
            env["LD_LIBRARY_PATH"] = str(library.parent)
        command = [
            sys.executable,
            "-m",
            "tests.rigs.nvml.ask",
            str(every_s),
            str(retry_s),
            *([str(root)] if root else []),
        ]
        self._child = subprocess.Popen(
            command, cwd=REPO, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __call__(self, command: str) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(command + "\n")
        self._child.stdin.flush()
        answer: dict[str, Any] = json.loads(self._child.stdout.readline())
        return answer

    def until(self, wanted: Callable[[dict[str, Any]], bool], command: str = "sweep") -> dict[str, Any]:
        """The first answer for which ``wanted`` is true. Raises AssertionError after a minute."""
        end = time.monotonic() + 60
        while not wanted(reading := self(command)):
            assert time.monotonic() < end, f"still {reading}"
            time.sleep(0.01)
        return reading

    def close(self) -> None:
        self._child.communicate(timeout=60)
        assert self._child.returncode == 0
