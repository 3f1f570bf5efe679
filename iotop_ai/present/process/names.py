"""The name of a process in a list: for Python, its script or module too."""

from __future__ import annotations

from functools import lru_cache

from iotop_ai.model.job.programs import names_python, script_name
from iotop_ai.model.process.records import ProcessInfo


@lru_cache(maxsize=4096)
def listed_name(info: ProcessInfo) -> str:
    """The name of the process; for Python with its script or module, "python train.py", because scripts are different
    programs.
    """
    script = script_name(info) if names_python(info.name) else info.name
    return info.name if script == info.name else f"{info.name} {script}"
