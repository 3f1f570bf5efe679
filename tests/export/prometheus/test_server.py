"""The server of the metrics, requested by urllib."""

from __future__ import annotations

import gzip
import urllib.request
from collections.abc import Iterator

import pytest

from iotop_ai.export.prometheus.exposition import allowed_in
from iotop_ai.export.prometheus.server import MetricsServer, ScrapeText
from tests.bench.scrape import session


@pytest.fixture
def address() -> Iterator[str]:
    scrape = ScrapeText()
    server = MetricsServer(("127.0.0.1", 0), scrape)
    scrape.put(list(session(2))[-1])
    server.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.stop()


def ask(address: str, encodings: str | None = None) -> tuple[str | None, bytes]:
    """The encoding and the body of an answer."""
    headers = {} if encodings is None else {"Accept-Encoding": encodings}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20) as answer:
        assert "Accept-Encoding" in answer.headers["Vary"]
        body = answer.read()
        assert int(answer.headers["Content-Length"]) == len(body)
        return answer.headers["Content-Encoding"], body


def test_a_scrape_is_compressed_if_the_client_accepts_gzip(address: str) -> None:
    encoding, plain = ask(address)
    assert encoding is None
    assert plain.startswith(b"# HELP ")
    for _ in range(2):
        encoding, packed = ask(address, "gzip")
        assert encoding == "gzip"
        assert gzip.decompress(packed) == plain
        assert len(packed) < len(plain) / 5
    assert ask(address, "identity") == (None, plain)


@pytest.mark.parametrize(
    ("header", "accepted"),
    [("gzip", True), ("deflate, GZIP;q=0.5", True), ("", False), ("br", False), ("gzip; q=0, br", False)],
)
def test_gzip_is_used_only_if_the_header_accepts_it(header: str, accepted: bool) -> None:
    assert allowed_in(header, "gzip") is accepted
