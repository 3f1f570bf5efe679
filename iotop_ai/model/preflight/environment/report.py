"""The result of one run of ``iotop-ai doctor``, and the differences between two results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from iotop_ai.model.preflight.environment.check import Check, exit_code
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts

FORMAT = 1


class Machine(NamedTuple):
    """The machine, as ``doctor --diff`` compares it; ``driver`` is the version of NVIDIA's driver, "" without one."""

    name: str
    kernel: str = ""
    container: str = ""
    driver: str = ""
    gpus: tuple[str, ...] = ()
    memory_bytes: int | None = None
    swap_bytes: int | None = None


class Diagnosis(NamedTuple):
    """Everything that ``iotop-ai doctor`` found; ``wall_s`` is the Unix time of the run."""

    wall_s: int
    machine: Machine
    host: HostFacts
    python: PythonFacts
    checks: tuple[Check, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if a check failed, else 2 if a check could not be answered, else 0."""
        return exit_code(self.checks)


class Difference(NamedTuple):
    """A value that differs between two diagnoses. ``first`` or ``second`` is None if that diagnosis lacks the value."""

    section: str
    name: str
    first: str | None
    second: str | None


_SECTIONS = ("machine", "limits", "python", "packages", "conda_packages", "variables")
_ALWAYS_DIFFER = ("machine.name", "python.executable", "python.prefix", "python.base_prefix", "python.torch.folder")
"""Fields that are not compared, because names and paths always differ between two machines."""


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    """The differences between two objects of ``doctor --json``: versions, limits, variables, states of checks."""
    for section in _SECTIONS:
        a, b = (_flatten(diagnosis.get(section)) for diagnosis in (first, second))
        for name in sorted(a.keys() | b.keys()):
            if a.get(name) != b.get(name) and f"{section}.{name}" not in _ALWAYS_DIFFER:
                yield Difference(section, name, a.get(name), b.get(name))
    a, b = (_states(diagnosis.get("checks")) for diagnosis in (first, second))
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            yield Difference("checks", name, a.get(name), b.get(name))


def _flatten(section: object, prefix: str = "") -> dict[str, str]:
    """The values of a section of the JSON as text, by dotted name; {} if it is not an object."""
    out: dict[str, str] = {}
    if isinstance(section, Mapping):
        for key, value in section.items():
            if isinstance(value, Mapping):
                out |= _flatten(value, f"{prefix}{key}.")
            elif value is not None:
                text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                out[f"{prefix}{key}"] = text
    return out


def _states(checks: object) -> dict[str, str]:
    known = [check for check in checks if isinstance(check, Mapping)] if isinstance(checks, list) else []
    return {str(check["name"]): str(check.get("state")) for check in known if "name" in check}
