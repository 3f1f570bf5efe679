"""The row about problems of this machine: which findings of ``doctor`` it has, and how it is drawn."""

from __future__ import annotations

from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.preflight.environment.judge_host import judge_host
from iotop_ai.present.preflight.doctor_line import doctor_rows, problems_of
from iotop_ai.present.screen.layout import plan, screen_rows
from iotop_ai.present.screen.view import Problem, View
from tests.present import scenes

MIB = 1024**2
SHM = Problem("shared memory", "/dev/shm has 64 MB, 60 MB free: DataLoader workers end with a bus error")
UTC = View(utc_offset_s=0)


def test_failures_come_first_and_common_warnings_are_only_in_doctor() -> None:
    small = HostFacts(cores=8, shm_bytes=64 * MIB, shm_free_bytes=60 * MIB, limits={"nofile": (1024, 4096)})
    checks = judge_host(small, "docker")
    assert {check.name for check in checks if check.state is State.WARN} == {"open files"}
    link = Check("machine", "sda link", State.WARN, "PCIe 1x1 of 4x4 (generation x lanes)", "reseat it")
    swap = Check("machine", "swap", State.WARN, "1 GB of 2 GB in use", "")
    assert [one.name for one in problems_of([link, swap, *checks])] == ["shared memory", "sda link"]
    assert problems_of([swap]) == ()


def test_the_row_is_dim_and_names_its_key() -> None:
    view = UTC._replace(problems=(SHM, Problem("sda link", "PCIe 1x1 of 4x4")))
    (line,) = doctor_rows(scenes.no_gpu(), view, 80, 1)
    assert line.text == " doctor  /dev/shm has 64 MB, 60 MB free".ljust(67) + "+1 X:dismiss "
    assert {span.token for span in line.spans} == {"dim", "key"}
    assert "bus error" in doctor_rows(scenes.no_gpu(), view, 120, 1)[0].text
    assert doctor_rows(scenes.no_gpu(), UTC, 80, 1) == []


def test_the_row_is_above_the_keys_and_takes_precedence_over_graphs() -> None:
    view = UTC._replace(problems=(SHM,))
    lines = [line.text for line in screen_rows(80, 24, scenes.starved(61), view)]
    assert lines[-2].startswith(" doctor ")
    assert not any(slot.panel == "doctor" for slot in plan(80, 15, scenes.starved(61), view))
    assert not any(slot.panel == "doctor" for slot in plan(80, 24, scenes.starved(61), UTC))
