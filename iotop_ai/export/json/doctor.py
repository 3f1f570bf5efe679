"""A diagnosis of the environment as the JSON object of ``iotop-ai doctor --json``, described in docs/doctor.md."""

from __future__ import annotations

import json
from typing import Any

from iotop_ai.export.json.health import moment
from iotop_ai.model.preflight.environment.host import INFINITE, HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts, canonical
from iotop_ai.model.preflight.environment.report import FORMAT, Diagnosis, Difference

Object = dict[str, Any]
_PLAIN = ("version", "implementation", "machine", "libc", "executable", "prefix", "conda")


def doctor_object(found: Diagnosis) -> Object:
    """The whole diagnosis. Sizes are in bytes, CPU in cores. null is unknown; a null limit may also mean unlimited."""
    host = found.host
    machine = {**found.machine._asdict(), "gpus": list(found.machine.gpus)}
    for key in ("cores", "machine_cores", "quota_cores", "memory_limit_bytes", "cgroup", "shm_bytes", "clock_source"):
        machine[key] = getattr(host, key)
    machine["governors"] = list(host.governors)
    return {
        "format": FORMAT,
        "time": moment(found.wall_s),
        "exit_code": found.exit_code,
        "checks": [{**check._asdict(), "state": check.state.value} for check in found.checks],
        "machine": machine,
        "limits": _limits(host),
        "python": _python(found.python),
        "packages": {canonical(one.name): one.version for one in found.python.imported},
        "conda_packages": {one.name: one.version for one in found.python.conda_packages},
        "variables": dict(host.variables),
    }


def _limits(host: HostFacts) -> Object:
    return {name: None if soft == INFINITE else soft for name, (soft, _) in host.limits.items()}


def _python(found: PythonFacts) -> Object:
    torch = found.torches[0] if found.torches else None
    return {
        **{key: getattr(found, key) for key in _PLAIN},
        "error": found.error or None,
        "torch": None if torch is None else torch._asdict(),
    }


def render_doctor_json(found: Diagnosis) -> str:
    """The diagnosis as indented JSON, without a final newline."""
    return json.dumps(doctor_object(found), indent=2, allow_nan=False)


def render_differences_json(differences: list[Difference]) -> str:
    """The differences as JSON.

    Each element of the list ``differences`` has ``section``, ``name``, ``first`` and ``second``; a side without a value
    is null.
    """
    return json.dumps({"differences": [one._asdict() for one in differences]}, indent=2, allow_nan=False)
