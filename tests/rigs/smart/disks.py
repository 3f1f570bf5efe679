"""Made-up disks: for NVMe, a shim answers the real smartctl; for SATA, a script replaces smartctl."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.rigs.smart import sata
from tests.rigs.smart.sata import SMARTCTL, edited

SOURCE = Path(__file__).with_name("fake_nvme.c")
DUMP = Path(__file__).parents[2] / "data/smart/sata_debug.txt"

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
"""Its spare is below the threshold, it is past its rated life, it has 37 media errors, and it is at 84 °C."""


def why_no_smartctl() -> str:
    """The reason why the real smartctl cannot run on a shim here; "" if it can."""
    if not os.access(SMARTCTL, os.X_OK):
        return "needs smartctl (smartmontools)"
    return "" if shutil.which("cc") else "needs cc (gcc)"


@functools.cache
def _shim() -> bytes:
    """The compiled shim; it is compiled once in a process."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "fake_nvme.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", target, SOURCE, "-ldl"], check=True)
        return target.read_bytes()


class Smartctl:
    """A smartctl at ``path`` that finds made-up disks, described by files, beside the real disks of the machine.

    The arguments of each call are appended to ``calls``. ``tree`` is a machine tree whose sysfs names these disks.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "root"
        self.calls = folder / "calls"
        self.path = folder / "smartctl"
        self._shim = folder / "fake_nvme.so"
        self._disks: list[str] = []
        self._satas: list[str] = []
        self._lines: tuple[str, ...] = ()
        self._shim.write_bytes(_shim())
        self.write_script(f'exec {SMARTCTL} "$@"')

    def write_script(self, *lines: str) -> None:
        """Write the script that replaces smartctl: it logs the call, sets up the shim, and runs these shell lines."""
        fakes = ",".join(f"/dev/{name}={self.folder / name}.conf" for name in self._disks)
        satas = self._satas
        text = [
            "#!/bin/sh",
            f'printf "%s\\n" "$*" >> {self.calls}',
            *(
                f'case "$*" in *"/dev/{d}") exec {sys.executable} -E -S {sata.__file__} {self.folder / d} "$@";; esac'
                for d in satas
            ),
            f"export LD_PRELOAD={self._shim} FAKE_NVME={fakes}",
            *lines,
        ]
        new_file = self.folder / "script.new"
        new_file.write_text("\n".join(text) + "\n")
        new_file.chmod(0o755)
        os.replace(new_file, self.path)
        self._lines = lines

    def disk(self, controller: str, answers: Mapping[str, object]) -> None:
        """Add or change an NVMe controller with one namespace."""
        new_file = self.folder / "conf.new"
        new_file.write_text("".join(f"{key}={value}\n" for key, value in answers.items()))
        os.replace(new_file, self.folder / f"{controller}.conf")
        if controller not in self._disks:
            self._disks.append(controller)
            self.block(f"{controller}n1")
            (self.tree / "sys/class/nvme" / controller / f"{controller}n1").mkdir(parents=True)
            self.write_script(*self._lines)

    def sata(self, name: str, attributes: Mapping[int, tuple[int, int]] = {}, **more: object) -> None:
        """Add or change a SATA disk.

        attributes: (value, raw) by id. more: ``failing``, ``hours``, and for self-tests ``seconds`` and ``fails``.
        """
        own = self.folder / name
        old = json.loads((own / "disk.json").read_text()) if own.exists() else {"log": [], "test": None}
        if not own.exists():
            own.mkdir()
            shutil.copy(DUMP, own / "dump.txt")
            self.block(name, device__vendor="ATA")
            self._satas.append(name)
        defaults = {"failing": False, "seconds": 3.0, "fails": False, "hours": 1}
        disk = {**defaults, **old, **more, "attributes": {str(number): pair for number, pair in attributes.items()}}
        new_file = own / "disk.new"
        new_file.write_text(json.dumps(disk))
        os.replace(new_file, own / "disk.json")
        self.write_script(*self._lines)

    def block(self, name: str, **files: str) -> None:
        """Add a disk only to the machine tree."""
        folder = self.tree / "sys/block" / name
        (folder / "device").mkdir(parents=True)
        for relative, text in {"size": "3750748848", **files}.items():
            (folder / relative.replace("__", "/")).write_text(text + "\n")

    def asked(self) -> list[str]:
        """The calls that were made so far."""
        return self.calls.read_text().splitlines() if self.calls.exists() else []


def sata_json(dump: str, attributes: Mapping[int, tuple[int, int]], *, failing: bool = False) -> dict[str, Any]:
    """The real smartctl's JSON for a SATA disk, from an edited dump that ``smartctl -r ataioctl,2`` printed.

    attributes: (value, raw) by id; an attribute that the disk lacks is added. failing: whether the disk fails.
    """
    dump = edited(dump, attributes, failing=failing)
    done = subprocess.run([SMARTCTL, "--json=c", "-a", "-"], input=dump, capture_output=True, text=True, check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
