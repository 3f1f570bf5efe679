"""The exporter of all machines, in one process: ``python -m tests.rigs.fleet.exporter``, with the machines on stdin.

The input is a JSON list of [name, *scene]. The process prints its port. The path of a machine is /m/NAME/metrics, and
that of another exporter is /m/NAME/KIND (node, dcgm or smartctl).
"""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.rigs.fleet.others import TEXTS
from tests.rigs.fleet.scenes import Scene, scrape

TOP = Path(__file__).resolve().parents[3]


class _Exporter(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, scenes: Mapping[str, Scene]) -> None:
        self.scenes = scenes
        self.begun = time.monotonic()
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Answer)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: a scraper that ends closes its connections."""

    def text(self, name: str, kind: str) -> bytes:
        seconds = time.monotonic() - self.begun
        if kind == "metrics":
            with self.lock:  # only one thread makes the text that all machines of a scene share
                return scrape(self.scenes[name], seconds)
        return TEXTS[kind][1](name, seconds).encode()


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Exporter)
        _, _, name, kind = self.path.split("/")
        body = server.text(name, kind)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@contextlib.contextmanager
def exporter(machines: Mapping[str, Scene], others: Sequence[str] = ()) -> Iterator[list[dict[str, Any]]]:
    """Run the exporter as a process, and yield Prometheus's scrape configuration for all machines."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rigs.fleet.exporter"],
        cwd=TOP,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([[name, *scene] for name, scene in machines.items()]))
        process.stdin.close()
        port = int(process.stdout.readline())
        yield scrape_configs(port, machines, others)
    finally:
        process.terminate()
        process.wait(30)


def scrape_configs(port: int, machines: Mapping[str, Scene], others: Sequence[str]) -> list[dict[str, Any]]:
    """The scrape configurations. The instance of a machine is its name, as if it had a separate address."""

    def job(name: str, kind: str, hosts: Sequence[str], usual_port: int) -> dict[str, Any]:
        configs = [
            {
                "targets": [f"127.0.0.1:{port}"],
                "labels": {"instance": f"{host}:{usual_port}", "__metrics_path__": f"/m/{host}/{kind}"},
            }
            for host in hosts
        ]
        return {"job_name": name, "honor_labels": False, "static_configs": configs}

    more = [job(kind, kind, list(others), usual_port) for kind, (usual_port, _) in TEXTS.items()] if others else []
    return [job("iotop-ai", "metrics", list(machines), 9743), *more]


def main() -> None:
    """Serve until SIGTERM arrives."""
    scenes = {
        name: Scene(file, slurm, tuple((share, ms) for share, ms in spent), first_rank)
        for name, file, slurm, spent, first_rank in json.load(sys.stdin)
    }
    server = _Exporter(scenes)
    for scene in set(scenes.values()):
        scrape(scene, 0.0)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
