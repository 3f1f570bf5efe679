"""The close message that a browser gets when its session ends."""

from __future__ import annotations

from tests.cli.commands.web.test_command import LONG_S, needs_extra, server_of


@needs_extra
async def test_the_reason_in_a_close_message_is_cut_between_two_characters() -> None:
    import aiohttp

    argv = ("/bin/sh", "-c", "printf '" + r"\303\251" * 60 + "' >&2; exit 3")
    async with server_of(*argv) as (page, _, browser), browser.ws_connect(f"{page}ws") as ws:
        message = await ws.receive(timeout=LONG_S)
    assert message.type is aiohttp.WSMsgType.CLOSE
    assert message.extra == "the monitor ended with status 3: " + "é" * 33
