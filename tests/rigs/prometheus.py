"""The real Prometheus of Debian, with a free port and a new folder."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

READY_S = 60.0


def need_prometheus() -> None:
    """Skip the test if Prometheus is not installed."""
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: prometheus)")


def promtool(*arguments: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run promtool to its end."""
    return subprocess.run(["promtool", *arguments], input=text, capture_output=True, timeout=60, check=False)


def free_port() -> int:
    """A port of 127.0.0.1 that is free at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def fetch(url: str, **headers: str) -> tuple[int, str, bytes]:
    """The status, the content type and the body of a GET."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


def wait_for(found: Callable[[], Any], what: str, seconds: float = READY_S) -> Any:
    """Wait until ``found`` returns a true value, and return it. Fails after ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if value := found():
                return value
        time.sleep(0.1)
    raise AssertionError(f"no {what} within {seconds:g} s")


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def query(self, expression: str) -> list[Any]:
        """The result of an instant query."""
        status, _, body = fetch(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        answer = json.loads(body)
        assert status == 200, f"{expression}: {answer.get('error')}"
        return list(answer["data"]["result"])

    def alerts(self) -> dict[str, str]:
        """The state of each alert, by its name."""
        alerts = json.loads(fetch(f"{self.url}/api/v1/alerts")[2])["data"]["alerts"]
        return {one["labels"]["alertname"]: one["state"] for one in alerts}


@contextlib.contextmanager
def prometheus(folder: Path, target: str, *, rules: tuple[Path, ...] = (), token: str = "") -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes ``target`` ("127.0.0.1:1234") every second. rules: files with rules to evaluate."""
    scrape: dict[str, Any] = {"job_name": "iotop-ai", "static_configs": [{"targets": [target]}]}
    if token:
        scrape["authorization"] = {"credentials": token}
    with prometheus_of(folder, [scrape], rules=rules) as server:
        yield server


@contextlib.contextmanager
def prometheus_of(
    folder: Path, scrape_configs: list[dict[str, Any]], *, rules: tuple[Path, ...] = (), interval_s: int = 1
) -> Iterator[Prometheus]:
    """Run a Prometheus with any scrape configuration. rules: files with rules to evaluate."""
    need_prometheus()
    config = {
        "global": {"scrape_interval": f"{interval_s}s", "evaluation_interval": f"{interval_s}s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": scrape_configs,
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is also valid YAML
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/tsdb",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        server = Prometheus(port)
        wait_for(lambda: fetch(f"{server.url}/-/ready")[0] == 200, "ready Prometheus")
        yield server
    finally:
        process.terminate()
        process.wait(30)
