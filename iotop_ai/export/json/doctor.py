"""A diagnosis of the environment as the JSON object of ``iotop-ai doctor --json``, described in docs/doctor.md."""

from __future__ import annotations

import json
from typing import Any

from iotop_ai.export.json.health import utc_text
from iotop_ai.model.preflight.environment.host import INFINITE, HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts, canonical
from iotop_ai.model.preflight.environment.report import FORMAT, Diagnosis, Difference

Object = dict[str, Any]
_PYTHON_KEYS = ("version", "implementation", "machine", "libc", "executable", "prefix", "conda")


def doctor_object(diagnosis: Diagnosis) -> Object:
    """The diagnosis as a JSON object: sizes in bytes, CPU in cores, null when unknown. An infinite limit is null."""
    host = diagnosis.host
    machine = {**diagnosis.machine._asdict(), "gpus": list(diagnosis.machine.gpus)}
    for key in ("cores", "machine_cores", "quota_cores", "memory_limit_bytes", "cgroup", "shm_bytes", "clock_source"):
        machine[key] = getattr(host, key)
    machine["governors"] = list(host.governors)
    return {
        "format": FORMAT,
        "time": utc_text(diagnosis.wall_s),
        "exit_code": diagnosis.exit_code,
        "checks": [{**check._asdict(), "state": check.state.value} for check in diagnosis.checks],
        "machine": machine,
        "limits": _limits(host),
        "python": _python(diagnosis.python),
        "packages": {canonical(package.name): package.version for package in diagnosis.python.imported},
        "conda_packages": {package.name: package.version for package in diagnosis.python.conda_packages},
        "variables": dict(host.variables),
    }


def _limits(host: HostFacts) -> Object:
    return {name: None if soft == INFINITE else soft for name, (soft, _) in host.limits.items()}


def _python(facts: PythonFacts) -> Object:
    torch = facts.torches[0] if facts.torches else None
    return {
        **{key: getattr(facts, key) for key in _PYTHON_KEYS},
        "error": facts.error or None,
        "torch": None if torch is None else torch._asdict(),
    }


def render_doctor_json(diagnosis: Diagnosis) -> str:
    """The diagnosis as indented JSON, without a final newline."""
    return json.dumps(doctor_object(diagnosis), indent=2, allow_nan=False)


def render_differences_json(differences: list[Difference]) -> str:
    """The differences as JSON.

    Each element of the list ``differences`` has ``section``, ``name``, ``first`` and ``second``; a side without a value
    is null.
    """
    return json.dumps({"differences": [difference._asdict() for difference in differences]}, indent=2, allow_nan=False)
