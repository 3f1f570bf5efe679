from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from iotop_ai.diagnosis.rules import RULES
from iotop_ai.model.verdict_class import CLASS_SPECS, PRECEDENCE, RIVALS, ClassSpec, State
from iotop_ai.present.gpu import verdict_words as gpu_words
from iotop_ai.present.job import verdict_words as job_words
from iotop_ai.present.verdict import headline
from iotop_ai.present.verdict.cures import cure_templates
from tests import rules_doc

DIAGNOSIS = Path(inspect.getfile(RULES[0])).parents[1]
WITHOUT_CURE = {"healthy"}
FROM_NO_RULE = {"unknown"}
"""The engine itself makes this class if no rule applies."""


def claimed_classes() -> set[str]:
    """The classes in the Claim line of each rule."""
    return {rules_doc.parts(rule)[1]["Claim"].partition(":")[0] for rule in RULES}


def classes_in_source() -> set[str]:
    """The class in each call of Finding(...) whose first argument is a literal."""
    found = set()
    for path in DIAGNOSIS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    found.add(first.value)
    return found


def test_each_class_is_claimed_by_a_rule_and_each_rule_claims_a_class() -> None:
    missing = set(CLASS_SPECS) ^ (claimed_classes() | FROM_NO_RULE)
    assert not missing, f"these classes lack either a rule in RULES with 'Claim: CLASS: ...' or a ClassSpec: {missing}"


def test_each_class_that_a_finding_names_has_an_entry() -> None:
    assert classes_in_source() <= set(CLASS_SPECS)
    assert len(classes_in_source()) > 20


@pytest.mark.parametrize(
    ("plain", "of_job", "of_gpu"),
    [
        (headline._HEADLINES, job_words.HEADLINES, gpu_words.HEADLINES),
        (headline._BECAUSE, job_words.BECAUSE, gpu_words.BECAUSE),
    ],
)
def test_each_class_has_a_headline_and_a_reason(
    plain: dict[str, object], of_job: dict[str, object], of_gpu: dict[str, object]
) -> None:
    missing = set(CLASS_SPECS) ^ {*plain, *of_job, *of_gpu}
    assert not missing, (
        f"these classes lack words in present/verdict/headline.py and present/{{job,gpu}}/verdict_words.py: {missing}"
    )


def test_each_class_has_a_cure_and_each_cure_has_words_and_a_class() -> None:
    assert {spec.class_id for spec in CLASS_SPECS.values() if not spec.advice} == WITHOUT_CURE
    missing = set(cure_templates()) ^ {cure for spec in CLASS_SPECS.values() for cure in spec.advice}
    assert not missing, (
        f"these cures lack either words in present/verdict/cures.py or a ClassSpec that advises them: {missing}"
    )


@pytest.mark.parametrize("spec", CLASS_SPECS.values(), ids=PRECEDENCE)
def test_each_entry_is_consistent(spec: ClassSpec) -> None:
    assert set(spec.covers) <= set(CLASS_SPECS) - {spec.class_id}
    assert spec.leave is None or 0 < spec.leave < 1
    assert spec.keep_s is None or spec.keep_s >= 0
    assert len(set(spec.advice)) == len(spec.advice)
    assert not spec.rival or spec.state is State.STARVED


def test_the_classes_are_in_the_order_of_precedence() -> None:
    assert len(PRECEDENCE) == len(set(PRECEDENCE))
    assert PRECEDENCE[0] == "job_died"
    assert PRECEDENCE[-1] == "unknown"
    places = [PRECEDENCE.index(class_id) for class_id in RIVALS]
    assert sorted(places) == list(range(min(places), max(places) + 1))
