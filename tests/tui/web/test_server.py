"""The close message that a browser gets when its session ends, and the messages of libraries."""

from __future__ import annotations

import logging

from tests.cli.commands.web.test_command import LONG_S, needs_extra, server_of


@needs_extra
async def test_the_reason_in_a_close_message_is_cut_between_two_characters() -> None:
    import aiohttp

    argv = ("/bin/sh", "-c", "printf '" + r"\303\251" * 60 + "' >&2; exit 3")
    async with server_of(*argv) as (page, _, browser), browser.ws_connect(f"{page}ws") as ws:
        message = await ws.receive(timeout=LONG_S)
    assert message.type is aiohttp.WSMsgType.CLOSE
    assert message.extra == "the monitor ended with status 3: " + "é" * 33


@needs_extra
def test_a_message_that_differs_in_its_values_is_reported_once_a_minute() -> None:
    from iotop_ai.tui.web.server import _OneLine

    lines: list[str] = []
    handler = _OneLine(lines.append)
    for at_s in range(70):
        messages = ((1, "bad request from %s", (at_s,)), (2, f"bad header {at_s}", ()), (2, f"task failed {at_s}", ()))
        for line, text, values in messages:
            record = logging.LogRecord("aiohttp", logging.WARNING, "library.py", line, text, values, None)
            record.created = 1000.0 + at_s
            handler.emit(record)
    assert lines == [
        "bad request from 0",
        "bad header 0",
        "task failed 0",
        "bad request from 60",
        "bad header 60",
        "task failed 60",
    ]
    assert len(handler._reported_s) == 3
