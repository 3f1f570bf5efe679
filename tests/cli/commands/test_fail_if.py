"""``diagnose --fail-if``: the exit code says whether a condition is met."""

from __future__ import annotations

import json

import pytest

from iotop_ai.cli.main import main
from tests.cli.program import iotop_started
from tests.job_times import SLOW_DISK

FILE = (str(SLOW_DISK), "--allow-root")


@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        (["data_wait > 10%"], 1),
        (["data_wait > 90%"], 0),
        (["finding failing_disk"], 0),
        (["finding failing_disk", "disks.loop0.r_await > 20ms for 5s"], 1),
        (["smart.*.used_percent > 90%"], 2),
        (["smart.*.used_percent > 90%", "data_wait > 10%"], 1),
    ],
)
def test_the_exit_code_shows_whether_a_condition_is_met(
    conditions: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [word for one in conditions for word in ("--fail-if", one)]
    assert main(["diagnose", *FILE, *flags]) == code
    out, err = capsys.readouterr()
    lines = [line for line in out.splitlines() if line.startswith("fail-if   ")]
    assert [line.removeprefix("fail-if   ").split(": ")[0] for line in lines] == conditions
    assert err.startswith("unknown: ") == (code == 2)


def test_the_answer_is_printed_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", *FILE, "--fail-if", "data_wait > 10% and disks.*.r_await > 20 ms for 5s"])
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("fail-if   data_wait > 10% and disks.*.r_await > 20 ms for 5s: met: data_wait 67.0 %; ")
    assert "disks.loop0.read_await_ms > 20 ms for" in line


def test_the_answer_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", *FILE, "--json", "--fail-if", "data_wait > 10%"])
    (found,) = json.loads(capsys.readouterr().out)["fail_if"]
    (clause,) = found.pop("clauses")
    assert found == {"condition": "data_wait > 10%", "met": True}
    assert clause.pop("value") == pytest.approx(0.67, abs=0.01)
    assert clause == {"text": "data_wait > 10%", "met": True, "name": "", "unit": "ratio", "held_s": None}


def test_a_mistake_is_reported_before_anything_is_read() -> None:
    done = iotop_started("diagnose", "/nonexistent", "--fail-if", "data_weight > 10%")
    assert done.returncode == 2
    assert done.stdout == ""
    assert (
        done.stderr
        == "usage: unknown figure 'data_weight' (did you mean data_wait?); iotop-ai help figures lists them\n"
    )
