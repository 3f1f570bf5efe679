"""Writes docs/health.md from the rules: ``python -m tests.health_doc [--check]``."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from iotop_ai.model.health.growth import DAY_S, SHORTEST_WEAR_DAYS
from iotop_ai.model.health.rules import ATA, BACKBLAZE, GOOGLE, NVME, RULES, Rule, with_verdict
from iotop_ai.model.health.smart import HealthPoint, PastPoint, SelfTest, SmartAttribute, SmartState
from tests.pages import write_or_check

PAGE = Path(__file__).resolve().parents[1] / "docs/health.md"
NOW_S = 1_790_000_000
HEAD = """\
# Disk health

Every rule about disk health, with its condition and its message. Written by `python -m tests.health_doc` from
`iotop_ai/model/health/rules.py`; change the rule, not the page.

Each disk is queried every five minutes, one at a time, never while a device is saturated; a sleeping disk is not woken
and keeps its last result. Growth counts more than level: it is the difference from the reading nearest to 24 h ago.
Readings are kept by serial number, model and world-wide name in `$XDG_STATE_HOME/iotop-ai/health/`. Of several rules
about one figure only the worst applies. A disk without any figure is *unknown*, never healthy. An NVMe's error log
entries alone are not a reason for an alarm.

Disks behind a RAID controller are listed by bus and type (`bus/0/megaraid,3`) where `smartctl --scan-open` finds them;
`--smart-type sda=cciss,0` adds others. Querying them needs root. The volume itself has no health; on the main screen,
it has the worst health of its disks. A volume is recognised by that scan ("please try adding '-d megaraid,N'") or by
its vendor and model: DELL PERC, MegaRAID, LSI, AVAGO, BROADCOM, HP and HPE LOGICAL VOLUME, Areca, 3ware, AMCC, Adaptec.
`--smart-type sda=scsi` makes one of these names a disk of its own.

An ATA count is the first number that smartctl prints for an attribute (188: the lowest of its three words). An
attribute whose name shows another meaning (`Host_Writes_GiB`, `Unknown_SSD_Attribute`) has no rule, nor has attribute
197 of a Crucial MX500, which rises and falls on healthy disks. Wear is forecast at the mean rate since the oldest known
reading, once that is {forecast:g} days old.

`iotop-ai health` exits 1 when any disk has a warning or worse, else 2 when a disk could not be queried or judged or
none answers, else 0; if other disks answer, a sleeping disk or one without SMART does not change that. A RAID volume
none of whose disks is queried counts as a disk that could not be queried.

Sources: {sources}.
"""
TABLE = """
## {severity}

| rule | holds when | source | line, for example |
|---|---|---|---|
"""
SOURCES = {"ATA": ATA, "NVMe": NVME, "Backblaze": BACKBLAZE, "Google": GOOGLE}
"""A short name for each source that is cited by several rules."""

_PREFAIL = SmartAttribute(5, "Reallocated_Sector_Ct", 10, 10, 36, 1800, "1800", "now", True)
_OLD_AGE = SmartAttribute(194, "Temperature_Celsius", 30, 30, 45, 70, "70", "now", False)
_DAY_AGO = HealthPoint(NOW_S - DAY_S)
_MONTH: tuple[PastPoint, ...] = (PastPoint(NOW_S - 30 * DAY_S, 40, 82),)

EXAMPLES: dict[str, dict[str, Any]] = {
    "overall-failed": {"assessment": "FAIL"},
    "prefail-now": {"attributes": (_PREFAIL,)},
    "nvme-spare": {"critical_warning": 0x01},
    "nvme-temperature": {"critical_warning": 0x02},
    "nvme-reliability": {"critical_warning": 0x04},
    "nvme-read-only": {"critical_warning": 0x08},
    "nvme-backup": {"critical_warning": 0x10},
    "nvme-memory-region": {"critical_warning": 0x20},
    "nvme-other": {"critical_warning": 0x40},
    "pending-grows": {"pending": 3, "earlier": _DAY_AGO._replace(pending=2)},
    "uncorrectable-grows": {"uncorrectable": 4, "earlier": _DAY_AGO._replace(uncorrectable=0)},
    "reallocated-grows": {"reallocated": 32, "earlier": _DAY_AGO._replace(reallocated=20)},
    "reallocated-many": {"reallocated": 312, "earlier": _DAY_AGO._replace(reallocated=303)},
    "media-grows": {"protocol": "nvme", "media_errors": 37, "earlier": _DAY_AGO._replace(media_errors=35)},
    "worn-out": {"protocol": "nvme", "used_percent": 102},
    "hot": {"temperature_celsius": 61, "rotation_rpm": 7200},
    "overall-warns": {"assessment": "WARN"},
    "attribute-now": {"attributes": (_OLD_AGE,)},
    "prefail-past": {"attributes": (_PREFAIL._replace(failed="past"),)},
    "self-test-failed": {"self_test_log": (SelfTest("Short offline", "Completed: read failure", False, 812),)},
    "reallocated": {"reallocated": 12, "earlier": _DAY_AGO._replace(reallocated=3)},
    "pending": {"pending": 2, "earlier": _DAY_AGO._replace(pending=2)},
    "uncorrectable": {"uncorrectable": 1},
    "reported": {"reported_uncorrectable": 6},
    "timeouts": {"command_timeouts": 4},
    "media": {"protocol": "nvme", "media_errors": 1},
    "crc-grows": {"crc_errors": 1204, "earlier": _DAY_AGO._replace(crc_errors=1164)},
    "throttles": {
        "protocol": "nvme",
        "warning_temperature_minutes": 88,
        "earlier": _DAY_AGO._replace(warning_temperature_minutes=44),
    },
    "spare-low": {"protocol": "nvme", "available_spare_percent": 15, "spare_threshold_percent": 10},
    "worn": {"protocol": "nvme", "used_percent": 92},
    "worn-soon": {"protocol": "nvme", "used_percent": 88, "past": _MONTH},
    "warm": {"temperature_celsius": 51, "rotation_rpm": 7200},
    "crc": {"crc_errors": 512, "earlier": _DAY_AGO._replace(crc_errors=512)},
}
"""The facts about a disk that trigger each rule."""


def example(changes: dict[str, Any]) -> SmartState:
    """A healthy disk, with these changes."""
    fine = SmartState("/dev/sda", "ata", "M", "S", "F", "PASS", "unknown", (), read_wall_s=NOW_S)
    return with_verdict(fine._replace(**changes))


def line(rule: Rule) -> str:
    """The message that a rule gives for its example."""
    return next(one.text for one in example(EXAMPLES[rule.id]).judgements if one.rule == rule.id)


def page() -> str:
    """The whole page as Markdown."""
    short = {source: name for name, source in SOURCES.items()}
    sources = "; ".join(f"{name}: {source}" for name, source in SOURCES.items())
    out = [HEAD.format(forecast=SHORTEST_WEAR_DAYS, sources=sources)]
    for severity, rules in groupby(RULES, key=lambda rule: rule.severity):
        out.append(TABLE.format(severity=severity.capitalize()))
        for rule in rules:
            cells = (f"`{rule.id}`", rule.threshold, short.get(rule.source, rule.source), line(rule))
            out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return "".join(out)


if __name__ == "__main__":
    sys.exit(write_or_check("tests.health_doc", PAGE, page()))
