"""Text becomes a condition, or one line about the mistake in it."""

from __future__ import annotations

import contextlib
import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.condition.figures import Figure
from iotop_ai.model.condition.grammar import Clause, Condition, parse_condition
from iotop_ai.model.errors import UsageError
from tests import conditions_doc


def value(text: str) -> float:
    (clause,) = parse_condition(text).clauses
    return clause.value


def test_a_share_is_a_figure() -> None:
    figure = Figure("data_wait", "", "", "data_wait", "ratio")
    text = "data_wait > 10%"
    assert parse_condition(text) == Condition(text, (Clause(text, figure, ">", 0.1),))


def test_a_term_of_iostat_may_have_a_pattern_and_a_time() -> None:
    first, second = parse_condition("disks.nvme*.r_await >= 5 ms for 1m30s  and  finding failing_disk").clauses
    assert first.figure == Figure("disks.nvme*.r_await", "disks", "nvme*", "read_await_ms", "ms")
    assert (first.operator, first.value, first.hold_s) == (">=", 5.0, 90.0)
    assert (second.figure, second.finding, second.hold_s) == (None, "failing_disk", 0.0)


def test_names_may_have_dots_and_slashes() -> None:
    (mount,) = parse_condition("filesystems./data/v1.2.used_ratio > 95%").clauses
    assert mount.figure is not None
    assert (mount.figure.name, mount.figure.field) == ("/data/v1.2", "used_ratio")
    (cpu,) = parse_condition("cpu.busy_ratio > 0.9").clauses
    assert cpu.figure is not None
    assert cpu.figure.name == "all"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("disks.*.r_await > 0.002 s", 2.0),
        ("disks.*.r_await > 300us", 0.3),
        ("disks.*.rkB/s < 1.5M/s", 1.5 * 1024**2),
        ("disks.*.read_bytes_per_s < 100 MB", 100 * 1024**2),
        ("memory.available_bytes < 2GiB", 2 * 1024**3),
        ("disks.*.%util > 90%", 0.9),
        ("goodput < 0.5", 0.5),
        ("gpus.0.sm_mhz < 1.2 GHz", 1200.0),
        ("gpus.*.power_watts > 650 W", 650.0),
        ("gpus.*.temperature_celsius > 85", 85.0),
        ("smart.*.used_percent > 90 %", 90.0),
        ("smart.*.power_on_hours > 400 d", 9600.0),
        ("disks.sda.reads_per_s > 100 /s", 100.0),
        ("disks.sda.reads_per_s > 100/s for 30s", 100.0),
        ("cgroups.*.throttled_s_per_s > 0.5 s/s", 0.5),
        ("smart.*.rotation_rpm < 7200 rpm", 7200.0),
    ],
)
def test_units_are_converted(text: str, wanted: float) -> None:
    assert value(text) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "not a condition"),
        ("data_wait", "not a condition"),
        ("data_wait > ", "not a condition"),
        ("data_wait == 3", "not a condition"),
        ("data_wait > 10% or lost > 3%", "not a condition"),
        ("data_wait > 10% and", "not a condition"),
        ("data_wait > 10", "write 10 %"),
        ("data_wait > 3 ms", "not measured in ms"),
        ("disks.*.r_await > 5 %", "not a share"),
        ("disks.*.r_await > 5 MB", "not measured in MB"),
        ("disks.*.r_await > 5M", "not measured in M; its unit is ms"),
        ("disks.*.r_await > 5 /s", "not measured in /s"),
        ("memory.available_bytes < 1 G/s", "not measured in G/s"),
        ("network.*.rx_bytes_per_s > 1 Gb/s", "Gb/s means bits; network.*.rx_bytes_per_s is in bytes: write GB/s"),
        ("dsks.*.r_await > 5", "did you mean disks?"),
        ("disks.r_await > 5", "disks.NAME.FIELD"),
        ("disks..r_await > 5", "disks.NAME.FIELD"),
        ("memory.x.available_bytes > 5", "memory.FIELD"),
        ("disks.*.read_await > 5", "did you mean read_await_ms"),
        ("data_weight > 5%", "did you mean data_wait"),
        ("finding storage", "unknown finding"),
        ("data_wait > 10% for ever", "not a duration"),
        ("data_wait > 1e999", "not a number"),
        ("x" * 501, "not a condition"),
    ],
)
def test_mistakes_are_refused(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=re.escape(part)) as caught:
        parse_condition(text)
    assert "\n" not in str(caught.value)


def test_a_caller_may_add_figures() -> None:
    (clause,) = parse_condition("change.steps_per_s < -5%", {"change.steps_per_s": "ratio"}).clauses
    assert clause.value == pytest.approx(-0.05)
    assert clause.met_by(-0.06)
    assert not clause.met_by(-0.05)


@given(st.text(alphabet="abdks*.?_<>= 0123456789%for and\n[](){}|\\^$é", max_size=60))
def test_any_text_is_a_condition_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_condition(text).clauses


def test_the_page_is_up_to_date() -> None:
    assert conditions_doc.PAGE.read_text() == conditions_doc.page(), "run python -m tests.conditions_doc"


def test_every_example_of_the_page_is_a_condition() -> None:
    lines = [line for line in conditions_doc.HEAD.splitlines() if line.startswith("iotop-ai")]
    for line in lines:
        words = shlex.split(line)
        assert [parse_condition(words[i + 1]) for i, word in enumerate(words) if word == "--fail-if"]
    assert len(lines) == 4
