"""Clients that are silent or slow, and users that open many connections, with real sockets."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import tempfile
import threading
from pathlib import Path

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.export import limited_threads
from iotop_ai.export.limited_threads import MOST_PER_CLIENT, MOST_REQUESTS, MOST_THREADS
from iotop_ai.export.prometheus.server import MetricsServer, ScrapeText
from iotop_ai.export.verdict_socket import VerdictServer, credentials
from tests.rigs.certificate import make_certificate
from tests.rigs.nobody import UID, as_user, why_not_nobody
from tests.rigs.prometheus import wait_for

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def drip(connection: socket.socket, first: bytes) -> None:
    """Send a byte every 50 ms until the server closes the connection."""
    connection.settimeout(0.05)
    with contextlib.suppress(ConnectionError):
        connection.sendall(first)
        while True:
            try:
                if not connection.recv(4096):
                    return
            except TimeoutError:
                connection.sendall(b"x")


@pytest.mark.parametrize("tls", [False, True])
def test_clients_that_send_a_byte_now_and_then_are_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    monkeypatch.setattr(limited_threads, "REQUEST_S", 1.0)
    context, first = None, b"GET /"
    if tls:
        # the beginning of a long TLS hello
        context, first = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), b"\x16\x03\x01\x20\x00\x01"
        context.load_cert_chain(*make_certificate(tmp_path))
    server = MetricsServer(("127.0.0.1", 0), ScrapeText(), tls=context)
    server.start()
    try:
        threads = [
            threading.Thread(target=drip, args=(socket.create_connection(("127.0.0.1", server.server_port)), first))
            for _ in range(MOST_REQUESTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        wait_for(lambda: not server._threads_by_client, "free places")
    finally:
        server.stop()


def test_clients_that_never_finish_a_request_head_are_soon_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_threads, "HEAD_S", 0.2)
    server = MetricsServer(("127.0.0.1", 0), ScrapeText())
    server.start()
    threads: list[threading.Thread] = []
    try:
        for first in (b"", b"GET /", b"GET / HTTP/1.1\r\nHost: localhost\r\n") * 5:
            connection = socket.create_connection(("127.0.0.1", server.server_port))
            threads.append(threading.Thread(target=drip, args=(connection, first)))
            threads[-1].start()
        for thread in threads:
            thread.join(limited_threads.REQUEST_S / 2)
        assert not any(thread.is_alive() for thread in threads), "a slow client kept its place"
        with socket.create_connection(("127.0.0.1", server.server_port)) as asking:
            asking.sendall(ASK)
            assert asking.recv(12) == b"HTTP/1.0 200"
    finally:
        server.stop()


@pytest.mark.parametrize("tls", [False, True])
def test_silent_clients_in_every_place_do_not_hold_up_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    """A new request ends the connection that has run longest."""
    monkeypatch.setattr(limited_threads, "HEAD_S", limited_threads.REQUEST_S)
    context, trust = None, None
    if tls:
        certificate, key = make_certificate(tmp_path)
        context, trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=certificate)
        context.load_cert_chain(certificate, key)
    server = MetricsServer(("127.0.0.1", 0), ScrapeText(), tls=context)
    server.start()
    where = ("127.0.0.1", server.server_port)
    try:
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(where)) for _ in range(MOST_REQUESTS)]
            wait_for(lambda: server._threads_by_client.total() == MOST_REQUESTS, "silent clients")
            with socket.create_connection(where) as plain:
                asking = plain if trust is None else trust.wrap_socket(plain, server_hostname="127.0.0.1")
                asking.settimeout(30)
                asking.sendall(ASK)
                assert asking.recv(12) == b"HTTP/1.0 200"
                asking.close()
            assert len(select.select(silent, [], [], 30)[0]) == 1  # this client was disconnected
        wait_for(lambda: not server._threads_by_client, "free places")
    finally:
        server.stop()


def test_refused_clients_are_not_kept() -> None:
    server = MetricsServer(("127.0.0.1", 0), ScrapeText())
    try:
        server._threads_by_client[None] = MOST_THREADS
        for number in range(9):
            here, there = socket.socketpair()
            with here, there:
                server.process_request(here, (f"10.0.0.{number}", 50000))
                assert there.recv(1) == b""
        assert list(server._threads_by_client) == [None]
    finally:
        server.server_close()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8:1:2:3::4", "2001:db8:1:2:9::8", True),
        ("2001:db8:1:2::", "2001:db8:1:3::", False),
        ("fe80::1%eth0", "fe80::1%eth0", True),
    ],
)
def test_a_client_of_the_metrics_is_identified_by_its_address(one: str, other: str, same: bool) -> None:
    server = MetricsServer(("127.0.0.1", 0), ScrapeText())
    try:
        first, second = (server.client(None, (address, 50000)) for address in (one, other))
        assert first is not None
        assert (first == second) is same
        # All programs of this machine have the same address, so it does not identify a client.
        assert {server.client(None, (address, 1)) for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1")} == {None}
    finally:
        server.server_close()


def answer(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(30)
        asking.connect(str(path))
        try:
            asking.sendall(ASK)
            return asking.recv(12)
        except ConnectionError:
            return b""


@pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody())
def test_one_user_gets_only_a_few_places() -> None:
    with tempfile.TemporaryDirectory() as folder:  # unlike pytest's folder, other users can open this one
        os.chmod(folder, 0o755)
        check_places_of_one_user(Path(folder) / "verdict.sock")


def check_places_of_one_user(path: Path) -> None:
    server = VerdictServer(str(path), Root())
    server.start()
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(MOST_PER_CLIENT):
                stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
            wait_for(lambda: server._threads_by_client[0] == MOST_PER_CLIENT, "silent clients")
            assert answer(path) == b""

            def ask() -> None:
                assert answer(path) == b"HTTP/1.0 503"

            assert as_user(UID, ask) == 0
        wait_for(lambda: not server._threads_by_client, "free places")
        assert answer(path) == b"HTTP/1.0 503"
    finally:
        server.stop()


@pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody())
@pytest.mark.parametrize("uid", [UID, 2**32 - 2])
def test_the_kernel_identifies_the_process_that_asks(uid: int) -> None:
    def ask() -> None:
        here, there = socket.socketpair()
        with here, there:
            assert credentials(here) == (os.getpid(), uid)

    assert as_user(uid, ask) == 0
