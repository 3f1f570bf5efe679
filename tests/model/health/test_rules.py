from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.health.rules import RULES, Rule, with_verdict
from iotop_ai.model.health.smart import HealthPoint, SelfTest, SmartState
from tests import health_doc
from tests.health_doc import EXAMPLES, NOW_S, example

DAY_AGO = HealthPoint(NOW_S - 86_400)
FIVE_MINUTES_AGO = HealthPoint(NOW_S - 300, crc_errors=500)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_rule_matches_its_example(rule: Rule) -> None:
    state = example(EXAMPLES[rule.id])
    assert [one.rule for one in state.judgements] == [rule.id]
    assert state.severity == {"note": "ok"}.get(rule.severity, rule.severity)
    assert any(char.isdigit() for char in state.reasons[0]) or rule.id.startswith(("overall", "nvme", "self-test"))
    assert ", " not in rule.id
    assert all((rule.source, rule.threshold))


def test_every_rule_has_an_example_and_every_example_a_rule() -> None:
    assert [rule.id for rule in RULES] == list(dict.fromkeys(rule.id for rule in RULES))
    assert {rule.id for rule in RULES} == set(EXAMPLES)


def test_the_page_is_up_to_date() -> None:
    assert health_doc.PAGE.read_text() == health_doc.page(), "run python -m tests.health_doc"


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"pending": 3, "earlier": DAY_AGO._replace(pending=3)}, ["pending"]),
        ({"pending": 3, "earlier": DAY_AGO._replace(pending=9)}, ["pending"]),
        ({"pending": 3, "earlier": DAY_AGO}, ["pending"]),
        ({"reallocated": 29, "earlier": DAY_AGO._replace(reallocated=20)}, ["reallocated"]),
        # 12 sectors in three days are 4 in 24 h, but 12 in ten minutes count as 12.
        ({"reallocated": 32, "earlier": HealthPoint(NOW_S - 3 * 86_400, reallocated=20)}, ["reallocated"]),
        ({"reallocated": 32, "earlier": HealthPoint(NOW_S - 600, reallocated=20)}, ["reallocated-grows"]),
        ({"crc_errors": 523, "earlier": DAY_AGO._replace(crc_errors=500)}, ["crc"]),
        ({"crc_errors": 524, "earlier": DAY_AGO._replace(crc_errors=500)}, ["crc-grows"]),
        # The first cable fails now, after a calm day; the others had too few errors in this hour.
        ({"crc_errors": 520, "earlier": DAY_AGO._replace(crc_errors=500), "recent": FIVE_MINUTES_AGO}, ["crc-grows"]),
        ({"crc_errors": 509, "earlier": DAY_AGO._replace(crc_errors=500), "recent": FIVE_MINUTES_AGO}, ["crc"]),
        ({"crc_errors": 500, "earlier": DAY_AGO._replace(crc_errors=500), "recent": FIVE_MINUTES_AGO}, ["crc"]),
        ({"warning_temperature_minutes": 44, "earlier": DAY_AGO._replace(warning_temperature_minutes=44)}, []),
        ({"error_log_entries": 9000, "earlier": DAY_AGO._replace(error_log_entries=1)}, []),
        ({"used_percent": 50, "past": health_doc._MONTH}, []),
        ({"earlier": DAY_AGO._replace(pending=1)}, []),
    ],
)
def test_growth_counts_more_than_the_level(changes: dict[str, Any], rules: list[str]) -> None:
    assert [one.rule for one in example(changes).judgements] == rules


@pytest.mark.parametrize(
    ("celsius", "limit", "rpm", "rules"),
    [
        (62, 60, 7200, ["hot"]),
        (62, 68, 7200, ["warm"]),
        (62, None, 7200, ["hot"]),
        (71, 70, 0, ["hot"]),
        (69, 70, 0, []),
        (71, 70, None, ["hot"]),
        (71, None, None, []),
    ],
)
def test_the_limit_that_a_scsi_disk_reports_is_used(
    celsius: int, limit: int | None, rpm: int | None, rules: list[str]
) -> None:
    state = {"protocol": "scsi", "temperature_celsius": celsius, "critical_celsius": limit, "rotation_rpm": rpm}
    assert [one.rule for one in example(state).judgements] == rules


@pytest.mark.parametrize(
    ("spare", "limit", "rules"),
    [
        # an Apple SSD has its full spare, although its limit is 99 %
        (100, 99, []),
        (99, 99, []),
        (98, 99, ["spare-low"]),
        (100, 100, []),
        (100, 95, []),
        (99, 94, ["spare-low"]),
        (15, 10, ["spare-low"]),
        (16, 10, []),
        (0, 0, []),
        (5, 0, ["spare-low"]),
    ],
)
def test_the_spare_gives_a_warning_near_its_limit_unless_the_limit_is_high(
    spare: int, limit: int, rules: list[str]
) -> None:
    state = {"protocol": "nvme", "available_spare_percent": spare, "spare_threshold_percent": limit}
    assert [one.rule for one in example(state).judgements] == rules


@pytest.mark.parametrize(
    ("log", "reasons"),
    [
        ("short+ extended-", ("a self-test failed: read failure",)),
        ("short? extended-", ("the last self-test failed: read failure",)),
        ("short+ extended+ short-", ()),
        ("Background_long+ short-", ()),
        ("short+ short+", ()),
        ("extended? short+ short-", ("a self-test failed: read failure",)),
    ],
)
def test_a_failed_self_test_counts_until_an_extended_one_passes(log: str, reasons: tuple[str, ...]) -> None:
    passed = {"+": True, "-": False, "?": None}
    tests = tuple(SelfTest(one[:-1].replace("_", " "), "read failure", passed[one[-1]]) for one in log.split())
    assert example({"self_test_log": tests}).reasons == reasons


def test_the_worst_problem_comes_first_and_each_figure_comes_once() -> None:
    earlier = DAY_AGO._replace(reallocated=303, pending=1, media_errors=0)
    state = example({"reallocated": 312, "pending": 4, "crc_errors": 5, "used_percent": 91, "earlier": earlier})
    assert state.reasons == (
        "4 pending sectors, +3 in 24 h",
        "312 reallocated sectors, +9 in 24 h",
        "91 % of its rated life used",
        "5 CRC errors so far: cable or backplane, not the disk",
    )
    assert state.severity == "critical"


def test_the_forecast_is_shown_with_the_wear() -> None:
    past = (health_doc._MONTH[0]._replace(used_percent=90, wall_s=NOW_S - 38 * 86_400),)
    state = example({"used_percent": 92, "past": past})
    assert state.reasons == ("92 % of its rated life used, about 5 months at this rate",)


def test_without_figures_the_severity_is_unknown() -> None:
    state = with_verdict(SmartState("/dev/sdb", "scsi", "M", "S", "F", None, "ok", ("old",), temperature_celsius=30))
    assert (state.severity, state.reasons, state.judgements) == ("unknown", (), ())


numbers = st.none() | st.integers(-(2**63), 2**63)
points = st.builds(HealthPoint, numbers.filter(lambda n: n is not None), *[numbers] * (len(HealthPoint._fields) - 1))


@given(st.sampled_from(["ata", "nvme", "scsi"]), points, points, numbers, numbers)
def test_any_figures_are_judged_without_an_error(
    protocol: str, now: HealthPoint, earlier: HealthPoint, bits: Any, rpm: Any
) -> None:
    figures = {name: value for name, value in now._asdict().items() if name != "wall_s"}
    state = SmartState("d", protocol, "M", "S", "F", None, "unknown", (), earlier=earlier, **figures)
    result = with_verdict(state._replace(read_wall_s=now.wall_s, critical_warning=bits, rotation_rpm=rpm))
    assert result.severity in ("ok", "warning", "critical", "unknown")
    assert all(text.isprintable() for text in result.reasons)
