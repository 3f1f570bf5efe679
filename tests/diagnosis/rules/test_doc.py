from __future__ import annotations

import pytest

from iotop_ai.diagnosis.rules import RULES, Rule
from tests import rules_doc


@pytest.mark.parametrize("rule", RULES)
def test_the_docstring_of_every_rule_has_its_four_lines(rule: Rule) -> None:
    sentence, lines = rules_doc.parts(rule)
    assert sentence.endswith(".")
    assert tuple(lines) == rules_doc.LINES
    assert all(len(text) > 20 for text in lines.values())


def test_the_page_is_up_to_date() -> None:
    assert rules_doc.PAGE.read_text() == rules_doc.page(), "run python -m tests.rules_doc"
