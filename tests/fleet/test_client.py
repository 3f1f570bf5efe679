"""The client with servers that are down, slow, or of another protocol."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from iotop_ai.fleet import client
from iotop_ai.fleet.answer import BadAnswerError
from iotop_ai.fleet.client import Address, NoAnswerError, Prometheus
from iotop_ai.fleet.queries import history_queries, node_history_queries, quote
from iotop_ai.fleet.refresh import FirstAnswer, ask_fleet
from iotop_ai.model.errors import UsageError
from tests.rigs.prometheus import free_port
from tests.rigs.threads import no_thread

GOOD = b'{"status":"success","data":{"resultType":"vector","result":[]}}'
Reply = Callable[[socket.socket, bytes], None]


def http(body: bytes, status: str = "200 OK", *, more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def reply_of(reply: bytes) -> Reply:
    return lambda connection, _: connection.sendall(reply)


def trickles(first: bytes, byte: bytes) -> Reply:
    """A reply that begins with ``first`` and sends ``byte`` every 20 ms, so that no single read waits for long."""

    def reply(connection: socket.socket, _: bytes) -> None:
        connection.sendall(first)
        for _ in range(1000):
            connection.sendall(byte)
            time.sleep(0.02)

    return reply


def ends_in_a_chunk(connection: socket.socket, _: bytes) -> None:
    """Send the beginning of a chunk of 64 bytes, and close the connection."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{")
    connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def server(*replies: Reply) -> Iterator[tuple[str, list[bytes]]]:
    """A server's address and the requests it got. It sends these replies in order, and then repeats the last."""
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while request := connection.recv(65536):
                requests.append(request)
                replies[min(len(requests), len(replies)) - 1](connection, request)

    threading.Thread(target=serve, daemon=True).start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests


def ask(url: str, timeout_s: float = 5.0) -> object:
    prometheus = Prometheus(Address(url), token="s3cret", timeout_s=timeout_s)
    try:
        return prometheus.instant_query("up").series
    finally:
        prometheus.close()


def test_the_client_sends_the_documented_request() -> None:
    with server(reply_of(http(GOOD))) as (url, requests):
        assert ask(f"{url}/prometheus/") == ()
    lines = requests[0].decode().split("\r\n")
    assert lines[0] == "GET /prometheus/api/v1/query?query=up HTTP/1.1"
    assert "Authorization: Bearer s3cret" in lines


def test_a_connection_is_kept_and_opened_again_if_needed() -> None:
    def last(connection: socket.socket, _: bytes) -> None:
        connection.sendall(http(GOOD))
        connection.shutdown(socket.SHUT_RDWR)

    with server(last) as (url, requests):
        prometheus = Prometheus(Address(url))
        assert prometheus.instant_query("up").series == ()
        time.sleep(0.05)
        assert prometheus.instant_query("up").series == ()
        prometheus.close()
    assert len(requests) == 2


def test_a_kept_connection_that_ends_within_an_answer_is_opened_again() -> None:
    with server(reply_of(http(GOOD)), ends_in_a_chunk, reply_of(http(GOOD))) as (url, requests):
        prometheus = Prometheus(Address(url))
        for _ in range(2):
            assert prometheus.instant_query("up").series == ()
        prometheus.close()
    assert len(requests) == 3


def test_an_answer_that_ends_early_does_not_affect_the_next() -> None:
    def part(connection: socket.socket, _: bytes) -> None:
        connection.sendall(http(GOOD)[:-9])
        connection.shutdown(socket.SHUT_RDWR)

    with server(part, reply_of(http(GOOD))) as (url, _):
        prometheus = Prometheus(Address(url))
        with pytest.raises(NoAnswerError, match="closes the connection before the answer is complete"):
            prometheus.instant_query("up")
        assert prometheus.instant_query("up").series == ()
        prometheus.close()


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (reply_of(http(b"<html>hello</html>")), "is not Prometheus's JSON"),
        (
            reply_of(http(b"", "302 Found", more="Location: http://127.0.0.1:1/\r\n")),
            "answers 302: it redirects to another",
        ),
        (reply_of(http(b"", "401 Unauthorized")), "answers 401: it asks for a login"),
        (reply_of(http(b"", "404 Not Found")), "answers 404"),
        (reply_of(http(b"gone", "503 Service Unavailable")), "answers 503"),
        (reply_of(http(b'{"status":"error","error":"too many samples"}', "422 X")), "too many samples"),
        (reply_of(b"SSH-2.0-OpenSSH_9.2\r\n" * 3), "its answer is not HTTP"),
        (reply_of(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), "no answer within"),
        (reply_of(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"), "its answer is not HTTP"),
        (lambda connection, _: connection.shutdown(socket.SHUT_RDWR), "before the answer is complete"),
        (ends_in_a_chunk, "before the answer is complete"),
        (lambda *_: None, "no answer within 0.3 s"),
        (trickles(b"", b"H"), "no answer within 0.3 s"),
        (trickles(b"HTTP/1.1 200 OK\r\n", b"X"), "no answer within 0.3 s"),
        (trickles(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n", b" "), "no answer within 0.3 s"),
    ],
)
def test_each_fault_is_one_line_and_does_not_take_long(reply: Reply, words: str) -> None:
    begin = time.monotonic()
    with server(reply) as (url, _), pytest.raises((NoAnswerError, BadAnswerError)) as error:
        ask(url, 0.3)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert time.monotonic() - begin < 5


def test_a_server_that_is_down_is_reported() -> None:
    with pytest.raises(NoAnswerError, match="Connection refused"):
        ask(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(NoAnswerError, match=r"no\.such\.host\.invalid"):
        ask("http://no.such.host.invalid")


def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_BYTES", 1 << 20)
    with server(reply_of(http(b"x" * (3 << 20)))) as (url, _), pytest.raises(NoAnswerError, match="larger than 1 MB"):
        ask(url)


def test_one_query_that_fails_does_not_affect_the_others() -> None:
    first = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1000,"1"]}]}}'
    with server(reply_of(http(first)), reply_of(http(b"no", "422 X")), reply_of(http(GOOD))) as (url, requests):
        prometheus = Prometheus(Address(url))
        found = ask_fleet(prometheus, 60.0)
        prometheus.close()
    assert found.unanswered == ("verdict",)
    assert (found.at_s, found.machines) == (1000.0, ())
    assert b"time=1000.000" in requests[1]


def test_a_stop_before_the_first_query_gives_no_answer() -> None:
    with pytest.raises(NoAnswerError):
        ask_fleet(Prometheus(Address("http://prometheus")), 60.0, lambda: True)


def test_after_a_slow_answer_the_other_queries_are_left_out() -> None:
    first = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1000,"1"]}]}}'
    with server(reply_of(http(first)), lambda *_: None) as (url, requests):
        prometheus = Prometheus(Address(url), timeout_s=0.2)
        found = ask_fleet(prometheus, 60.0)
        prometheus.close()
    assert len(requests) == 3
    assert "alerts" in found.unanswered


@pytest.mark.parametrize(
    "url",
    [
        *("", "ftp://x", "http://", "http://x:99999", "http://a b", "http://x/?q", "http://[::1", "http://x\n"),
        *("x" * 3000, "http://a..b:9090", f"http://{'a' * 64}:9090", "http://x:0"),
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--prometheus"):
        Address(url)


def test_a_password_on_the_command_line_is_refused_and_not_repeated() -> None:
    for url in ("http://me:pa55@prometheus:9090", "http://me:pa55#@prometheus", "me:55#pa55@prometheus"):
        with pytest.raises(UsageError) as error:
            Address(url)
        assert "pa55" not in str(error.value)


def test_addresses_are_parsed() -> None:
    address = Address("prometheus:9090")
    assert (address.host, address.port, address.secure, address.text) == (
        "prometheus",
        9090,
        False,
        "http://prometheus:9090",
    )
    address = Address("https://[::1]/mimir/")
    assert (address.host, address.port, address.secure, address.path) == ("::1", 443, True, "/mimir")


def test_the_window_of_a_query_does_not_change_its_labels() -> None:
    for name in ("WINDOW-1:9743", "a  b[WINDOW]"):
        asked = [*history_queries(name, 60.0).values(), *node_history_queries(name, 60.0).values()]
        assert [(f'instance="{name}"' in query, "[60s]" in query) for query in asked] == [(True, True)] * 4


def test_a_label_is_quoted_for_a_query() -> None:
    assert quote('a"} or vector(1) #\\') == '"a\\"} or vector(1) #\\\\"'


def drips_after_its_header(connection: socket.socket, request: bytes) -> None:
    trickles(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n", b" ")(connection, request)


def test_the_time_of_a_slow_name_service_counts_towards_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def slow(host: str, port: int, *_: object, **__: object) -> object:
        time.sleep(0.4)
        return real("127.0.0.1", port, 0, socket.SOCK_STREAM)

    with server(drips_after_its_header) as (url, requests):
        monkeypatch.setattr(socket, "getaddrinfo", slow)
        begin = time.monotonic()
        with pytest.raises(NoAnswerError, match=r"no answer within 0\.3 s"):
            ask(url.replace("127.0.0.1", "prometheus"), 0.3)
    assert requests == []
    assert time.monotonic() - begin < 5


def test_a_handshake_that_trickles_is_ended() -> None:
    # the header of a TLS record of 8 KiB, whose bytes then follow one by one
    with server(trickles(b"\x16\x03\x03\x20\x00\x02", b"x")) as (url, _):
        begin = time.monotonic()
        with pytest.raises(NoAnswerError, match=r"no answer within 0\.3 s"):
            ask(url.replace("http:", "https:"), 0.3)
    assert time.monotonic() - begin < 5


def test_a_query_without_a_free_thread_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query needs a thread for its deadline."""
    with server(reply_of(http(GOOD))) as (url, _):
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        first = FirstAnswer(Prometheus(Address(url)), 60.0)
        with pytest.raises(NoAnswerError, match="can't start new thread"):
            first.result()
        monkeypatch.undo()
        assert FirstAnswer(Prometheus(Address(url)), 60.0).result().machines == ()
