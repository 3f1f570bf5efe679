"""Every class of verdict has a separate name in plain words."""

from __future__ import annotations

from iotop_ai.model.verdict_class import CLASS_SPECS
from iotop_ai.present.verdict.class_names import CLASS_NAMES


def test_every_class_has_a_name_that_differs_from_its_id() -> None:
    missing = CLASS_NAMES.keys() ^ CLASS_SPECS.keys()
    assert not missing, f"{missing}: present/verdict/class_names.py lacks names for them, or they do not exist"
    assert len(set(CLASS_NAMES.values())) == len(CLASS_NAMES)
    assert not [name for name in CLASS_NAMES.values() if "_" in name]
