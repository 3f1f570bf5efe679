"""``iotop-ai health`` with disks behind a RAID controller, by a smartctl that the test writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.cli.commands.health import command as health
from iotop_ai.cli.main import build_parser
from iotop_ai.cli.options.common import settings_of
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading, Status
from tests.rigs.smart import Smartctl, why_no_smartctl

WHY = why_no_smartctl()
needs_smartctl = pytest.mark.skipif(bool(WHY), reason=WHY or "there")
REFUSED = "Smartctl open device: /dev/sda failed: DELL or MegaRaid controller, please try adding '-d megaraid,N'"
FOUND = [
    {"name": "/dev/sda", "type": "scsi"},
    {"name": "/dev/bus/0", "type": "megaraid,2"},
    {"name": "/dev/bus/0", "type": "sat+megaraid,10"},
]
BEHIND = ["bus/0/megaraid,2", "bus/0/sat+megaraid,10"]
VOLUME = "a RAID volume: it has no health of its own"
Run = Callable[..., tuple[int, dict[str, dict[str, Any]]]]


def disk(serial: str, passed: bool) -> dict[str, Any]:
    return {
        "smartctl": {"exit_status": 0},
        "device": {"protocol": "ATA"},
        "model_name": "ST4000",
        "serial_number": serial,
        "smart_status": {"passed": passed},
        "smart_support": {"available": True, "enabled": True},
    }


class Server:
    """A server with a RAID volume sda and a disk sdb of its own."""

    def __init__(self, folder: Path) -> None:
        self.smartctl = Smartctl(folder)
        self.smartctl.block("sda")
        self.smartctl.block("sdb", device__vendor="ATA")
        self.answer("volume", {"smartctl": {"exit_status": 2, "messages": [{"string": REFUSED}]}})
        self.answer("sdb", disk("BOOT", True))
        self.answer("behind", disk("BEHIND", True))
        self.answer("scan", {"devices": FOUND})
        self.smartctl.write_script(
            f'cd {folder}; case "$*" in *scan*) cat scan.json;;',
            '*"-d megaraid,2 /dev/bus/0"|*"-d sat+megaraid,10 /dev/bus/0") cat behind.json;;',
            '*"/dev/sda") cat volume.json; exit 2;; *"/dev/sdb") cat sdb.json;; *) exit 2;; esac',
        )

    def answer(self, name: str, answer: dict[str, Any]) -> None:
        (self.smartctl.folder / f"{name}.json").write_text(json.dumps(answer))


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.fixture
def run(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def command(*words: str) -> tuple[int, dict[str, dict[str, Any]]]:
        argv = ["health", *words, "--json", "--smartctl", str(server.smartctl.path)]
        args = build_parser(argv).parse_args(argv)
        code = health.Health(settings_of(args), args, Clock(), Root(str(server.smartctl.tree))).run()
        out = capsys.readouterr().out
        return code, {one["name"]: one for one in json.loads(out)["disks"]} if out else {}

    return command


@needs_smartctl
def test_a_failing_disk_behind_a_controller_is_listed_and_gives_exit_code_1(server: Server, run: Run) -> None:
    code, disks = run()
    assert (code, list(disks)) == (0, ["sda", "sdb", *BEHIND])
    assert disks["sda"]["reason"] == "a RAID volume: the disks behind it are queried on bus/0"
    server.answer("behind", disk("BEHIND", False))
    code, disks = run()
    assert (code, disks[BEHIND[0]]["severity"], disks["sdb"]["severity"]) == (1, "critical", "ok")
    assert run("sdb")[0] == 0


@needs_smartctl
def test_a_disk_behind_a_controller_can_be_named(server: Server, run: Run) -> None:
    server.answer("behind", disk("BEHIND", False))
    code, disks = run(BEHIND[0])
    assert (code, list(disks), disks[BEHIND[0]]["severity"]) == (1, BEHIND[:1], "critical")
    assert not [call for call in server.smartctl.asked() if call.endswith(("/dev/sda", "/dev/sdb"))]
    code, disks = run("sda", BEHIND[1])
    assert (code, list(disks)) == (1, ["sda", BEHIND[1]])
    assert disks["sda"]["reason"] == "a RAID volume: the disks behind it are queried on bus/0"
    for word in ("bus/0/megaraid,7", "bus/0", "bus/0/usbweird"):
        code, disks = run(word)
        assert (code, list(disks)) == (2, [word])


@needs_smartctl
def test_a_volume_whose_disks_are_not_queried_makes_the_health_unknown(server: Server, run: Run) -> None:
    server.answer("scan", {"devices": FOUND[:1]})
    code, disks = run("--quiet-unsupported")
    assert (code, disks["sda"]["reason"]) == (2, VOLUME)
    assert run("sda", "--quiet-unsupported")[0] == 2


@needs_smartctl
def test_the_disks_of_another_controller_are_not_those_of_a_volume(server: Server, run: Run) -> None:
    folder = server.smartctl.tree / "sys/block/sda/device"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.symlink_to("../../devices/pci0000:00/host3/target3:2:0/3:2:0:0")
    code, disks = run()
    assert (code, disks["sda"]["reason"], disks[BEHIND[0]]["severity"]) == (2, VOLUME, "ok")


@pytest.mark.parametrize(
    ("volume", "code"), [(VOLUME, 2), ("a RAID volume: the disks behind it are queried on bus/0", 0)]
)
def test_the_exit_code_of_a_volume_beside_a_healthy_disk(volume: str, code: int) -> None:
    state = SmartState("d", "ata", "M", "S", "F", "PASS", "ok", ())
    readings = [Reading(state, Status.OK), Reading(None, Status.UNSUPPORTED, volume)]
    assert health.exit_code(readings) == code
