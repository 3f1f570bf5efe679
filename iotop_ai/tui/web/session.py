"""The session of one browser: a monitor process and the websocket that shows it, which end together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence

from aiohttp import WSMsgType, web

from iotop_ai.collectors.io.spawn import start_async
from iotop_ai.model.clean import clean
from iotop_ai.tui.textual_internals.web_packets import (
    MessageError,
    is_exit,
    meta_packet,
    parse_message,
    read_packet,
    skip_to_packets,
    web_driver_environment,
)

LARGEST_MESSAGE = 1 << 16
"""The size limit, in bytes, of a message from a page. The longest messages are pasted texts."""
IDLE_S = 8 * 3600.0
"""The seconds after which a page that sends nothing, not even a mouse movement, counts as left open by mistake."""
HEARTBEAT_S = 15.0
"""The seconds between two pings. A page that has vanished is noticed after one and a half times as long."""
LEAVE_S = 1.0
"""The seconds that a monitor may take to end after it has been asked to quit."""
_STDERR_BYTES = 4096
_REASON_LENGTH = 200


class Session:
    """A monitor and the websocket that shows it. argv, environment: how the monitor is started."""

    def __init__(
        self, socket: web.WebSocketResponse, argv: Sequence[str], environment: Mapping[str, str], idle_s: float = IDLE_S
    ) -> None:
        self._socket = socket
        self._argv = argv
        self._environment = environment
        self._idle_s = idle_s
        self._stderr_end = b""

    async def run(self, columns: int, rows: int) -> str:
        """Run until the page or the monitor ends. Returns why the session ended; "" if the user left. Raises OSError if
        the monitor cannot be started.
        """
        pipe = asyncio.subprocess.PIPE
        child = await start_async(
            self._argv,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,  # the monitor and its children are one process group
            env={**self._environment, **web_driver_environment(columns, rows)},
        )
        stderr_task = asyncio.create_task(self._keep_stderr(child))
        sides = [asyncio.create_task(self._from_page(child)), asyncio.create_task(self._from_monitor(child))]
        try:
            done, _ = await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            return next((reason for side in sides if side in done and (reason := side.result())), "")
        finally:
            for side in sides:
                side.cancel()
            await asyncio.gather(*sides, return_exceptions=True)
            await self._end(child)
            stderr_task.cancel()
            await asyncio.gather(stderr_task, return_exceptions=True)

    async def _from_page(self, child: Process) -> str:
        """Forward the page's messages to the monitor; returns why they ended."""
        assert child.stdin is not None
        while True:
            try:
                async with asyncio.timeout(self._idle_s):
                    message = await self._socket.receive()
            except TimeoutError:
                return f"the page sent nothing for {self._idle_s:g} s"
            if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED):
                return ""
            try:
                if message.type is not WSMsgType.TEXT:
                    raise MessageError("not text, or too long")
                packet = parse_message(message.data)
            except MessageError as error:
                return f"the page sent an invalid message ({error})"
            if packet is not None:
                try:
                    child.stdin.write(packet.encoded())
                    await child.stdin.drain()
                except ConnectionError:  # the monitor has ended, and _from_monitor returns why
                    await asyncio.sleep(LEAVE_S)
                    return ""

    async def _from_monitor(self, child: Process) -> str:
        """Forward the monitor's packets to the page; returns why they ended."""
        assert child.stdout is not None
        try:
            if not await skip_to_packets(child.stdout):
                return await self._end_reason(child, "the monitor did not begin to paint")
            while True:
                packet = await read_packet(child.stdout)
                if packet is None:
                    return "the monitor sent a packet that is too large"
                if packet.letter == b"D":
                    await self._socket.send_bytes(packet.payload)
                elif packet.letter == b"M" and is_exit(packet.payload):
                    return ""
        except asyncio.IncompleteReadError:
            return await self._end_reason(child, "the monitor closed its output")
        except ConnectionError:
            return ""  # the page is closed

    async def _end_reason(self, child: Process, while_it_runs: str) -> str:
        """Why the packets ended. while_it_runs: the reason if the monitor has not ended."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), LEAVE_S)
        if child.returncode is None:
            return while_it_runs
        lines = [
            clean(line, _REASON_LENGTH).strip() for line in self._stderr_end.decode("utf-8", "replace").splitlines()
        ]
        last = next((line for line in reversed(lines) if line), "")
        return f"the monitor ended with status {child.returncode}{': ' + last if last else ''}"

    async def _keep_stderr(self, child: Process) -> None:
        """Keep the end of the monitor's stderr, and read all of it so that the pipe does not fill up."""
        assert child.stderr is not None
        while piece := await child.stderr.read(_STDERR_BYTES):
            self._stderr_end = (self._stderr_end + piece)[-_STDERR_BYTES:]

    async def _end(self, child: Process) -> None:
        """Ask the monitor to quit; kill its process group if it does not."""
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(ConnectionError):
            child.stdin.write(meta_packet(type="quit").encoded())
            child.stdin.close()
        rest = asyncio.create_task(_drain(child.stdout))
        try:
            await asyncio.wait_for(child.wait(), LEAVE_S)
        except TimeoutError:
            pass
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
            rest.cancel()
            await asyncio.gather(rest, return_exceptions=True)


async def _drain(out: asyncio.StreamReader) -> None:
    """Read to the end, so that a monitor that still paints is not blocked."""
    while await out.read(1 << 16):
        pass
