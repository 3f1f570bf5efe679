"""The results folder: one file a run, whole or not there, so that an interrupted benchmark goes on where it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.scenarios.plan import Run

PLAN = "plan.json"


class OtherPlanError(Exception):
    """The folder holds the results of another plan."""


class Results:
    """``done(run)`` and ``add(run, record)``. The folder remembers by which seed and seconds it was begun."""

    def __init__(self, folder: Path, plan: dict[str, Any], *, resume: bool) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        stamp = folder / PLAN
        if resume and stamp.exists():
            old = json.loads(stamp.read_text())
            if old != plan:
                raise OtherPlanError(f"{folder} was begun with {old}, not with {plan}; say the same or no --resume")
        elif any(folder.glob("*.json")):
            self._set_aside()
        _write(stamp, plan)

    def _set_aside(self) -> None:
        number = 1
        while (other := self.folder.with_name(f"{self.folder.name}.{number}")).exists():
            number += 1
        self.folder.rename(other)
        self.folder.mkdir()

    def file(self, run: Run, ending: str) -> Path:
        """Where something of a run lies."""
        return self.folder / f"{run.file}.{ending}"

    def done(self, run: Run) -> bool:
        """Whether a run has a result."""
        return self.file(run, "json").exists()

    @staticmethod
    def done_in(folder: Path) -> frozenset[str]:
        """Return the names of the runs that have a result in a folder."""
        return frozenset(path.stem for path in folder.glob("*.json") if path.name != PLAN)

    def add(self, run: Run, record: dict[str, Any]) -> None:
        """Keep a result; after a kill it is there whole or not at all."""
        _write(self.file(run, "json"), record)
        self.file(run, "failed").unlink(missing_ok=True)

    def fail(self, run: Run, error: str) -> None:
        """Note a run that could not be made; it has no result and is tried again."""
        _write(self.file(run, "failed"), {"name": run.name, "number": run.number, "error": error})

    def all(self) -> list[dict[str, Any]]:
        """Return every result so far, by name."""
        return read_all(self.folder)


def read_all(folder: Path) -> list[dict[str, Any]]:
    """Every result in a folder, by name, and what could not be made: a record with ``error`` and without ``rows``."""
    found = [path for path in folder.iterdir() if path.suffix in (".json", ".failed") and path.name != PLAN]
    return [json.loads(path.read_text()) for path in sorted(found)]


def _write(path: Path, value: object) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
