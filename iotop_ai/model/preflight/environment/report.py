"""Everything that one ``iotop-ai doctor`` found, and how two such results differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from iotop_ai.model.preflight.environment.check import Check, exit_code
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts

FORMAT = 1


class Machine(NamedTuple):
    """What is compared between two machines. driver: NVIDIA's, "" without one."""

    name: str
    kernel: str = ""
    container: str = ""
    driver: str = ""
    gpus: tuple[str, ...] = ()
    memory_bytes: int | None = None
    swap_bytes: int | None = None


class Diagnosis(NamedTuple):
    """wall_s: Unix time."""

    wall_s: int
    machine: Machine
    host: HostFacts
    python: PythonFacts
    checks: tuple[Check, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 with a fail, 2 where a check could not tell, else 0."""
        return exit_code(self.checks)


class Difference(NamedTuple):
    """A figure of two snapshots. None: one of them lacks it."""

    section: str
    name: str
    first: str | None
    second: str | None


_SECTIONS = ("machine", "limits", "python", "packages", "conda_packages", "variables")
_OWN = ("name", "executable", "prefix", "base_prefix", "folder")
"""Paths and names differ between any two machines."""


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    """What differs between two objects of ``doctor --json``: versions, limits, variables, states of checks."""
    for section in _SECTIONS:
        one, other = (_flat(found.get(section)) for found in (first, second))
        for name in sorted(one.keys() | other.keys()):
            if one.get(name) != other.get(name) and name.rpartition(".")[2] not in _OWN:
                yield Difference(section, name, one.get(name), other.get(name))
    one, other = (_states(found.get("checks")) for found in (first, second))
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            yield Difference("checks", name, one.get(name), other.get(name))


def _flat(found: object, prefix: str = "") -> dict[str, str]:
    out: dict[str, str] = {}
    if isinstance(found, Mapping):
        for key, value in found.items():
            if isinstance(value, Mapping):
                out |= _flat(value, f"{prefix}{key}.")
            elif value is not None:
                shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                out[f"{prefix}{key}"] = shown
    return out


def _states(found: object) -> dict[str, str]:
    checks = found if isinstance(found, list) else []
    return {str(one["name"]): str(one.get("state")) for one in checks if isinstance(one, Mapping) and "name" in one}
