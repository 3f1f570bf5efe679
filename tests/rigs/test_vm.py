"""Health of a virtual machine's NVMe, SATA and SCSI disks, with a real smartctl, kernel and screen."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.vm import Machine, why_no_machine

TOP = Path(__file__).resolve().parents[2]
PROGRAM = f"cd {TOP} && {sys.executable} -m iotop_ai"
WHY = why_no_machine()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(WHY), reason=WHY or "there"),
    pytest.mark.timeout(900),
]
LONG_S = 120.0
"""The seconds to wait for a program. The guest runs without KVM, where programs take ten times as long."""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    try:
        made = Machine()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no kernel for a guest: {error.stderr.decode(errors='replace')[-200:]}")
    with made:
        yield made


def health(machine: Machine, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code of the command, and its disks by name."""
    code, text = machine.run(f"{PROGRAM} health --json {' '.join(words)} 2>/dev/null", LONG_S)
    return code, {disk["name"]: disk for disk in json.loads(text)["disks"]}


def smartctl(machine: Machine, device: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(machine.run(f"smartctl --json=c -a {device}")[1])
    return answer


def until(machine: Machine, wanted: Callable[[str], bool]) -> str:
    """Wait until the screen's text is as wanted, and return the text."""
    end = time.monotonic() + LONG_S
    while True:
        text = machine.run("tmux -L rig capture-pane -p")[1]
        if wanted(text):
            return text
        assert time.monotonic() < end, text
        time.sleep(1)


def press(machine: Machine, *keys: str) -> None:
    for key in keys:
        machine.run(f"tmux -L rig send-keys {key}")


def test_the_values_are_those_that_smartctl_prints(machine: Machine) -> None:
    code, disks = health(machine)
    assert code == 0
    nvme, sata, scsi = disks["nvme0n1"], disks["sda"], disks["sdb"]
    state = smartctl(machine, "/dev/nvme0")
    log = state["nvme_smart_health_information_log"]
    assert (nvme["status"], nvme["severity"], nvme["assessment"]) == ("ok", "ok", "PASS")
    assert {name: nvme[name] for name in ("model", "serial", "firmware")} == {
        "model": state["model_name"],
        "serial": "RIGNVME01",
        "firmware": state["firmware_version"],
    }
    assert nvme["temperature_celsius"] == state["temperature"]["current"]
    for ours, theirs in (
        ("available_spare_percent", "available_spare"),
        ("used_percent", "percentage_used"),
        ("media_errors", "media_errors"),
        ("critical_warning", "critical_warning"),
        ("unsafe_shutdowns", "unsafe_shutdowns"),
        ("error_log_entries", "num_err_log_entries"),
    ):
        assert nvme[ours] == log[theirs], ours
    # The disk counts the reads that happen meanwhile.
    assert 0 <= log["data_units_read"] * 512_000 - nvme["read_bytes"] <= 8 * 512_000
    state = smartctl(machine, "/dev/sda")
    rows = {row["id"]: row for row in state["ata_smart_attributes"]["table"]}
    assert [row["id"] for row in sata["attributes"]] == list(rows)
    for row in sata["attributes"]:
        theirs = rows[row["id"]]
        assert (row["name"], row["value"], row["worst"]) == (theirs["name"], theirs["value"], theirs["worst"])
        assert (row["threshold"], row["raw"]) == (theirs.get("thresh"), theirs["raw"]["value"])
    assert (sata["severity"], sata["serial"]) == ("ok", "RIGSATA01")
    assert sata["temperature_celsius"] == state["temperature"]["current"]
    state = smartctl(machine, "/dev/sdb")
    assert (scsi["status"], scsi["severity"], scsi["reason"]) == ("unsupported", None, "this device has no SMART")
    assert (scsi["model"], scsi["serial"]) == (state["scsi_model_name"], "RIGSCSI01")
    assert scsi["temperature_celsius"] == (state["temperature"]["current"] or None)
    assert disks["vda"]["status"] == "unsupported"


def test_without_permission_the_sudoers_lines_are_shown(machine: Machine) -> None:
    without_rights = f"setpriv --bounding-set -sys_admin,-sys_rawio {sys.executable}"
    code, text = machine.run(f"{PROGRAM.replace(sys.executable, without_rights)} health nvme0n1", LONG_S)
    assert code == 2, text
    assert "ALL=(root) NOPASSWD: /usr/sbin/smartctl --json\\=c --scan-open" in text
    assert "QEMU NVMe Ctrl; reading SMART needs root" in text
    assert "denied     50" in text  # this temperature in °C comes from the kernel's sensor


def test_the_screen_and_the_exit_code_follow_the_disk(machine: Machine) -> None:
    """The real screen shows a critical warning, the disk being unplugged and plugged in again, and a self-test."""
    machine.run(f"cd {TOP} && tmux -L rig -f /dev/null new-session -d -x 100 -y 30 '{sys.executable} -m iotop_ai'")
    until(machine, lambda text: "h:health" in text)
    press(machine, "h")
    until(machine, lambda text: "nvme0n1" in text and "2 ok" in text)

    machine.warn_nvme(0x0D)
    press(machine, "u")
    text = until(machine, lambda text: "nvme0n1 fails" in text)
    assert "the medium is read-only" in text
    assert health(machine, "nvme0n1")[0] == 1
    machine.warn_nvme(0)
    press(machine, "u")
    until(machine, lambda text: "fails" not in text and "2 ok" in text)
    assert health(machine, "nvme0n1")[0] == 0

    machine.unplug_nvme()
    until(machine, lambda text: "nvme0n1" not in text and "sda" in text)
    assert health(machine, "nvme0n1")[0] == 2
    machine.plug_nvme()
    until(machine, lambda text: "nvme0n1" in text and "2 ok" in text)
    # The disk has the same serial number, so it keeps its history.
    assert len(health(machine, "nvme0n1")[1]["nvme0n1"]["past"]) >= 2

    press(machine, "End", "Home")
    for name in ("nvme0n1", "sda"):
        text = until(machine, lambda text, name=name: f"── {name} " in text)  # type: ignore[misc]
        if name == "nvme0n1":
            assert "T:self-test" not in text  # this smartctl cannot start a self-test of an NVMe disk
            press(machine, "Down")
    press(machine, "T")
    assert "about 2 min" in until(machine, lambda text: "Type short or long" in text)
    press(machine, "s", "h", "o", "r", "t", "Enter")
    until(machine, lambda text: "short self-test begun" in text)
    press(machine, "Enter")
    until(machine, lambda text: "Short offline" in text and "Completed without error" in text)
    press(machine, "q")
    entries = [json.loads(line) for line in machine.run("cat /root/.local/state/iotop-ai/audit.jsonl")[1].splitlines()]
    assert [line["result"] for line in entries if line["target"].startswith("sda")] == [
        "asked",
        "short self-test begun",
    ]
