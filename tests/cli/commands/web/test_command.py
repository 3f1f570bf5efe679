"""The screen in a browser: it needs the key and our host name, is read-only and bounded, and ends with its page."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import iotop_ai
from iotop_ai.cli.commands.web.command import command
from iotop_ai.cli.commands.web.session import MEMORY_BYTES
from iotop_ai.cli.main import build_parser, main
from iotop_ai.cli.options.common import settings_of
from iotop_ai.collectors.io.spawn import own_environment, own_python
from iotop_ai.model.settings import Settings
from iotop_ai.present.screen.bounds import MOST_COLUMNS, MOST_ROWS, clamp_size

INSTALLED = importlib.util.find_spec("textual_serve") is not None
needs_extra = pytest.mark.skipif(not INSTALLED, reason="needs the extra: textual-serve")
SLOW = functools.partial(pytest.param, marks=pytest.mark.slow)
LONG_S = 60.0
MOST_MIB = 400
"""The most memory of a monitor with the largest screen, which normally takes about 50 MiB."""


@pytest.mark.skipif(INSTALLED, reason="the extra is here")
def test_without_the_extra_packages_the_command_is_a_one_line_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web"]) == 2
    assert capsys.readouterr().err == ("unknown: the browser needs textual-serve: pip install 'iotop-ai[web]'\n")


@pytest.mark.parametrize("port", ["0", "80", "65536", "x", "-1"])
def test_an_invalid_port_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", f"--port={port}"]) == 2
    assert "is not a port; write 1024 to 65535" in capsys.readouterr().err


def test_a_session_runs_the_read_only_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["web", "-d", "2", "--device", "sda", "--theme", "light", "--no-smart", "--smart-type", "s a=sat"]
    args = build_parser(argv).parse_args(argv)
    settings = settings_of(args)
    args.config = "own.toml"
    words = command(settings._replace(procfs="host/proc", sysfs="host/sys"), args)
    assert words[:6] == [
        sys.executable,
        "-P",
        "-m",
        "iotop_ai.cli.commands.web.session",
        str(os.getpid()),
        "--readonly",
    ]
    assert words[-2:] == ["--config", str(tmp_path / "own.toml")]
    places = words.index("--procfs")
    assert words[places : places + 4] == [
        "--procfs",
        str(tmp_path / "host/proc"),
        "--sysfs",
        str(tmp_path / "host/sys"),
    ]
    flags = [*words[5:places], *words[places + 4 : -2]]
    again = settings_of(build_parser(flags).parse_args(flags))
    assert again == settings._replace(readonly=True, chosen=again.chosen)


def test_a_session_has_the_settings_file_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    args = build_parser(["web"]).parse_args(["web"])
    for config in ("own.toml", "~/own.toml"):
        monkeypatch.setenv("IOTOP_AI_CONFIG", config)
        assert command(Settings(), args)[-2:] == ["--config", os.path.abspath(os.path.expanduser(config))]


def test_the_size_of_the_screen_is_bounded() -> None:
    assert clamp_size(211, 58) == (211, 58)
    assert clamp_size(10**9, 10**9) == (MOST_COLUMNS, MOST_ROWS)
    assert clamp_size(0, -5) == (1, 1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Served(NamedTuple):
    """A running server. key: the key of the printed address, which opens the page once."""

    port: int
    key: str
    child: subprocess.Popen[str]

    def get(self, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
        """The status, headers and text of one answer. Redirects are not followed."""
        with socket.create_connection(("127.0.0.1", self.port), 20) as line:
            lines = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", **headers}
            head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
            line.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode())
            answer = b"".join(iter(lambda: line.recv(1 << 16), b"")).decode("utf-8", "replace")
        top, _, text = answer.partition("\r\n\r\n")
        first, *rest = top.split("\r\n")
        return int(first.split()[1]), dict(line.split(": ", 1) for line in rest), text

    def open(self, key: str = "") -> str:
        """Open the page with a key, and return its path."""
        status, headers, _ = self.get(f"/{key or self.key}")
        assert status == 303
        return headers["Location"]

    def next_key(self) -> str:
        """The key that the server prints after the previous key was used."""
        assert self.child.stdout is not None
        found = re.search(rf"http://127\.0\.0\.1:{self.port}/(\S{{32}})\n", self.child.stdout.readline())
        assert found
        return found[1]

    def monitors(self) -> list[int]:
        """The pids of the monitors, one for each open page."""
        text = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    @contextlib.asynccontextmanager
    async def socket(self, page: str, size: str = "width=100&height=30") -> AsyncIterator[Any]:
        """Open the websocket that a browser would open."""
        import aiohttp

        url = f"http://127.0.0.1:{self.port}{page}ws?{size}"
        origin = {"Origin": f"http://127.0.0.1:{self.port}"}
        async with aiohttp.ClientSession() as browser, browser.ws_connect(url, headers=origin, max_msg_size=0) as ws:
            yield ws


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server that was started in a folder with a package which an unsafely started Python would import."""
    package = tmp_path / "iotop_ai"
    package.mkdir()
    for name in ("__init__", "__main__"):
        (package / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    port = free_port()
    words = own_python("iotop_ai", "web", "--port", str(port), "--no-smart", "-d", "0.5")
    environment = {**own_environment(), "PYTHONPATH": str(Path(iotop_ai.__file__).parents[2])}
    child = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    )
    assert child.stdout is not None
    line = child.stdout.readline()
    found = re.fullmatch(rf"open http://127\.0\.0\.1:{port}/(\S{{32}})\n", line)
    assert found, (line, child.poll())
    assert child.stdout.readline().startswith("read-only")
    try:
        yield Served(port, found[1], child)
    finally:
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
    assert "Traceback" not in err
    assert child.returncode in (0, -signal.SIGHUP, -signal.SIGKILL)
    assert not (tmp_path / "ran").exists()


async def until(what: Callable[[], bool], failure: str) -> None:
    end = time.monotonic() + LONG_S
    while not what():
        assert time.monotonic() < end, failure
        await asyncio.sleep(0.05)


async def painted(ws: Any, word: str) -> str:
    """Wait until the painted text contains the word, and return the text."""
    import aiohttp

    seen = ""
    while word not in seen:
        message = await ws.receive(timeout=LONG_S)
        assert message.type is aiohttp.WSMsgType.BINARY, seen[-2000:]
        seen += message.data.decode("utf-8", "replace")
    return seen


@needs_extra
def test_a_page_needs_this_machine_the_key_and_our_host_name(served: Served) -> None:
    table = "".join(Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6"))
    listening = [line.split()[1] for line in table.splitlines() if line.split()[3] == "0A"]
    mine = f":{served.port:04X}"
    assert [address for address in listening if address.endswith(mine)] == [f"0100007F{mine}"]
    page = served.open()
    status, _, text = served.get(page)
    assert status == 200
    assert "iotop-ai" in text
    assert f"ws://127.0.0.1:{served.port}{page}ws" in text
    assert served.get(f"{page}static/js/textual.js")[0] == 200
    name = {"Origin": f"http://127.0.0.1:{served.port}"}
    for path in ("/", "/wrong", "/wrong/", "/wrong/ws", "/wrong/static/js/textual.js", page[:-1], f"/{served.key}"):
        assert served.get(path, **name)[0] in (403, 404), path
    for path in ("../served.py", "%2e%2e/%2e%2e/server.py", "/etc/passwd", "", "../download/x"):
        assert served.get(f"{page}static/{path}")[0] in (403, 404), path
    for path in (page, f"{page}static/js/textual.js", f"{page}ws"):
        assert served.get(path, Host=f"evil.example:{served.port}")[0] == 403
        assert served.get(path, Host=f"localhost:{served.port}")[0] == 403
        assert served.get(path, Origin="http://evil.example")[0] == 403
        assert served.get(path, Origin="null")[0] == 403
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade, close", "Sec_WebSocket_Version": "13"}
    assert served.get(f"{page}ws", **upgrade)[0] == 403


@needs_extra
def test_the_printed_address_opens_once(served: Served) -> None:
    """A later reader of the terminal's history cannot open the address, while the first browser keeps its page."""
    assert served.get(f"/{served.key}", method="HEAD")[0] == 405
    assert served.get(f"/{served.key}", Sec_Purpose="prefetch;prerender")[0] == 503
    first = served.open()
    assert served.get(f"/{served.key}")[0] == 403
    second = served.open(served.next_key())
    assert first != second
    for page in (first, second):
        assert served.get(page)[0] == 200


@needs_extra
def test_the_key_is_not_leaked(served: Served) -> None:
    """No cookie is set, because every port of 127.0.0.1 would get it. No Referer is sent; no other host is asked."""
    page = served.open()
    for path in (
        f"/{served.next_key()}",
        page,
        f"{page}static/js/textual.js",
        "/wrong",
        f"{page}static/x",
        f"{page}ws",
    ):
        _, headers, _ = served.get(path)
        assert "Set-Cookie" not in headers
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self'; ")
        assert "http" not in policy
        assert re.findall(r"wss?://\S+", policy) == [f"ws://127.0.0.1:{served.port};"]


@needs_extra
async def test_a_session_shows_the_screen_and_writes_nothing(served: Served) -> None:
    import aiohttp

    async with served.socket(served.open()) as ws:
        await ws.send_json(["resize", {"width": 100, "height": 30}])
        await painted(ws, "process")
        (pid,) = served.monitors()
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert os.getpgid(pid) == pid
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert re.search(rf"^Max address space +{MEMORY_BYTES} +{MEMORY_BYTES} ", limits, re.MULTILINE)
        await ws.send_json(["stdin", "R"])
        await painted(ws, "read-only")
        await ws.send_json(["stdin", "P"])
        await painted(ws, "this screen cannot write")
        await ws.send_json(["ping", "1"])
        await ws.send_json(["stdin", "q"])
        while not ws.closed:
            if (await ws.receive(timeout=LONG_S)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED):
                break
    await until(lambda: not served.monitors(), "the monitor still runs")


IMPOSSIBLE = (
    ("width=100000&height=100000", []),
    ("width=100&height=30", [["resize", {"width": 100_000, "height": 100_000}]]),
    ("width=100&height=30", [["stdin", "\x1b[48;100000;100000;1;1t"]]),  # the terminal's own report of its size
)
"""The parameters of the address, with the messages: three ways to ask for a size."""


@needs_extra
async def test_impossible_sizes_are_bounded(served: Served) -> None:
    page = served.open()
    for query, messages in IMPOSSIBLE:
        await assert_bounded(served, page, query, messages)


async def assert_bounded(served: Served, page: str, query: str, messages: Sequence[object]) -> None:
    others = set(served.monitors())  # the monitor of the previous page may still be ending
    async with served.socket(page, query) as ws:
        await painted(ws, "process")
        for message in messages:
            await ws.send_json(message)
        seen = await painted(ws, f"\x1b[{MOST_ROWS};")
        (pid,) = set(served.monitors()) - others
        for _ in range(20):
            with contextlib.suppress(TimeoutError):
                seen += (await ws.receive(timeout=0.1)).data.decode("utf-8", "replace")
        assert max(int(row) for row in re.findall(r"\x1b\[(\d+);\d+H", seen)) == MOST_ROWS
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        assert peak
        assert int(peak[1]) >> 10 < MOST_MIB


BAD = [
    "no JSON",
    "[" * 50_000,
    "{}",
    "[]",
    "5",
    '["stdin"]',
    '["stdin", 5]',
    '["resize", {"width": "100", "height": 30}]',
    '["resize", {"width": 1e400, "height": 30}]',
    '["resize", {"width": true, "height": 30}]',
    '["resize", {"width": 9}]',
    '["ping", {"a": 1}]',
    '["quit"]',
    json.dumps(["stdin", "x" * 70_000]),
    b"\x00",
]


async def assert_refused(ws: Any, bad: str | bytes) -> None:
    import aiohttp

    await (ws.send_bytes(bad) if isinstance(bad, bytes) else ws.send_str(bad))
    while (message := await ws.receive(timeout=LONG_S)).type is aiohttp.WSMsgType.BINARY:
        continue
    assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED), bad
    assert message.data in (aiohttp.WSCloseCode.POLICY_VIOLATION, aiohttp.WSCloseCode.MESSAGE_TOO_BIG)


@needs_extra
async def test_an_invalid_message_closes_only_its_session(served: Served) -> None:
    page = served.open()
    assert served.child.stderr is not None
    async with served.socket(page) as other:
        await painted(other, "process")
        async with served.socket(page) as ws:
            await assert_refused(ws, BAD[0])
        line = await asyncio.to_thread(served.child.stderr.readline)
        assert line.startswith("web: a screen was closed: the page sent an invalid message (")
        # after a resize the whole screen is painted again
        await other.send_json(["resize", {"width": 99, "height": 29}])
        await painted(other, "process")
        assert len(served.monitors()) == 1
    served.child.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(served.child.stderr.read) == ""


@needs_extra
async def test_a_monitor_ends_when_its_page_is_closed_even_if_the_monitor_is_stopped(served: Served) -> None:
    page = served.open()
    for stopped in (False, True):
        async with served.socket(page) as ws:
            await painted(ws, "process")
            (pid,) = served.monitors()
            if stopped:
                os.kill(pid, signal.SIGSTOP)
            ws._response.close()  # as when a browser is killed, no close message is sent
        await until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), "the monitor still runs")


@needs_extra
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, *map(SLOW, (signal.SIGINT, signal.SIGHUP))])
async def test_the_monitor_ends_when_the_server_ends(served: Served, number: int) -> None:
    # aiohttp handles SIGINT as it does SIGTERM, and SIGHUP ends a server as SIGKILL does
    begun = 0.0
    async with served.socket(served.open()) as ws:
        await painted(ws, "process")
        (pid,) = served.monitors()
        begun = time.monotonic()
        served.child.send_signal(number)
        await until(lambda: not Path(f"/proc/{pid}").exists(), "the monitor still runs")
        assert await asyncio.to_thread(served.child.wait, 20) in (0, -number)
    assert time.monotonic() - begun < 20


class Lines(list[str]):
    """The lines that a server has printed."""

    def __call__(self, line: str) -> None:
        self.append(line)


@contextlib.asynccontextmanager
async def server_of(*argv: str) -> AsyncIterator[tuple[str, Lines, Any]]:
    """A server in this process whose monitors are another program. Yields the page's address, reports and a client."""
    import aiohttp

    from iotop_ai.tui.web.server import BrowserServer

    port, reports = free_port(), Lines()
    opens = Lines()
    async with (
        BrowserServer(argv, {}, port, opens, reports).listening(),
        aiohttp.ClientSession(headers={"Origin": f"http://127.0.0.1:{port}"}) as browser,
    ):
        async with browser.get(opens[0]) as answer:
            page = str(answer.url)
        yield page, reports, browser


@needs_extra
async def test_sessions_are_limited() -> None:
    import aiohttp

    from iotop_ai.tui.web.server import MOST_SESSIONS

    async with server_of("/bin/sleep", "100") as (page, _, browser):
        sockets = [await browser.ws_connect(f"{page}ws") for _ in range(MOST_SESSIONS)]
        with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
            await browser.ws_connect(f"{page}ws")
        await sockets[0].close()
        end = time.monotonic() + LONG_S
        while time.monotonic() < end:  # the monitor of the closed page may still be ending
            with contextlib.suppress(aiohttp.WSServerHandshakeError):
                await browser.ws_connect(f"{page}ws")
                break
            await asyncio.sleep(0.1)
        else:
            pytest.fail("no place became free")


@needs_extra
async def test_every_invalid_message_closes_its_session() -> None:
    # the program keeps its stdout open as long as its stdin
    ends_with_its_input = ("/bin/sh", "-c", "cat >/dev/null; exit")
    async with server_of(*ends_with_its_input) as (page, reports, browser), browser.ws_connect(f"{page}ws") as other:
        for number, bad in enumerate(BAD, 1):
            async with browser.ws_connect(f"{page}ws") as ws:
                await assert_refused(ws, bad)
            await until(lambda number=number: len(reports) == number, "no line was reported")
            assert reports[-1].startswith("a screen was closed: the page sent an invalid message ("), bad
        with pytest.raises(TimeoutError):
            pytest.fail(f"another session got {await other.receive(timeout=0.1)}; lines: {reports}")
        await other.send_str(BAD[0])
        await until(lambda: len(reports) == len(BAD) + 1, "the other session did not stay open")


@needs_extra
@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("/bin/sh", "-c", "echo line; echo bo\x1bom >&2; exit 3"), "the monitor ended with status 3: bo?om"),
        (("/bin/sh", "-c", "kill -9 $$"), "the monitor ended with status -9"),
        (("/nonexistent",), "the monitor could not be started: No such file or directory"),
        (("relative",), "the monitor could not be started: No such file or directory"),
        (("/bin/sh", "-c", "head -c 200000 /dev/zero; sleep 100"), "the monitor did not begin to paint"),
        (("/bin/sh", "-c", "echo __GANGLION__; exec >&-; sleep 100"), "the monitor closed its output"),
        (("/bin/sh", "-c", "echo __GANGLION__; printf 'D\\377\\377\\377\\377'; sleep 100"), "packet that is too large"),
    ],
)  # fmt: skip
async def test_a_monitor_that_fails_is_reported_in_one_line(argv: tuple[str, ...], why: str) -> None:
    async with server_of(*argv) as (page, reports, browser), browser.ws_connect(f"{page}ws") as ws:
        await ws.receive(timeout=LONG_S)
        await until(lambda: bool(reports), "no line was reported")
        assert len(reports) == 1
        assert why.replace("?", "") in reports[0].replace("\ufffd", "").replace("?", "")
        assert reports[0].isprintable()


@needs_extra
async def test_an_idle_page_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    from iotop_ai.tui.web.session import Session

    monkeypatch.setattr(Session.__init__, "__defaults__", (2.0,))
    async with server_of("/bin/sleep", "100") as (page, reports, browser), browser.ws_connect(f"{page}ws") as ws:
        for _ in range(6):
            await asyncio.sleep(0.4)
            await ws.send_json(["focus"])
        assert reports == []
        await until(lambda: bool(reports), "the end of the session was not reported")
        assert reports == ["a screen was closed: the page sent nothing for 2 s"]


@needs_extra
def test_a_used_port_is_reported() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        words = [sys.executable, "-m", "iotop_ai", "web", "--port", str(port)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f"unknown: port {port} of 127.0.0.1: ")
    assert len(done.stderr.splitlines()) == 1
