from __future__ import annotations

import pytest

from iotop_ai.model.finding import Advice, RuledOut
from iotop_ai.present.verdict.advice import idle_cores, limit_text, rate, why_text
from iotop_ai.present.verdict.cures import advice_text, command_of


@pytest.mark.parametrize(
    ("what", "value", "text"),
    [
        ("read_bytes", 10 << 20, "10 MB/s"),
        ("read_ios", 300, "300 reads/s"),
        ("write_bytes", 10 << 20, "10 MB/s of writes"),
        ("write_ios", 300, "300 writes/s"),
    ],
)
def test_a_limit_names_what_it_limits(what: str, value: float, text: str) -> None:
    assert limit_text({"what": what, "limit": float(value)}) == text


@pytest.mark.parametrize(("disks", "text"), [(1.0, "SMART of 1 disk is"), (2.0, "SMART of 2 disks is")])
def test_one_disk_is_in_the_singular(disks: float, text: str) -> None:
    assert why_text(RuledOut("failing_disk", "smart_fine", (("disks", disks),))).startswith(text)


@pytest.mark.parametrize(
    ("mib", "text"), [(0, "0 MB/s"), (0.04, "<0.1 MB/s"), (6.0, "6.0 MB/s"), (92.0, "92 MB/s"), (1740.0, "1.7 GB/s")]
)
def test_a_rate_has_the_same_digits_as_beside_its_graph(mib: float, text: str) -> None:
    assert rate(mib * 2**20) == text


@pytest.mark.parametrize(
    ("cores", "text"), [(8.0, "0.4 of 8 cores"), (2.5, "0.4 of 2.5 cores"), (None, "0.4 of ? cores")]
)
def test_a_cpu_quota_keeps_its_fraction(cores: float | None, text: str) -> None:
    assert idle_cores({"idle": 0.4, "cores": cores}) == f"{text} idle"


@pytest.mark.parametrize(
    ("template", "arg"), [("make_room", "mount"), ("more_in_flight", "source"), ("resume_device", "label")]
)
def test_a_name_in_a_command_is_quoted(template: str, arg: str) -> None:
    text = advice_text(Advice(template, ((arg, "/media/a b;reboot"), ("kind", "system"))))
    assert "'/media/a b;reboot'" in text


def test_a_command_names_the_path_of_the_file_with_its_own_characters() -> None:
    decomposed = "/data/cafe\u0301"
    assert command_of(Advice("keep_in_memory", (("source", decomposed),))) == f"iotop-ai cache status '{decomposed}'"
    hostile = command_of(Advice("keep_in_memory", (("source", "/a\x1b]0;x\x07\u202e\u200d"),)))
    assert hostile == "iotop-ai cache status '/a\ufffd]0;x\ufffd\ufffd\ufffd'"
