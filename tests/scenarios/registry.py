"""All causes of every family, by name."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping

from tests.scenarios.cause import Cause
from tests.scenarios.torch_python import why_no_torch

FAMILIES = (
    "causes", "causes_gpu", "causes_host", "causes_data", "causes_memory", "causes_network", "causes_unusual"
)  # fmt: skip
"""The modules beside this one that have ``CAUSES``: a mapping of causes by name, or a list of pairs (name, cause)."""


def all_causes() -> dict[str, Cause]:
    """Return every cause by name. Raises ValueError for a name that is used twice."""
    out: dict[str, Cause] = {}
    for family in FAMILIES:
        name = f"tests.scenarios.{family}"
        if importlib.util.find_spec(name) is None:
            continue
        found = importlib.import_module(name).CAUSES
        for key, cause in found.items() if isinstance(found, Mapping) else found:
            if key in out:
                raise ValueError(f"two causes are called {key!r}")
            out[key] = cause
    return out


def why_not(cause: Cause) -> str:
    """Return why this machine cannot make the cause; "" when it can."""
    if cause.torch and why_no_torch():
        return why_no_torch()
    return "" if cause.why_not is None else cause.why_not()
