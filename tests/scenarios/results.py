"""The results folder. Each run has a file that is complete or missing, so an interrupted benchmark can continue."""

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
    """The results of a benchmark. The folder also stores the settings of the benchmark's plan."""

    def __init__(self, folder: Path, plan: dict[str, Any], *, resume: bool) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        plan_file = folder / PLAN
        if resume and plan_file.exists():
            old = json.loads(plan_file.read_text())
            if old != plan:
                raise OtherPlanError(f"{folder} was begun with {old}, not with {plan}; give the same or no --resume")
        elif any(folder.glob("*.json")):
            self._set_aside()
        _write(plan_file, plan)

    def _set_aside(self) -> None:
        number = 1
        while (other := self.folder.with_name(f"{self.folder.name}.{number}")).exists():
            number += 1
        self.folder.rename(other)
        self.folder.mkdir()

    def file(self, run: Run, suffix: str) -> Path:
        """Return the path of a file of this run with this suffix."""
        return self.folder / f"{run.file}.{suffix}"

    def done(self, run: Run) -> bool:
        """Whether a run has a result."""
        return self.file(run, "json").exists()

    @staticmethod
    def done_in(folder: Path) -> frozenset[str]:
        """Return the names of the runs that have a result in a folder."""
        return frozenset(path.stem for path in folder.glob("*.json") if path.name != PLAN)

    def add(self, run: Run, record: dict[str, Any]) -> None:
        """Store a result. If the process is killed, the file is either complete or missing."""
        _write(self.file(run, "json"), record)
        self.file(run, "failed").unlink(missing_ok=True)

    def fail(self, run: Run, error: str) -> None:
        """Store the reason why a run could not be made. The run has no result and is tried again."""
        _write(self.file(run, "failed"), {"name": run.name, "number": run.number, "error": error})

    def all(self) -> list[dict[str, Any]]:
        """Return every result so far, in the order of the names."""
        return read_all(self.folder)


def read_all(folder: Path) -> list[dict[str, Any]]:
    """Return every result in a folder, in the order of the names.

    A run that could not be made is a record with ``error`` and without ``rows``.
    """
    found = [path for path in folder.iterdir() if path.suffix in (".json", ".failed") and path.name != PLAN]
    return [json.loads(path.read_text()) for path in sorted(found)]


def _write(path: Path, value: object) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
