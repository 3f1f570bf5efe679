"""The parsers never raise and let no control byte through, whatever bytes the kernel's files contain."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.collectors.block.diskstats import parse_line
from iotop_ai.collectors.machine.mounts import parse_mountinfo
from iotop_ai.collectors.machine.netfs import parse_mountstats

evil = st.sampled_from([b"\x1b]0;owned\x07", b"[/x]", b"\\033[2J", b"\xe2\x80\xae", b"\xff\xfe", b"", b"a", b"\\999"])


def joined(*parts: st.SearchStrategy[bytes] | bytes) -> st.SearchStrategy[bytes]:
    return st.tuples(*(part if isinstance(part, st.SearchStrategy) else st.just(part) for part in parts)).map(b"".join)


lines = joined(b"8 0 ", evil, b" 1" * 17)
mounts = joined(b"36 35 8:1 /", evil, b" /m", evil, b" rw - ext4 /dev/", evil, b" rw\n")
stats = joined(
    b"device s:", evil, b" mounted on /m", evil, b" with fstype nfs statvers=1.1\n\tbytes:\t1 2 3 4 5 6 7 8\n",
    b"\tper-op statistics\n\t", evil, b": 1 1 1 1 1 1 1 1\n",
)  # fmt: skip


def strings(value: object) -> Iterable[str]:
    """Every string in a record, including the keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for pair in value.items() for each in pair for text in strings(each))
    elif isinstance(value, tuple):
        yield from (text for each in value for text in strings(each))


@given(lines | st.binary(max_size=200))
def test_any_line_of_diskstats_is_parsed_safely(raw: bytes) -> None:
    assert all(text.isprintable() for text in strings(parse_line(raw)))


@given(mounts | st.binary(max_size=200))
def test_any_mountinfo_is_parsed_safely(raw: bytes) -> None:
    found = parse_mountinfo(raw)
    assert all(text.isprintable() for text in strings(found))


@given(stats | st.binary(max_size=200))
def test_any_mountstats_is_parsed_safely(raw: bytes) -> None:
    assert all(text.isprintable() for text in strings(parse_mountstats(raw)))
