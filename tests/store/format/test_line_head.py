"""The head that is read from the start of a line agrees with the line's JSON."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from iotop_ai.store.format.line_head import (
    PREVIOUS_LENGTH_WITHIN,
    LineHead,
    has_key,
    is_keyframe,
    is_snap,
    parse_head,
    previous_length_of,
    starts_session,
    with_pre,
    with_previous_length,
)

GOLDEN = Path(__file__).parents[2] / "data" / "recordings" / "format-1.iotop.jsonl.gz"
LINES = gzip.decompress(GOLDEN.read_bytes()).splitlines()


def test_a_head_equals_the_parsed_json() -> None:
    kinds = set()
    for line in LINES:
        raw = json.loads(line)
        head = parse_head(line)
        assert head is not None
        assert head.kind == raw["k"]
        assert head.pre == raw.get("pre", False)
        if raw["k"] != "hdr" and "t" in raw:
            assert (head.at_ns, head.wall_ns) == (raw["m"], raw["t"])
        if raw["k"] == "snap":
            assert is_snap(line.decode())
            assert has_key(line) == is_keyframe(line.decode()) == ("key" in raw)
            assert previous_length_of(line[:PREVIOUS_LENGTH_WITHIN]) == raw.get("back")
        if raw["k"] == "hdr":
            assert starts_session(line) is not raw["continues"]
        kinds.add(raw["k"])
    assert kinds >= {"hdr", "ev", "snap", "verdict", "end"}


def test_the_pre_roll_flag_and_the_previous_length_are_added_and_read_back() -> None:
    for line in (raw.decode() for raw in LINES):
        if not is_snap(line):
            continue
        plain = json.loads(line)
        marked = with_pre(line)
        assert with_pre(marked) == marked
        assert json.loads(marked) == {**plain, "pre": True}
        assert parse_head(marked.encode()) == LineHead("snap", plain["m"], plain["t"], True)
        if is_keyframe(line) and "back" not in plain:
            assert previous_length_of(with_previous_length(line, 20481).encode()) == 20481
            assert json.loads(with_previous_length(line, 20481)) == {**plain, "back": 20481}


@pytest.mark.parametrize("line", [b"", b"{}", b"[1]", b'{"k":', b'{"k":"", "m":1}', b'{"m":1,"k":"snap"}'])
def test_text_that_is_not_a_line_does_not_have_a_head(line: bytes) -> None:
    assert parse_head(line) is None


def test_a_head_without_times_still_has_a_kind() -> None:
    assert parse_head(b'{"k":"snap","m":12345678901234567890,"t":1}') == LineHead("snap", None, None, False)
    assert parse_head(b'{"k":"snap","pre":true,"v":{}}') == LineHead("snap", None, None, True)
    assert parse_head(b'{"k":"end","m":5}') == LineHead("end", None, None, False)
