"""These parsers avoid regular expressions, which slow down start-up, but give the same results."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.collectors.block.diskstats import disk_of
from iotop_ai.collectors.block.identity import kind_of
from iotop_ai.collectors.machine.memory import parse_meminfo
from iotop_ai.collectors.machine.pressure import parse_pressure
from iotop_ai.model.job.programs import is_python
from iotop_ai.model.process.records import ProcessInfo

KINDS = {
    r"dm-\d+": "dm",
    r"md.*": "md",
    r"loop\d+": "loop",
    r"ram\d+": "ram",
    r"zram\d+": "zram",
    r"(sr|scd)\d+": "rom",
    r"fd\d+": "floppy",
    r"zd\d+": "zvol",
    r"ublkb\d+": "ublk",
    r"zloop\d+": "zloop",
    r"nvme\d+c\d+n\d+": "nvme-path",
}
PARTS = (
    "dm-",
    "md",
    "_d",
    "loop",
    "ublkb",
    "zloop",
    "ram",
    "zram",
    "z",
    "sr",
    "scd",
    "fd",
    "nvme",
    "c",
    "n",
    "p",
    "0",
    "12",
    "sda",
    "-",
)
device_names = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)
program_names = st.lists(st.sampled_from(("python", "py", "i", "pypy", "3", ".", "11", "w", "-", "d", "T")), max_size=6)
words = st.sampled_from(("MemTotal", "Active(anon)", "MemFree", ":", " ", "  ", "kB", "MB", "12", "x", "\t", "\n"))
shares = st.sampled_from(("some ", "full ", "someone ", "avg10=0.00 ", "total=12", "total=", " ", "7", "\n", "-"))


@given(device_names)
def test_the_kind_of_a_device_is_parsed(name: str) -> None:
    assert kind_of(name) == next((kind for text, kind in KINDS.items() if re.fullmatch(text, name)), "disk")


class _Any:
    def __contains__(self, name: object) -> bool:
        return name != ""


@given(device_names)
def test_the_disk_of_a_partition_is_parsed(name: str) -> None:
    found = re.fullmatch(r"(.*\d)p\d+|(.*\D)\d+", name)
    assert disk_of(name, _Any()) == ((found[1] or found[2]) if found else "")


@given(program_names.map("".join))
def test_a_python_interpreter_is_found_by_its_name(name: str) -> None:
    expected = bool(re.match(r"(?:python|pypy|ipython)[\d.]*[a-z]*$", name))
    assert is_python(ProcessInfo(name, (), "root", 0)) is expected
    assert is_python(ProcessInfo("x", (f"/usr/bin/{name}",), "root", 0)) is expected


@given(st.lists(words, max_size=24).map("".join))
def test_lines_of_meminfo_are_parsed(text: str) -> None:
    lines = [re.fullmatch(rb"(\w+):\s+(\d+) +kB\s*", line) for line in text.encode().split(b"\n")]
    used = (b"MemTotal", b"MemFree")
    expected = {found[1]: int(found[2]) * 1024 for found in lines if found and found[1] in used}
    assert parse_meminfo(text.encode()) == expected


@given(st.lists(shares, max_size=12).map("".join))
def test_lines_of_pressure_are_parsed(text: str) -> None:
    totals = {
        found[1]: int(found[2])
        for line in text.encode().split(b"\n")
        if (found := re.fullmatch(rb"(some|full) .*total=(\d+)", line))
    }
    read = parse_pressure(text.encode())
    assert (None if read is None else (read.some_us, read.full_us)) == (
        (totals[b"some"], totals.get(b"full")) if b"some" in totals else None
    )
