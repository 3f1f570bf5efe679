from __future__ import annotations

from datetime import UTC, datetime

import pytest

from iotop_ai.store.format.part_names import part_name, part_pattern

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/run.iotop.jsonl", "/a/run.20261121T120000.iotop.jsonl"),
        ("run.jsonl", "run.20261121T120000.jsonl"),
        ("run.jsonl.gz", "run.20261121T120000.jsonl"),
        ("run", "run.20261121T120000"),
        ("run.dat", "run.dat.20261121T120000"),
        ("/a.jsonl/run", "/a.jsonl/run.20261121T120000"),
    ],
)
def test_the_name_of_a_part_has_its_time(path: str, name: str) -> None:
    assert part_name(path, NOON) == name
    for found, number in ((name, None), (name.replace("T120000", "T120000-7"), "7")):
        match, packed = part_pattern(path).fullmatch(found), part_pattern(path).fullmatch(found + ".gz")
        assert match is not None
        assert packed is not None
        assert (match.groups(), packed.groups()) == (
            ("20261121T120000", number, None), ("20261121T120000", number, ".gz"),
        )  # fmt: skip


@pytest.mark.parametrize("path", ["run", "run.iotop.jsonl"])
def test_other_files_are_not_parts(path: str) -> None:
    for name in (path, "run2.20261121T120000", "run.20261121", "run.20261121T120000.iotop.jsonl.tmp"):
        assert part_pattern(path).fullmatch(name) is None
