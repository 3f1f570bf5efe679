"""The protocol of Textual's web driver, with which the monitor runs in a browser, and of the page of textual-serve.

The driver writes packets (textual/drivers/web_driver.py, 8.2): a letter, the length in four bytes, the payload. The
page sends JSON lists (static/js/textual.js of textual-serve 1.1). Any other input ends the session with a reason.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from iotop_ai.present.screen.bounds import clamp_size

START_LINE = b"__GANGLION__\n"
"""The line that the driver writes before the first packet."""
LARGEST_PACKET = 1 << 26
"""The largest size in bytes of a packet from the monitor."""
_MOST_FIRST_LINES = 10
"""The number of lines at the start of the output among which START_LINE must be."""


class MessageError(Exception):
    """A message that the page of textual-serve would not send."""


class Packet(NamedTuple):
    """A packet to or from the web driver.

    letter: "D" for typed or painted data, "M" for a message about the screen or the session, in JSON.
    """

    letter: bytes
    payload: bytes

    def encoded(self) -> bytes:
        """The packet as bytes."""
        return self.letter + len(self.payload).to_bytes(4, "big") + self.payload


def meta_packet(**fields: Any) -> Packet:
    """A packet with a message about the screen or the session."""
    return Packet(b"M", json.dumps(fields).encode())


def parse_message(text: str) -> Packet | None:
    """A message from the page as the packet for the monitor; None for a ping. Raises MessageError for any other
    message.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise MessageError("not JSON") from None
    match message:
        case ["stdin", str(typed)]:
            # JSON can contain a lone surrogate, which cannot be encoded.
            return Packet(b"D", typed.encode("utf-8", "replace"))
        case ["resize", {"width": int(width), "height": int(height)}] if bool not in (type(width), type(height)):
            columns, rows = clamp_size(width, height)
            return meta_packet(type="resize", width=columns, height=rows)
        case ["ping", str()]:
            return None
        case ["blur" | "focus" as kind]:
            return meta_packet(type=kind)
    raise MessageError("JSON of another form")


def is_exit(payload: bytes) -> bool:
    """Whether the payload of an "M" packet says that the monitor has ended."""
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and message.get("type") == "exit"


async def skip_to_packets(out: asyncio.StreamReader) -> bool:
    """Read up to and including START_LINE; returns False if that line does not come."""
    for _ in range(_MOST_FIRST_LINES):
        try:
            line = await out.readline()
        except ValueError:  # longer than the reader's limit
            return False
        if line in (START_LINE, b""):
            return line == START_LINE
    return False


async def read_packet(out: asyncio.StreamReader) -> Packet | None:
    """The next packet; None if it is too large. Raises IncompleteReadError at the end of the stream."""
    head = await out.readexactly(5)
    size = int.from_bytes(head[1:], "big")
    return None if size > LARGEST_PACKET else Packet(head[:1], await out.readexactly(size))


def web_driver_environment(columns: int, rows: int) -> dict[str, str]:
    """The environment variables that select Textual's web driver, and set its size and highest frame rate."""
    columns, rows = clamp_size(columns, rows)
    return {
        "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver",
        "TEXTUAL_FPS": "60",
        "TEXTUAL_COLOR_SYSTEM": "truecolor",
        "TERM_PROGRAM": "textual",
        "COLUMNS": str(columns),
        "ROWS": str(rows),
        "LINES": str(rows),
    }
