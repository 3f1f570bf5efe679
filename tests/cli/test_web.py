"""The screen in a browser: only with the key, only under our name, read-only, and one clear line without the extra."""

import importlib.util
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.cli.main import build_parser, main
from iotop_ai.cli.options import settings_of
from iotop_ai.cli.web import command

INSTALLED = importlib.util.find_spec("textual_serve") is not None
needs_extra = pytest.mark.skipif(not INSTALLED, reason="needs the extra: textual-serve")


@pytest.mark.skipif(INSTALLED, reason="the extra is here")
def test_without_the_extra_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web"]) == 2
    assert capsys.readouterr().err == ("unknown: the browser needs textual-serve: pip install 'iotop-ai[web]'\n")


@pytest.mark.parametrize("port", ["0", "80", "65536", "x", "-1"])
def test_ports(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", f"--port={port}"]) == 2
    assert "is no port; write 1024 to 65535" in capsys.readouterr().err


def test_what_a_session_runs() -> None:
    argv = ["web", "-d", "2", "--device", "sda", "--theme", "light", "--no-smart", "--smart-type", "sda=x y"]
    args = build_parser(argv).parse_args(argv)
    words = command(settings_of(args), args)
    assert words[:4] == [sys.executable, "-m", "iotop_ai", "--readonly"]
    again = settings_of(build_parser(words[3:]).parse_args(words[3:]))
    assert again == settings_of(args)._replace(readonly=True, chosen=again.chosen)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def served() -> Iterator[tuple[int, str]]:
    port = free_port()
    words = [sys.executable, "-m", "iotop_ai", "web", "--port", str(port), "--no-smart", "-d", "0.5"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    line = child.stdout.readline()
    found = re.fullmatch(rf"open http://127\.0\.0\.1:{port}/\?key=(\S+)\n", line)
    assert found, (line, child.poll())
    try:
        yield port, found[1]
    finally:
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
        assert "Traceback" not in err
        assert child.returncode == 0


def get(port: int, path: str = "/", **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@needs_extra
def test_only_with_the_key_and_under_our_name(served: tuple[int, str]) -> None:
    port, key = served
    cookie = f"iotop-ai-key={key}"
    status, text = get(port, Cookie=cookie)
    assert status == 200
    assert "iotop-ai" in text
    assert f"ws://127.0.0.1:{port}/ws" in text
    assert get(port, "/static/js/textual.js", Cookie=cookie)[0] == 200
    for path in ("/", "/?key=wrong", "/ws", "/static/js/textual.js", f"/ws?key={key}"):
        assert get(port, path)[0] == 403
    assert get(port, Cookie=cookie, Host=f"evil.example:{port}")[0] == 403
    assert get(port, Cookie=cookie, Origin="http://evil.example")[0] == 403
    assert get(port, Cookie="iotop-ai-key=\u00e9")[0] == 403


@needs_extra
def test_it_listens_on_this_machine_alone(served: tuple[int, str]) -> None:
    port, _ = served
    table = "".join(Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6"))
    listening = [line.split()[1] for line in table.splitlines() if line.split()[3] == "0A"]
    assert [address for address in listening if address.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


@needs_extra
async def test_a_session_shows_the_screen_and_writes_nothing(served: tuple[int, str]) -> None:
    import aiohttp

    port, key = served
    seen = ""
    async with (
        aiohttp.ClientSession(cookies={"iotop-ai-key": key}) as browser,
        browser.ws_connect(f"http://127.0.0.1:{port}/ws?width=100&height=30") as page,
    ):
        await page.send_json(["resize", {"width": 100, "height": 30}])

        async def until(word: str) -> None:
            nonlocal seen
            while word not in seen:
                message = await page.receive(timeout=60)
                assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), seen[-2000:]
                if message.type is aiohttp.WSMsgType.BINARY:
                    seen += message.data.decode("utf-8", "replace")

        await until("process")
        await page.send_json(["stdin", "R"])
        await until("read-only")
        await page.send_json(["stdin", "P"])
        await until("nothing may be written")
        await page.send_json(["stdin", "q"])
        while not page.closed:
            if (await page.receive(timeout=60)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED):
                break


@needs_extra
def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        words = [sys.executable, "-m", "iotop_ai", "web", "--port", str(port)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f"unknown: port {port} of 127.0.0.1: ")
    assert len(done.stderr.splitlines()) == 1
