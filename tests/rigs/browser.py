"""A headless Chromium, controlled by its DevTools protocol: what a page requests, logs, and shows."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0")
START_S = 60.0


def chromium() -> str:
    """The path of Chromium; "" if it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), "")


class Page:
    """One tab. requests: the addresses that the page requested. logged: messages of the page and of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._next = 0
        self.requests: list[str] = []
        self.logged: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result. Events that arrive meanwhile are kept."""
        self._next += 1
        await self._socket.send_json({"id": self._next, "method": method, "params": params})
        while True:
            message = await asyncio.wait_for(self._socket.receive_json(), START_S)
            if message.get("id") == self._next:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._keep(message)

    def _keep(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Log.entryAdded":
            self.logged.append(params["entry"]["text"])
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.logged.append(json.dumps(params)[:500])

    async def open(self, path: Path, *, dark: bool = False) -> None:
        """Load a file, and wait until it is drawn."""
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[theme])
        await self.call("Emulation.setDeviceMetricsOverride", width=1200, height=900, deviceScaleFactor=1, mobile=False)
        await self.call("Page.navigate", url=path.resolve().as_uri())
        while await self.value("document.readyState") != "complete":
            await asyncio.sleep(0.05)

    async def value(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def point(self, x: float, y: float) -> None:
        """Move the pointer to this position."""
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def picture(self, path: Path) -> None:
        """Save the whole page as a PNG image."""
        found = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    async def print(self) -> bytes:
        """Print the page, and return it as PDF."""
        found = await self.call("Page.printToPDF", printBackground=True)
        return base64.b64decode(found["data"])


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Page]:
    """Start a new Chromium, and yield its tab."""
    with tempfile.TemporaryDirectory(prefix="iotop-chromium-", ignore_cleanup_errors=True) as profile:
        program = subprocess.Popen(
            [chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port_file = Path(profile) / "DevToolsActivePort"
            for _ in range(int(START_S / 0.05)):
                if port_file.exists() and port_file.read_text().count("\n"):
                    break
                assert program.poll() is None, "chromium has ended"
                await asyncio.sleep(0.05)
            port = port_file.read_text().split()[0]
            from aiohttp import ClientSession  # this import takes half a second in each process that runs tests

            async with ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    tabs = await answer.json()
                address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
                async with session.ws_connect(address, max_msg_size=0) as socket:
                    yield Page(socket)
        finally:
            program.terminate()
            program.wait(timeout=30)
