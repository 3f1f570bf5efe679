"""A gzip file with one member for each keyframe, which can be read starting at any member.

The header of each member has an extra field "IO" (RFC 1952, 2.3.1.1) with the length of the member and the time of its
keyframe, so that the index can be read from the headers alone. Any gunzip can read the file.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.errors import InputError
from iotop_ai.store.format.size_limits import LARGEST_BLOCK, MIB

_EXTRA = struct.Struct("<2sHIqqB")
_HEAD = struct.Struct("<4sIBBH")
_TAIL = struct.Struct("<II")
_MAGIC = b"\x1f\x8b\x08\x04"
HEADER_BYTES = _HEAD.size + _EXTRA.size
_STEP = 1 << 20
"""The packed bytes that are read at once."""
_PART = 4 << 20
"""The maximum number of bytes that are unpacked at once."""
STARTS_SESSION = 1
"""The flag of a member whose block begins a session."""
PREROLL = 2
"""The flag of a member that is pre-roll: it is from the minute before the recording and is not shown."""


class Member(NamedTuple):
    """The position of a member in the file.

    at_ns, wall_ns: the times of its keyframe
    flags: STARTS_SESSION, PREROLL, both or 0
    """

    offset: int
    length: int
    at_ns: int
    wall_ns: int
    flags: int


def pack(data: bytes, at_ns: int, wall_ns: int, flags: int, level: int = 6) -> bytes:
    """Compress the data to one gzip member.

    Z_FILTERED avoids short matches. A reference to a few earlier digits takes more bits than these digits themselves,
    so the result is 4 to 7 % smaller.
    """
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_FILTERED)
    body = compressor.compress(data) + compressor.flush()
    length = HEADER_BYTES + len(body) + _TAIL.size
    extra = _EXTRA.pack(b"IO", _EXTRA.size - 4, length, at_ns, wall_ns, flags)
    head = _HEAD.pack(_MAGIC, 0, 0, 255, len(extra))
    return head + extra + body + _TAIL.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)


def members(fd: int) -> Iterator[Member]:
    """The members of an open file, read from their headers, without an incomplete last member.

    Raises InputError for a gzip file that another program made.
    """
    size = os.fstat(fd).st_size
    offset = 0
    while offset + HEADER_BYTES <= size:
        head = os.pread(fd, HEADER_BYTES, offset)
        if len(head) < HEADER_BYTES:  # the file was truncated meanwhile
            return
        magic, _, _, _, extra_length = _HEAD.unpack_from(head)
        name, field_length, length, at_ns, wall_ns, flags = _EXTRA.unpack_from(head, _HEAD.size)
        if magic != _MAGIC or extra_length != _EXTRA.size or name != b"IO" or field_length != _EXTRA.size - 4:
            raise InputError("a gzip file without this program's index; gunzip it first")
        if length < HEADER_BYTES + _TAIL.size or offset + length > size:
            return
        yield Member(offset, length, at_ns, wall_ns, flags)
        offset += length


def unpack(fd: int, member: Member) -> bytes:
    """The data of a member. Raises InputError if it is damaged, or too large when unpacked."""
    return b"".join(iter_decompressed(fd, member))


def iter_decompressed(fd: int, member: Member) -> Iterator[bytes]:
    """The data of a member, a few MiB at a time. Raises InputError.

    A wrong checksum is detected only after the last chunk.
    """
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
    unpacked_bytes, crc = 0, 0
    left = member.length - HEADER_BYTES - _TAIL.size
    at = member.offset + HEADER_BYTES
    try:
        while left > 0:
            raw = os.pread(fd, min(left, _STEP), at)
            if not raw:
                break
            left, at = left - len(raw), at + len(raw)
            while True:
                part = decompressor.decompress(raw, _PART)
                unpacked_bytes += len(part)
                if unpacked_bytes > LARGEST_BLOCK:
                    raise InputError(f"a part of the file unpacks to more than {LARGEST_BLOCK // MIB} MiB")
                # zlib would keep all bytes after the end of its stream and copy them again with each read.
                if decompressor.eof and (left or decompressor.unused_data):
                    raise InputError("a part of the file is damaged")
                crc = zlib.crc32(part, crc)
                yield part
                raw = decompressor.unconsumed_tail
                # If the output fills a whole part, there may be more output even though all input is used up.
                if not raw and len(part) < _PART:
                    break
    except zlib.error:
        raise InputError("a part of the file is damaged") from None
    tail = os.pread(fd, _TAIL.size, member.offset + member.length - _TAIL.size)
    if len(tail) < _TAIL.size or _TAIL.unpack(tail) != (crc, unpacked_bytes & 0xFFFFFFFF):
        raise InputError("a part of the file is damaged")
