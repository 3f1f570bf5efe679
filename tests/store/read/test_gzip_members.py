"""The gzip file of a recording can be read by any gunzip, and from any keyframe on."""

from __future__ import annotations

import gzip
import os
import tracemalloc
import zlib
from pathlib import Path

import pytest

from iotop_ai.model.errors import InputError
from iotop_ai.store.read.gzip_members import HEADER_BYTES, members, pack, unpack


def opened(path: Path, data: bytes) -> int:
    path.write_bytes(data)
    return os.open(path, os.O_RDONLY)


def test_any_gunzip_reads_the_file_and_any_member_can_be_read_alone(tmp_path: Path) -> None:
    texts = [f"minute {i}\n".encode() * 500 for i in range(20)]
    fd = opened(tmp_path / "a.gz", b"".join(pack(t, i, -i, int(i == 0)) for i, t in enumerate(texts)))
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"".join(texts)
    found = list(members(fd))
    assert [(m.at_ns, m.wall_ns, m.flags) for m in found] == [(i, -i, int(i == 0)) for i in range(20)]
    assert unpack(fd, found[13]) == texts[13]
    os.close(fd)


def test_a_match_across_the_end_of_a_chunk_is_complete(tmp_path: Path) -> None:
    """When the decompressor has used up its input, it may still hold the end of the last match."""
    for more in range(6):
        text = b"a" * ((4 << 20) + more)
        fd = opened(tmp_path / "a.gz", pack(text, 1, 1, 1))
        (member,) = members(fd)
        assert unpack(fd, member) == text
        os.close(fd)


def test_a_last_member_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    whole = pack(b"one", 1, 1, 1)
    for cut in range(1, len(whole)):
        fd = opened(tmp_path / "a.gz", whole + whole[:cut])
        assert len(list(members(fd))) == 1
        os.close(fd)


def test_a_file_that_is_cut_off_while_it_is_indexed_ends_there(tmp_path: Path) -> None:
    whole = pack(b"one", 1, 1, 1)
    fd = opened(tmp_path / "a.gz", whole * 3)
    found = members(fd)
    assert next(found).offset == 0
    os.truncate(tmp_path / "a.gz", len(whole) + HEADER_BYTES - 1)
    assert list(found) == []
    os.close(fd)


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    whole = bytearray(pack(b"some text " * 99, 1, 1, 1))
    whole[-6] ^= 1
    fd = opened(tmp_path / "a.gz", bytes(whole))
    (member,) = members(fd)
    with pytest.raises(InputError, match="damaged"):
        unpack(fd, member)
    os.close(fd)


def test_data_after_the_end_of_the_compressed_stream_is_refused_and_takes_little_memory(tmp_path: Path) -> None:
    whole = pack(b"some text " * 99, 1, 1, 1)
    longer = bytearray(whole)
    longer[16:20] = (len(whole) + (16 << 20)).to_bytes(4, "little")
    path = tmp_path / "a.gz"
    path.write_bytes(longer[:-8])
    os.truncate(path, len(whole) + (16 << 20) - 8)
    with path.open("ab") as file:
        file.write(whole[-8:])
    fd = os.open(path, os.O_RDONLY)
    (member,) = members(fd)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="damaged"):
            unpack(fd, member)
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()
        os.close(fd)


def test_a_gzip_file_of_another_program_is_refused(tmp_path: Path) -> None:
    fd = opened(tmp_path / "a.gz", gzip.compress(b"x" * 1000) + b"\0" * 64)
    with pytest.raises(InputError, match="gunzip"):
        list(members(fd))
    os.close(fd)


def test_a_gzip_bomb_takes_little_memory(tmp_path: Path) -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    # After a full flush no match refers to earlier bytes, so the packed MiB can be repeated.
    one = squeeze.compress(b"\0" * (1 << 20)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    body = one * 400 + squeeze.flush()
    honest = pack(b"", 0, 0, 1)
    head = bytearray(honest[:HEADER_BYTES])
    length = HEADER_BYTES + len(body) + 8
    head[16:20] = length.to_bytes(4, "little")
    fd = opened(tmp_path / "a.gz", bytes(head) + body + b"\0" * 8)
    (member,) = members(fd)
    with pytest.raises(InputError, match="64 MiB"):
        unpack(fd, member)
    os.close(fd)
