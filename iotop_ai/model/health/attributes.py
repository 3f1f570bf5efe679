"""The meaning of ATA attributes in a few words, and the counts that the rules judge.

Sources: the names and raw formats in smartmontools' drive database (drivedb.h; ata_format_attr_raw_value of
atacmds.cpp), and
https://en.wikipedia.org/wiki/Self-Monitoring,_Analysis_and_Reporting_Technology#Known_ATA_S.M.A.R.T._attributes. A
vendor may use a number for something else, which smartctl then prints under another name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from iotop_ai.lazy.regex import pattern
from iotop_ai.model.health.smart import SmartAttribute

MEANINGS: dict[int, str] = {
    1: "errors while reading, before correction; the raw value is vendor-specific",
    2: "throughput, by the vendor's own measure",
    3: "ms to reach full speed",
    4: "spindle starts and stops",
    5: "bad sectors replaced by spare ones",
    7: "seek errors; the raw value is vendor-specific",
    8: "seek speed, by the vendor's own measure",
    9: "hours powered on",
    10: "spin-ups that needed another try",
    11: "recalibrations that needed another try",
    12: "times powered on",
    170: "spare blocks left",
    171: "flash writes that failed",
    172: "flash erases that failed",
    173: "erases of a block, on average",
    174: "power cuts without a shutdown",
    175: "the power-loss capacitor",
    177: "wear: erases of a block, the value falls from 100",
    179: "spare blocks used",
    180: "spare blocks left",
    181: "flash writes that failed",
    182: "flash erases that failed",
    183: "link speed lowered, or bad blocks at run time",
    184: "errors between cache and host",
    187: "uncorrectable errors reported to the host",
    188: "commands that took too long: cable, power or the disk",
    189: "heads that flew too high",
    190: "temperature of the case, as 100 - °C or °C",
    191: "shocks while working",
    192: "emergency retracts of the heads, or power cuts",
    193: "load and unload of the heads",
    194: "°C in the lowest byte of the raw value",
    195: "errors corrected by ECC",
    196: "times a bad sector was replaced",
    197: "sectors that could not be read and wait to be rewritten",
    198: "sectors that could not be read in the offline scan",
    199: "transfers damaged on the cable: cable, connector or backplane",
    200: "errors while writing",
    202: "rated life used or left, by vendor",
    206: "flash write errors",
    210: "errors recovered with the drive's internal parity",
    230: "life used, by vendor",
    231: "rated life left, by vendor",
    232: "spare blocks left",
    233: "wear: the value falls from 100",
    234: "erases of blocks",
    235: "power-loss capacitor, or good blocks",
    240: "hours with the heads loaded",
    241: "written by the host, in the vendor's unit",
    242: "read by the host, in the vendor's unit",
    246: "sectors written by the host",
    247: "pages written by the host",
    248: "pages written by the drive itself",
    249: "written to flash, GiB",
    250: "reads that needed another try",
    254: "falls detected",
}


COUNTED: dict[int, str] = {
    5: "realloc|retired|retried|bad_bl",
    187: "unc_|uncor|ue_",
    188: "timeout",
    197: "pend",
    198: "unc_|uncor",
    199: "crc",
}
"""By attribute number: a pattern that matches the name if the attribute counts what this number usually counts.

Some disks count something else: Total_Unc_Read_Failures or ECC_Error_Count under 197, Host_Reads_GiB under 198,
Host_Writes_GiB under 199. smartctl calls an attribute that it does not know Unknown_Attribute or Unknown_SSD_Attribute.
"""
_BOGUS = pattern(r"bogus|not_in_use", re.IGNORECASE)
_BOGUS_PENDING_MODEL = pattern(r"CT\d+MX500SSD\d")
"""The Crucial MX500, whose attribute 197 alternates between 0 and 1 on a sound disk; since smartctl 7.5 its name is
Bogus_*."""
_LEADING_NUMBER = pattern(r"(\d+)(?![0-9A-Za-z])")
_HOURS = pattern(r"(\d+)(?:h\b|h\+|(?![0-9A-Za-z]))")
_WORD = 0xFFFF


def has_usual_meaning(number: int, name: str, model: str = "") -> bool:
    """Whether an attribute counts what its number, a key of ``COUNTED``, usually counts.

    An attribute without a name is assumed to count it.
    """
    if _BOGUS.search(name) or (number == 197 and _BOGUS_PENDING_MODEL.match(model)):
        return False
    return not name or re.search(COUNTED[number], name, re.IGNORECASE) is not None


def count_of(rows: Iterable[SmartAttribute], number: int, model: str = "") -> int | None:
    """The count of an attribute of ``COUNTED``; None if the disk lacks it or counts something else under this number.

    The count is the first number that smartctl prints, because a vendor may use the upper bits of the raw value for
    something else (Fujitsu and Toshiba, attribute 5: 8589934592000 is "0 (2000 0)"). The raw value of attribute 188 has
    three words of 16 bits; its count is the lowest word, which smartctl prints last ("1 1 5").
    """
    row = next((row for row in rows if row.id == number), None)
    if row is None or not has_usual_meaning(number, row.name, model):
        return None
    if number == 188:
        last = row.raw_text.rpartition(" ")[2]
        timeouts = int(last) if last.isdecimal() else row.raw
        return None if timeouts is None else timeouts & _WORD
    first = _LEADING_NUMBER.match(row.raw_text)
    return row.raw if first is None else int(first[1])


def hours_of(rows: Iterable[SmartAttribute]) -> int | None:
    """The hours powered on from attribute 9 ("12345", "12345 (7 0 0)" or "12345h+12m"); None if it cannot be read."""
    row = next((row for row in rows if row.id == 9 and "power_on" in row.name.lower()), None)
    match = None if row is None else _HOURS.match(row.raw_text)
    return None if match is None else int(match[1])


def meaning(number: int, name: str = "") -> str:
    """The meaning of an attribute; "" if its number is unknown or its name shows that it counts something else.

    The names Bogus_* and Not_In_Use mark a known fault of the firmware, which is then the meaning.
    """
    if number in COUNTED and not has_usual_meaning(number, name):
        return "not a count of bad sectors: a known firmware fault" if _BOGUS.search(name) else ""
    return MEANINGS.get(number, "")
