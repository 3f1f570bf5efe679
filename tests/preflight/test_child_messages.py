"""The messages of a child, from pieces of any size."""

from __future__ import annotations

import json

import pytest

from iotop_ai.preflight.child_messages import MessageReader, parse_message

MESSAGES = [{"message": "phase", "phase": "import"}, {"message": "steady", "batches": 3}]
RAW = b"".join(json.dumps(one).encode() + b"\n" for one in MESSAGES)


@pytest.mark.parametrize("size", [1, 7, len(RAW)])
def test_pieces_of_any_size_give_the_same_messages(size: int) -> None:
    reader = MessageReader()
    assert [one for at in range(0, len(RAW), size) for one in reader.feed(RAW[at : at + size])] == MESSAGES


def test_a_line_without_an_end_is_dropped_and_the_next_line_is_read() -> None:
    reader = MessageReader()
    assert reader.feed(b"x" * (1 << 18)) == []
    assert reader.feed(b"\n" + RAW) == [{}, *MESSAGES]


@pytest.mark.parametrize(
    "line",
    [b"", b"plain text", b"[1]", b'{"other": 1}', b'{"message": 1}', b"\xff", pytest.param(b"[" * 100_000, id="deep")],
)
def test_a_line_that_is_not_a_message_is_skipped(line: bytes) -> None:
    assert parse_message(line) == {}
