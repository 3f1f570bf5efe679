"""Measures what a real Prometheus needs for many machines: ``python -m tests.bench.fleet_scrape [MACHINES] [SECONDS]``.

Each machine is the one of ``tests.bench.scrape`` under a separate address. All are scraped every 15 s.
"""

from __future__ import annotations

import http.server
import itertools
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from iotop_ai.export.prometheus.exposition import metrics, render
from tests.bench.scrape import session
from tests.rigs.prometheus import fetch, free_port, need_prometheus, wait_for

EVERY_S = 15
MACHINES, SECONDS = 200, 150
_SAMPLES = "prometheus_tsdb_head_samples_appended_total"


class Need(NamedTuple):
    """What Prometheus needs. series: the number of series in memory. cpu_us: the CPU time per sample.

    bytes_a_series: the resident memory per series, beyond that of an empty server.
    """

    series: int
    bytes_a_series: float
    cpu_us: float


def texts(count: int) -> list[bytes]:
    """Return the texts of consecutive scrapes of one machine."""
    return [render(metrics(frame), openmetrics=False) for frame in itertools.islice(session(count * 2), 1, None, 2)]


class _Machines(http.server.ThreadingHTTPServer):
    """An HTTP server that answers under every loopback address."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, bodies: list[bytes]) -> None:
        self.bodies = bodies
        self.start_s = time.monotonic()
        super().__init__(("0.0.0.0", 0), _Answer)


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Machines)
        body = server.bodies[int((time.monotonic() - server.start_s) / EVERY_S) % len(server.bodies)]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def figures(url: str) -> dict[str, float]:
    """Return Prometheus's metrics about itself, by name.

    For a metric with a label ``type``, it is the value for floats.
    """
    text = fetch(f"{url}/metrics")[2].decode()
    found = re.findall(r'^(\w+)(?:{type="float"})? ([-+.\deE]+)$', text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def need(machines: int, seconds: float) -> Need:
    """Run a Prometheus that scrapes this many machines for this many seconds; return what it needs."""
    server = _Machines(texts(8))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    targets = [f"127.0.{n // 250}.{n % 250 + 1}:{server.server_port}" for n in range(machines)]
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "global": {"scrape_interval": f"{EVERY_S}s"},
            "scrape_configs": [{"job_name": "iotop-ai", "static_configs": [{"targets": targets}]}],
        }
        Path(folder, "prometheus.yml").write_text(json.dumps(config))
        url = f"127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [
                *("prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"),
                *(f"--web.listen-address={url}", "--log.level=error"),
            ],
        )
        try:
            wait_for(lambda: fetch(f"http://{url}/-/ready")[0] == 200, "ready Prometheus")
            before = figures(f"http://{url}")
            time.sleep(seconds)
            after = figures(f"http://{url}")
        finally:
            process.terminate()
            process.wait(60)
            server.shutdown()
    series = after["prometheus_tsdb_head_series"]
    samples = after[_SAMPLES] - before.get(_SAMPLES, 0.0)
    memory = after["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]
    cpu = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
    return Need(int(series), memory / series, cpu / samples * 1e6)


def main(words: list[str]) -> None:
    """Measure and print one line."""
    need_prometheus()
    machines, seconds = (int(word) for word in (*words, *(str(n) for n in (MACHINES, SECONDS)[len(words) :])))
    found = need(machines, seconds)
    print(
        f"{machines} machines: {found.series:,} series, {found.bytes_a_series:,.0f} bytes of memory a series, "
        f"{found.cpu_us:.1f} us of CPU a sample"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
