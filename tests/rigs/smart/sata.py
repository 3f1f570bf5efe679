"""A made-up SATA disk: an edited dump of a disk's answers, which the real smartctl reads.

python sata.py FOLDER <smartctl's arguments> replaces smartctl. ``FOLDER/disk.json`` describes the disk (attributes,
overall status, a self-test that runs or fails), and ``FOLDER/dump.txt`` is a dump that ``smartctl -r ataioctl,2``
printed. This program starts, aborts and ends self-tests, which take ``seconds``, as a disk does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SMARTCTL = "/usr/sbin/smartctl"
VALUES, LOG = "SMART READ ATTRIBUTE VALUES", "SMART READ LOG"
SELF_TEST_LOG_AT = 1
"""The index of the self-test log among the sectors called LOG in a dump; the first is the error log."""
STATUS_BYTE = 363
IN_PROGRESS, FAILED_READ, ABORTED = 0xF0, 0x70, 0x10
NUMBERS = {"short": 1, "long": 2}

_ROW = re.compile(r"\d{3}-\d{3}: ([0-9a-f ]+)\|")


def _section(dump: str, name: str, nth: int = 0) -> re.Match[str]:
    pattern = rf"(===== \[{name}\] DATA START \(BASE-16\) =====\n)(.*?)(===== \[)"
    return list(re.finditer(pattern, dump, re.DOTALL))[nth]


def _sector(match: re.Match[str]) -> bytearray:
    return bytearray.fromhex("".join(_ROW.findall(match[2])))


def _with_sector(dump: str, match: re.Match[str], sector: bytearray) -> str:
    sector[511] = -sum(sector[:511]) & 255
    lines = [
        f"{start:03d}-{start + 15:03d}: {sector[start : start + 16].hex(' ')} |{'.' * 16}|\n"
        for start in range(0, 512, 16)
    ]
    return dump[: match.start(2)] + "".join(lines) + dump[match.end(2) :]


def edited(
    dump: str,
    attributes: Mapping[int, tuple[int, int]],
    *,
    failing: bool = False,
    status: int | None = None,
    tests: Sequence[tuple[int, int, int]] = (),
) -> str:
    """The dump of a disk with these changes.

    attributes: (value, raw) by id; an attribute that the disk lacks is added. failing: whether the disk fails. status:
    the status byte of the self-test. tests: (number, status byte, hours) of each entry in its log, oldest first.
    """
    match = _section(dump, VALUES)
    sector = _sector(match)
    rows = range(2, 2 + 12 * 30, 12)
    for number, (value, raw) in attributes.items():
        row = next((row for row in rows if sector[row] == number), None)
        if row is None:
            row = next(row for row in rows if sector[row] == 0)
            sector[row : row + 3] = bytes((number, 0x32, 0))
        sector[row + 3 : row + 11] = bytes((value, value)) + raw.to_bytes(6, "little")
    if status is not None:
        sector[STATUS_BYTE] = status
    dump = _with_sector(dump, match, sector)
    if tests:
        match = _section(dump, LOG, SELF_TEST_LOG_AT)
        sector = _sector(match)
        for i, (number, ended, hours) in enumerate(tests[-21:]):
            sector[2 + 24 * i : 6 + 24 * i] = bytes((number, ended)) + hours.to_bytes(2, "little")
        sector[508] = min(len(tests), 21)
        dump = _with_sector(dump, match, sector)
    return dump.replace("SMART STATUS CHECK returned 0", "SMART STATUS CHECK returned 1") if failing else dump


class Sata:
    """The disk that the files of a folder describe."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "disk.json"
        self._dump = folder / "dump.txt"
        self.disk: dict[str, Any] = json.loads(self._file.read_text())

    def save(self) -> None:
        new_file = self._file.with_suffix(".new")
        new_file.write_text(json.dumps(self.disk))
        os.replace(new_file, self._file)

    def settle(self) -> int | None:
        """End a self-test whose time is over. Return the status byte of the self-test; None without one."""
        test = self.disk.get("test")
        if test is None:
            return None
        done = (time.time() - test["began"]) / test["seconds"]
        if done >= 1:
            ended = FAILED_READ if test["fails"] else 0
            self.end(ended)
            return ended
        return IN_PROGRESS + max(1, 9 - int(done * 10))

    def end(self, status: int) -> None:
        log = self.disk.setdefault("log", [])
        log.append([NUMBERS[self.disk["test"]["kind"]], status, self.disk["hours"]])
        self.disk["test"] = None
        self.save()

    def dump(self) -> str:
        status = self.settle()
        attributes = {int(number): tuple(pair) for number, pair in self.disk["attributes"].items()}
        tests = [tuple(row) for row in self.disk.get("log", [])]
        return edited(self._dump.read_text(), attributes, failing=self.disk["failing"], status=status, tests=tests)  # type: ignore[arg-type]


def answer(exit_status: int, text: str = "") -> int:
    messages = [{"string": text, "severity": "error"}] if text else []
    print(json.dumps({"smartctl": {"version": [7, 3], "exit_status": exit_status, "messages": messages}}))
    return exit_status


def main(folder: Path, arguments: list[str]) -> int:
    if "--scan-open" in arguments:
        return answer(0)
    sata = Sata(folder)
    if "-t" in arguments:
        sata.settle()
        if sata.disk.get("test"):
            return answer(4, "Can't start self-test without aborting current test")
        kind = arguments[arguments.index("-t") + 1]
        seconds = sata.disk["seconds"]
        sata.disk["test"] = {"kind": kind, "began": time.time(), "seconds": seconds, "fails": sata.disk["fails"]}
        sata.save()
        return answer(0)
    if "-X" in arguments:
        if sata.disk.get("test"):
            sata.end(ABORTED)
        return answer(0)
    form = ["--json=c"] if "--json=c" in arguments else []
    return subprocess.run([SMARTCTL, *form, "-a", "-"], input=sata.dump(), text=True, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
