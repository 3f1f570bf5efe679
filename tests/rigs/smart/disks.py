"""Builds what stands between the real smartctl and a disk."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("fake_nvme.c")
SMARTCTL = "/usr/sbin/smartctl"

HEALTHY: dict[str, object] = {
    "model": "SAMSUNG MZQL21T9HCJR-00A07",
    "serial": "S64GNE0T512345",
    "fw": "GDC5602Q",
    "temp_k": 314,
    "spare": 100,
    "spare_thr": 10,
    "used": 3,
    "duread": 123456789,
    "duwritten": 98765432,
    "hours": 8123,
    "cycles": 21,
    "unsafe": 12,
    "sensor1_k": 314,
}

FAILING: dict[str, object] = {
    **HEALTHY,
    "serial": "S64GNE0T599999",
    "temp_k": 357,
    "spare": 4,
    "used": 102,
    "critical_warning": 5,
    "media_errors": 37,
    "err_entries": 37,
    "warn_time": 44,
}
"""Spare below its threshold, past its rated life, 37 media errors, 84 °C."""

_SECTOR = re.compile(
    r"(===== \[SMART READ ATTRIBUTE VALUES\] DATA START \(BASE-16\) =====\n)(.*?)(===== \[)", re.DOTALL
)
_ROW = re.compile(r"\d{3}-\d{3}: ([0-9a-f ]+)\|")


def why_no_smartctl() -> str:
    """Why the real smartctl cannot be run on a shim here; "" when it can."""
    if not os.access(SMARTCTL, os.X_OK):
        return "needs smartctl (smartmontools)"
    return "" if shutil.which("cc") else "needs cc (gcc)"


class Smartctl:
    """A smartctl by its ``path`` that finds NVMe controllers from text files beside the machine's own disks.

    Each call's arguments are appended to ``calls``. ``tree`` is a machine tree whose sysfs names those disks.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "root"
        self.calls = folder / "calls"
        self.path = folder / "smartctl"
        self._shim = folder / "fake_nvme.so"
        self._disks: list[str] = []
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self._shim, SOURCE, "-ldl"], check=True)
        self.write_script(f'exec {SMARTCTL} "$@"')

    def write_script(self, *lines: str) -> None:
        """What stands for smartctl: shell lines after the shim is set up and the call is noted."""
        fakes = ",".join(f"/dev/{name}={self.folder / name}.conf" for name in self._disks)
        text = [
            "#!/bin/sh",
            f'printf "%s\\n" "$*" >> {self.calls}',
            f"export LD_PRELOAD={self._shim} FAKE_NVME={fakes}",
            *lines,
        ]
        beside = self.folder / "script.new"
        beside.write_text("\n".join(text) + "\n")
        beside.chmod(0o755)
        os.replace(beside, self.path)
        self._lines = lines

    def disk(self, controller: str, answers: Mapping[str, object]) -> None:
        """Add or change an NVMe controller; it has one namespace."""
        beside = self.folder / "conf.new"
        beside.write_text("".join(f"{key}={value}\n" for key, value in answers.items()))
        os.replace(beside, self.folder / f"{controller}.conf")
        if controller not in self._disks:
            self._disks.append(controller)
            self.block(f"{controller}n1")
            (self.tree / "sys/class/nvme" / controller / f"{controller}n1").mkdir(parents=True)
            self.write_script(*self._lines)

    def block(self, name: str, **files: str) -> None:
        """Add a disk to the machine tree only."""
        folder = self.tree / "sys/block" / name
        (folder / "device").mkdir(parents=True)
        for relative, text in {"size": "3750748848", **files}.items():
            (folder / relative.replace("__", "/")).write_text(text + "\n")

    def asked(self) -> list[str]:
        """The calls so far."""
        return self.calls.read_text().splitlines() if self.calls.exists() else []


def sata_json(dump: str, attributes: Mapping[int, tuple[int, int]], *, failing: bool = False) -> dict[str, Any]:
    """What the real smartctl makes of a SATA disk's answers (its own ``-r ataioctl,2`` output) after an edit.

    attributes: id to (value, raw); one that the disk lacks is added. failing: the overall status.
    """
    match = _SECTOR.search(dump)
    assert match is not None
    sector = bytearray.fromhex("".join(_ROW.findall(match[2])))
    assert len(sector) == 512
    rows = range(2, 2 + 12 * 30, 12)
    for number, (value, raw) in attributes.items():
        row = next((row for row in rows if sector[row] == number), None)
        if row is None:
            row = next(row for row in rows if sector[row] == 0)
            sector[row : row + 3] = bytes((number, 0x32, 0))
        sector[row + 3 : row + 11] = bytes((value, value)) + raw.to_bytes(6, "little")
    sector[511] = -sum(sector[:511]) & 255
    lines = [
        f"{start:03d}-{start + 15:03d}: {sector[start : start + 16].hex(' ')} |{'.' * 16}|\n"
        for start in range(0, 512, 16)
    ]
    edited = dump[: match.start(2)] + "".join(lines) + dump[match.end(2) :]
    if failing:
        edited = edited.replace("SMART STATUS CHECK returned 0", "SMART STATUS CHECK returned 1")
    done = subprocess.run([SMARTCTL, "--json=c", "-a", "-"], input=edited, capture_output=True, text=True, check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
