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
REFUSED = "DELL or MegaRaid controller, please try adding '-d megaraid,N'"
FOUND = [
    {"name": "/dev/sda", "info_name": "/dev/sda", "type": "scsi", "protocol": "SCSI", "open_error": REFUSED},
    {"name": "/dev/sdb", "info_name": "/dev/sdb [SAT]", "type": "sat", "protocol": "ATA"},
    {"name": "/dev/bus/0", "type": "megaraid,2"},
    {"name": "/dev/bus/0", "type": "sat+megaraid,10"},
]
BEHIND = ["bus/0/megaraid,2", "bus/0/sat+megaraid,10"]
VOLUME = "a RAID volume: it has no health of its own"
REMEDY = "--smart-type sda=megaraid,N for each disk behind it (see smartctl(8))"
Run = Callable[..., tuple[int, dict[str, dict[str, Any]]]]


def volume(name: str, vendor: str, product: str) -> dict[str, Any]:
    """What smartctl answers about a RAID volume whose type is given with -d: as about any disk without SMART."""
    return {
        "json_format_version": [1, 0],
        "smartctl": {"version": [7, 3], "argv": ["smartctl", "-d", "scsi"], "exit_status": 4},
        "device": {"name": f"/dev/{name}", "info_name": f"/dev/{name}", "type": "scsi", "protocol": "SCSI"},
        "scsi_vendor": vendor,
        "scsi_product": product,
        "scsi_model_name": f"{vendor} {product}",
        "scsi_revision": "4.27",
        "user_capacity": {"blocks": 7812939776, "bytes": 4000225165312},
        "rotation_rate": 7200,
        "serial_number": "00a1b2c3d4e5f6",
        "smart_support": {"available": False},
        "temperature": {"current": 0, "drive_trip": 0},
    }


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
        self.answer("volume", volume("sda", "EXAMPLE", "VOLUME"))
        self.answer("sdb", disk("BOOT", True))
        self.answer("behind", disk("BEHIND", True))
        self.answer("scan", {"devices": FOUND})
        self.smartctl.write_script(
            f'cd {folder}; case "$*" in *scan*) cat scan.json;;',
            '*"-d megaraid,2 /dev/bus/0"|*"-d sat+megaraid,10 /dev/bus/0") cat behind.json;;',
            '*"/dev/sda") cat volume.json; exit 4;; *"/dev/sdb") cat sdb.json;; *) exit 2;; esac',
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
    server.answer("scan", {"devices": FOUND[:2]})
    code, disks = run("--quiet-unsupported")
    assert (code, disks["sda"]["reason"], disks["sda"]["remedy"]) == (2, VOLUME, REMEDY)
    assert run("sda", "--quiet-unsupported")[0] == 2


@needs_smartctl
@pytest.mark.parametrize(
    ("vendor", "model", "given"),
    [
        ("DELL", "PERC H755 Front", "sda=megaraid,N"),
        ("AVAGO", "MR9361-8i", "sda=megaraid,N"),
        ("HPE", "LOGICAL VOLUME", "sda=cciss,N"),
        ("Areca", "ARC-1883-VOL#000", "sgX=areca,N"),
        ("AMCC", "9650SE-4LP DISK", "sda=3ware,N"),
        ("ASR8805", "Data", ""),
        ("Adaptec", "Data", "sda=aacraid,H,L,ID"),
    ],
)
def test_a_volume_is_recognised_by_its_name_where_the_scan_names_no_controller(
    server: Server, run: Run, vendor: str, model: str, given: str
) -> None:
    server.answer("scan", {"devices": [{"name": "/dev/sda", "type": "scsi"}]})
    server.answer("volume", volume("sda", vendor, model))
    folder = server.smartctl.tree / "sys/block/sda/device"
    (folder / "vendor").write_text(f"{vendor:8}\n")
    (folder / "model").write_text(f"{model:16}\n")
    code, disks = run()
    assert (code, disks["sda"]["model"]) == ((2 if given else 0), f"{vendor} {model}")
    assert disks["sda"]["reason"] == (VOLUME if given else "this device has no SMART")
    assert disks["sda"]["remedy"].partition(" for")[0] == (f"--smart-type {given}" if given else "")
    if given:  # a user may know better
        code, disks = run("--smart-type", "sda=scsi")
        assert (code, disks["sda"]["reason"]) == (0, "this device has no SMART")


@needs_smartctl
def test_a_volume_that_reports_smart_of_its_own_is_not_a_healthy_disk(server: Server, run: Run) -> None:
    server.answer("scan", {"devices": FOUND[:2]})
    healthy = volume("sda", "EXAMPLE", "VOLUME") | {"smart_status": {"passed": True}}
    server.answer("volume", healthy | {"smart_support": {"available": True, "enabled": True}})
    code, disks = run()
    assert (code, disks["sda"]["status"], disks["sda"]["severity"]) == (2, "unsupported", None)


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
