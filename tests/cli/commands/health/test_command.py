"""``iotop-ai health`` with the real smartctl on made-up disks: table, JSON, exit codes, self-tests, history."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iotop_ai.cli.commands.health import command as health
from iotop_ai.cli.main import build_parser
from iotop_ai.cli.options.common import settings_of
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.errors import UsageError
from iotop_ai.model.health.smart import RUNNING, SelfTest, SmartState
from iotop_ai.model.reading import Reading, Status
from tests.cli.program import iotop, iotop_started
from tests.cli.test_stdout import NoReader
from tests.rigs.smart import Smartctl, why_no_smartctl
from tests.rigs.smart.disks import FAILING, HEALTHY

WHY = why_no_smartctl()
needs_smartctl = pytest.mark.skipif(bool(WHY), reason=WHY or "there")
STANDBY = '{"smartctl":{"exit_status":3,"messages":[{"string":"Device is in STANDBY mode, exit(3)"}]}}'
Run = Callable[..., int]


@pytest.fixture
def smartctl(tmp_path: Path) -> Smartctl:
    return Smartctl(tmp_path)


@pytest.fixture
def run(smartctl: Smartctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(health, "POLL_S", 0.4)

    def command(*words: str, path: str = "") -> int:
        argv = ["health", *words, "--smartctl", path or str(smartctl.path)]
        args = build_parser(argv).parse_args(argv)
        return health.Health(settings_of(args), args, Clock(), Root(str(smartctl.tree))).run()

    return command


def disks(text: str) -> dict[str, dict[str, Any]]:
    return {disk["name"]: disk for disk in json.loads(text)["disks"]}


@needs_smartctl
def test_healthy_disks_give_exit_code_0(smartctl: Smartctl, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    smartctl.disk("nvme8", HEALTHY)
    smartctl.sata("sda")
    smartctl.block("vda")
    assert run() == 0
    out, err = capsys.readouterr()
    assert err == ""
    rows = {line.split()[0]: line.split() for line in out.splitlines()}
    assert rows["nvme8n1"][1:8] == ["ok", "41", "3", "8123", "-", "-", "0"]
    assert rows["sda"][1] == "ok"
    assert rows["vda"][1] == "unsupported"


@needs_smartctl
def test_a_warning_or_worse_gives_exit_code_1_even_beside_an_error(
    smartctl: Smartctl, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    smartctl.disk("nvme8", {**HEALTHY, "open_errno": 13})
    smartctl.disk("nvme9", FAILING)
    assert run("nvme8n1") == 2
    assert capsys.readouterr().err.startswith("unknown: nvme8n1: reading SMART needs root")
    assert run("nvme8n1", "nvme9n1", "nosuch") == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert "critical: 37 media errors [media]" not in out
    assert "nvme9n1: warning: 37 media errors [media]" in out
    assert f"nvme8n1: remedy: no sudoers line for {smartctl.path}: " in out
    smartctl.disk("nvme9", {**HEALTHY, "used": 92})
    assert run("nvme9n1") == 1
    assert "92 % of its rated life used" in capsys.readouterr().out


@needs_smartctl
def test_the_json_has_all_facts_and_the_exit_code(
    smartctl: Smartctl, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    smartctl.disk("nvme8", {**HEALTHY, "media_errors": 0})
    assert run("--json") == 0
    capsys.readouterr()
    smartctl.disk("nvme8", {**HEALTHY, "media_errors": 2})
    time.sleep(1.1)  # the history stores times in whole seconds
    assert run("--json") == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["exit_code"] == 1
    (disk,) = printed["disks"]
    assert (disk["status"], disk["severity"], disk["media_errors"]) == ("ok", "critical", 2)
    assert disk["judgements"][0]["rule"] == "media-grows"
    assert disk["earlier"]["media_errors"] == 0
    assert len(disk["past"]) == 2


@needs_smartctl
def test_disks_asleep_or_without_smart_change_the_exit_code_only_if_there_are_no_others(
    smartctl: Smartctl, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    smartctl.disk("nvme8", HEALTHY)
    smartctl.disk("nvme9", HEALTHY)
    smartctl.write_script(f"case \"$*\" in *nvme9*) echo '{STANDBY}'; exit 3;; esac", 'exec /usr/sbin/smartctl "$@"')
    assert run() == 0
    assert disks_of(run, capsys)["nvme9n1"]["status"] == "asleep"
    assert run("nvme9n1") == 2


def disks_of(run: Run, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    run("--json")
    return disks(capsys.readouterr().out)


def test_quiet_unsupported_silences_a_machine_without_smart(
    smartctl: Smartctl, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (smartctl.tree / "sys/block/vda").mkdir(parents=True)
    assert run() == 2
    assert "unknown: vda: a virtio disk" in capsys.readouterr().err
    for more in ((), ("--json",)):
        assert run("--quiet-unsupported", *more) == 0
        assert capsys.readouterr() == ("", "")
    assert run("nope", "--quiet-unsupported") == 2
    assert "no such disk" in capsys.readouterr().err


@needs_smartctl
def test_a_failing_disk_is_never_quiet(smartctl: Smartctl, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    smartctl.disk("nvme8", FAILING)
    (smartctl.tree / "sys/block/vda").mkdir(parents=True)
    assert run("--quiet-unsupported") == 1
    assert "nvme8n1" in capsys.readouterr().out


def test_a_missing_smartctl_and_a_missing_disk_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "root/sys/block/sda/device").mkdir(parents=True)

    def code(*words: str) -> int:
        args = build_parser(["health", *words]).parse_args(["health", *words])
        return health.Health(settings_of(args), args, Clock(), Root(str(tmp_path / "root"))).run()

    assert code("--smartctl", "/nowhere/smartctl") == 2
    assert "no smartctl at /nowhere/smartctl" in capsys.readouterr().err
    assert code("sdz", "--json") == 2
    out, err = capsys.readouterr()
    assert disks(out)["sdz"]["reason"] == "no such disk"
    assert err == "unknown: sdz: no such disk\n"


@pytest.mark.parametrize(
    ("readings", "code"),
    [
        ([], 2),
        ([("ok", "ok")], 0),
        ([("ok", "ok"), ("asleep", None), ("unsupported", None)], 0),
        ([("ok", "ok"), ("failed", None)], 2),
        ([("ok", "unknown")], 2),
        ([("asleep", "ok")], 2),
        ([("asleep", "critical"), ("ok", "ok")], 1),
        ([("denied", "unknown"), ("ok", "warning")], 1),
        ([("ok", "ok"), ("off", None)], 2),
    ],
)
def test_each_set_of_readings_has_its_exit_code(readings: list[tuple[str, str | None]], code: int) -> None:
    state = SmartState("d", "ata", "M", "S", "F", "PASS", "ok", ())
    all_readings = [
        Reading(None if severity is None else state._replace(severity=severity), Status(status))
        for status, severity in readings
    ]
    assert health.exit_code(all_readings) == code


@needs_smartctl
def test_the_command_waits_for_a_self_test(smartctl: Smartctl, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    smartctl.sata("sda", seconds=0.5)
    assert run("sda", "--test", "short", "--wait") == 0
    assert capsys.readouterr().out.splitlines() == [
        "sda: short self-test begun, about 2 min; it runs in the background and changes no data",
        "sda: Short offline: Completed without error",
    ]
    smartctl.sata("sda", seconds=0.5, fails=True)
    assert run("sda", "--test", "long", "--wait") == 1
    assert "Extended offline: Completed: read failure" in capsys.readouterr().out


def test_the_command_waits_for_a_self_test_of_a_sas_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = SmartState("sda", "scsi", "X", "S", "1", "PASS", "ok", ())
    running, over = (SelfTest("Background short", status, passed) for status, passed in ((RUNNING, None), ("Ok", True)))
    answers = [before._replace(self_test_log=(one,)) for one in (running, running, over)]
    monkeypatch.setattr(health.Health, "_next_reading", lambda *_: Reading(answers.pop(0), Status.OK))
    command = health.Health.__new__(health.Health)
    assert command._wait_for_result(SimpleNamespace(pause=lambda _: None), "sda", before) == 0  # type: ignore[arg-type]
    assert answers == []
    assert capsys.readouterr().out == "sda: Background short: Ok\n"


def test_a_failed_self_test_counts_without_a_reader_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    before = SmartState("sda", "ata", "X", "S", "1", "PASS", "ok", ())
    failed = before._replace(self_test_log=(SelfTest("Short offline", "Completed: read failure", False),))
    monkeypatch.setattr(health.Health, "_next_reading", lambda *_: Reading(failed, Status.OK))
    monkeypatch.setattr("iotop_ai.cli.stdout.drop_stdout", lambda: None)
    monkeypatch.setattr(sys, "stdout", NoReader())
    command = health.Health.__new__(health.Health)
    assert command._wait_for_result(SimpleNamespace(pause=lambda _: None), "sda", before) == 1  # type: ignore[arg-type]


def test_a_self_test_result_of_another_disk_with_the_same_name_is_not_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = SmartState("sda", "ata", "X", "S", "1", "PASS", "ok", (), self_test_left_percent=90)
    passed = SelfTest("Short offline", "Completed without error", True)
    new = before._replace(serial="T", self_test_left_percent=None, self_test_log=(passed,))
    answers = [before, new]
    monkeypatch.setattr(health.Health, "_next_reading", lambda *_: Reading(answers.pop(0), Status.OK))
    command = health.Health.__new__(health.Health)
    assert command._wait_for_result(SimpleNamespace(pause=lambda _: None), "sda", before) == 2  # type: ignore[arg-type]
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("another disk now")) == ("", 1)


@needs_smartctl
def test_a_disk_without_self_tests_is_reported(
    smartctl: Smartctl, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    smartctl.disk("nvme8", HEALTHY)
    assert run("nvme8n1", "--test", "short") == 2
    assert "not done" in capsys.readouterr().err
    assert not [call for call in smartctl.asked() if " -t " in call]


@needs_smartctl
def test_a_disk_is_found_by_the_serial_number_in_sysfs(
    smartctl: Smartctl, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    smartctl.disk("nvme8", HEALTHY)
    smartctl.disk("nvme9", FAILING)
    for name, answers in (("nvme8n1", HEALTHY), ("nvme9n1", FAILING)):
        (smartctl.tree / f"sys/block/{name}/device/serial").write_text(f"{answers['serial']}\n")
    assert run("S64GNE0T512345", "--json") == 0
    assert list(disks(capsys.readouterr().out)) == ["nvme8n1"]
    assert run("S64GNE0T599999", "--test", "short") == 2
    assert capsys.readouterr().err.startswith("nvme9n1: not done: ")
    assert run("S64GNE0T", "--json") == 2
    assert disks(capsys.readouterr().out)["S64GNE0T"]["reason"] == "no such disk"


@needs_smartctl
def test_the_history_is_plotted(smartctl: Smartctl, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--history") == 2
    assert "no disk has a history yet" in capsys.readouterr().err
    smartctl.disk("nvme8", HEALTHY)
    assert run() == 0
    smartctl.disk("nvme8", {**HEALTHY, "used": 4, "media_errors": 3})
    time.sleep(1.1)
    assert run() == 1
    capsys.readouterr()
    assert run("--history", "nvme8n1", "--ascii") == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert "nvme8n1 SAMSUNG MZQL21T9HCJR-00A07: 2 readings" in out
    for title in ("temperature, C", "rated life used, %", "media errors"):
        assert title in out
    assert "pending" not in out
    # A disk is selected by its serial number even after its removal. Without a name, all known disks are plotted.
    for words in (("S64GNE0T512345",), ()):
        assert run("--history", "--json", *words) == 0
        (disk,) = json.loads(capsys.readouterr().out)["disks"]
        assert [point["media_errors"] for point in disk["points"]] == [0, 3]


@pytest.mark.parametrize(
    "words",
    [
        ("--wait",),
        ("--test", "short"),
        ("sda", "--test", "abort", "--wait"),
        ("sda", "--test", "long", "--history"),
        ("sda", "--test", "short", "--json"),
    ],
)
def test_invalid_combinations_are_refused(words: tuple[str, ...]) -> None:
    args = build_parser(["health", *words]).parse_args(["health", *words])
    with pytest.raises(UsageError):
        health.run(args)


def test_the_real_program_prints_the_table(tmp_path: Path) -> None:
    done = iotop_started("health", "nosuch", XDG_STATE_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "unknown: nosuch: no such disk\n")
    assert iotop("--readonly", "health", "sda", "--test", "short", XDG_STATE_HOME=str(tmp_path)).returncode == 2


@pytest.mark.parametrize("place", ["before", "after"])
def test_types_of_disks_behind_controllers_are_parsed(place: str) -> None:
    flags = ["--smart-type", "sda=megaraid,0", "--smart-type", "sda=megaraid,1"]
    argv = [*flags, "health"] if place == "before" else ["health", *flags]
    settings = settings_of(build_parser(argv).parse_args(argv))
    assert settings.smart_types == (("sda", "megaraid,0"), ("sda", "megaraid,1"))
    with pytest.raises(UsageError, match="write sda=megaraid,3"):
        build_parser(["health"]).parse_args(["health", "--smart-type", "megaraid"])
    with pytest.raises(UsageError, match="'-q' is not a type for smartctl -d"):
        build_parser(["health"]).parse_args(["health", "--smart-type", "sda=-q"])
