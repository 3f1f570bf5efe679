"""The machine trees are written and read without loss, and a capture of a machine is complete."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.block.temperature import Temperatures
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.mounts import MountsCollector
from iotop_ai.model.block.counters import BlockInfo
from tests.capture import capture, main
from tests.machines import FOLDER, build, machine, names, pack, parse

contents = st.binary(max_size=40) | st.text(alphabet="ab \n\t>=<#", max_size=20).map(str.encode)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,4}(/[a-z:.0-9]{1,4}){0,2}", fullmatch=True), contents, max_size=4))
def test_a_tree_is_written_and_read_without_loss(entries: dict[str, bytes | str]) -> None:
    assert parse(pack(entries, "two\nlines")) == entries


@pytest.mark.parametrize("name", names())
def test_every_tree_is_in_canonical_form(name: str) -> None:
    text = (FOLDER / f"{name}.tree").read_text()
    comment = "\n".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    assert pack(parse(text), comment) == text
    assert all(not path.startswith(("/", "..")) for path in parse(text))


def disks(root: Root) -> dict[str, BlockInfo]:
    block, mounts = BlockCollector(root, Clock()), MountsCollector(root)
    block.read()
    mounts.read()
    temperatures = Temperatures(root, start=lambda work: work())
    return BlockInfoCollector(root, Clock(), block, mounts, temperatures).read()


@pytest.mark.parametrize("name", names())
def test_a_captured_machine_has_the_devices_of_the_real_one(name: str, tmp_path: Path) -> None:
    root = machine(name, tmp_path / "machine")
    copy = build(capture(root.path, serials=True), tmp_path / "copy")
    assert disks(copy) == disks(root)


def test_a_capture_of_this_machine_has_no_serial_numbers(tmp_path: Path) -> None:
    assert main([str(tmp_path / "here.tree")]) == 0
    entries = parse((tmp_path / "here.tree").read_text())
    assert entries["proc/diskstats"]
    assert all(content == b"SERIAL\n" for path, content in entries.items() if path.endswith("/serial"))
