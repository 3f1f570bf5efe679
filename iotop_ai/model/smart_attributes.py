"""What ATA attributes mean, in a few words. Pure.

Sources: the names in smartmontools' drive database, and
https://en.wikipedia.org/wiki/Self-Monitoring,_Analysis_and_Reporting_Technology#Known_ATA_S.M.A.R.T._attributes; a
vendor may count something else under the same number.
"""

from __future__ import annotations

MEANINGS: dict[int, str] = {
    1: "errors while reading, before correction; the raw value is the vendor's own",
    2: "throughput, by the vendor's own measure",
    3: "ms to reach full speed",
    4: "spindle starts and stops",
    5: "bad sectors replaced by spare ones",
    7: "seek errors; the raw value is the vendor's own",
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
    187: "errors that could not be corrected, told to the host",
    188: "commands that took too long: cable, power or the disk",
    189: "heads that flew too high",
    190: "temperature of the case, as 100 - °C or °C",
    191: "shocks while working",
    192: "emergency retracts of the heads, or power cuts",
    193: "load and unload of the heads",
    194: "°C in the lowest byte of the raw value",
    195: "errors corrected by ECC",
    196: "events of replacing a bad sector",
    197: "sectors that could not be read and wait to be rewritten",
    198: "sectors that could not be read in the offline scan",
    199: "transfers damaged on the cable: cable, connector or backplane",
    200: "errors while writing",
    202: "rated life used or left, by vendor",
    206: "flash write errors",
    210: "recoveries by the drive's own parity",
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


def meaning(number: int) -> str:
    """What an attribute counts; "" when its number is not known."""
    return MEANINGS.get(number, "")
