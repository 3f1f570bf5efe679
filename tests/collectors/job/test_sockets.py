"""TCP sockets of child processes on the loopback interface, as the kernel lists them."""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job import sockets
from iotop_ai.collectors.job.sockets import JobSockets, SocketDiag, TcpSocket, Traffic, numeric_peer
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Status
from tests.clocks import ShiftedClock

S = 1_000_000_000
READER = """\
import socket, sys
held, total = [], 0
for line in sys.stdin:
    word, *values = line.split()
    if word == "connect":
        held.append(socket.create_connection((values[0], int(values[1]))))
        print(held[-1].getsockname()[1], flush=True)
    elif word == "send":
        held[-1].sendall(bytes(int(values[0])))
        print(flush=True)
    else:
        wanted = int(values[0])
        while wanted and (block := held[-1].recv(min(wanted, 65536))):
            wanted -= len(block)
            total += len(block)
        print(total, flush=True)
"""


class Reader:
    """A child process that has TCP connections to this process."""

    def __init__(self, *wrapper: str) -> None:
        words = [*wrapper, sys.executable, "-c", READER]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def connect(self, server: socket.socket) -> socket.socket:
        host, port = server.getsockname()[:2]
        self.ask(f"connect {host} {port}")
        return server.accept()[0]

    def receive(self, sender: socket.socket, count: int) -> int:
        sender.sendall(random.randbytes(count))
        return int(self.ask(f"read {count}"))

    def inodes(self) -> set[int]:
        links = Root().links(f"proc/{self.pid}/fd", 512) or {}
        return {int(target[8:-1]) for target in links.values() if target.startswith("socket:")}

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture
def diag() -> Iterator[SocketDiag]:
    with closing(SocketDiag(Root(), Clock())) as diag:
        yield diag


@pytest.fixture
def reader() -> Iterator[Reader]:
    with closing(Reader()) as reader:
        yield reader


@contextmanager
def listening(host: str = "127.0.0.1") -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, backlog=2000) as server:
        yield server


@pytest.mark.parametrize(("host", "peer"), [("127.0.0.1", "127.0.0.1:{}"), ("::1", "[::1]:{}")])
def test_a_socket_has_the_bytes_that_its_process_read(reader: Reader, diag: SocketDiag, host: str, peer: str) -> None:
    with listening(host) as server, reader.connect(server) as sender:
        (inode,) = reader.inodes()
        first = diag.dump()[inode]
        assert (first.received_bytes, first.sent_bytes) == (0, 0)
        reader.ask("send 70")
        for count in (1, 4_321, 3_000_000):
            total = reader.receive(sender, count)
            found = diag.dump()[inode]
            assert found.received_bytes == total
        assert (found.inode, found.sent_bytes, found.uid) == (inode, 70, os.getuid())
        assert found.peer == peer.format(server.getsockname()[1])
        assert found.retransmits == 0
        assert found.rtt_us is not None
        assert 0 < found.rtt_us < 1_000_000


def test_both_ends_are_listed_but_not_the_listener(reader: Reader, diag: SocketDiag) -> None:
    with listening() as server, reader.connect(server) as sender:
        mine, listener = (os.fstat(each.fileno()).st_ino for each in (sender, server))
        found = diag.dump()
        assert reader.inodes() | {mine} <= found.keys()
        assert listener not in found
        assert diag.complete


def test_a_half_closed_connection_stays_listed(reader: Reader, diag: SocketDiag) -> None:
    with listening() as server, reader.connect(server) as sender:
        (inode,) = reader.inodes()
        reader.receive(sender, 100)
        sender.shutdown(socket.SHUT_WR)
        found = diag.dump()
        assert found[inode].received_bytes == 101  # the end of the stream counts as 1 byte
        assert os.fstat(sender.fileno()).st_ino in found


def test_an_ipv4_peer_of_an_ipv6_socket_is_shown_as_ipv4(diag: SocketDiag) -> None:
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection(("127.0.0.1", server.getsockname()[1])) as client,
        server.accept()[0] as accepted,
    ):
        found = diag.dump()[os.fstat(accepted.fileno()).st_ino]
        assert found.peer == f"127.0.0.1:{client.getsockname()[1]}"


def test_peers_are_printed_as_numeric_addresses() -> None:
    assert numeric_peer(socket.AF_INET, bytes([10, 0, 0, 3]) + bytes(12), b"\x01\xbb") == "10.0.0.3:443"
    assert numeric_peer(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, "fe80::2"), b"\x23\x28") == "[fe80::2]:9000"


def test_traffic_stops_growing_0_4_s_after_the_last_byte(reader: Reader, diag: SocketDiag) -> None:
    job = JobSockets(Root(), diag)
    with listening() as server, reader.connect(server) as sender:
        peer = f"127.0.0.1:{server.getsockname()[1]}"
        assert job.update([reader.pid], 10 * S) == {}
        reader.receive(sender, 50_000)
        (traffic,) = job.update([reader.pid], 10 * S + S // 2).values()
        (inode,) = traffic.inodes
        one = frozenset([inode])
        assert traffic == Traffic(100_000.0, True, peer, 1, inodes=one)
        assert job.update([reader.pid], 10 * S + 899_999_999)[reader.pid] == Traffic(0.0, True, peer, 1, inodes=one)
        assert job.update([reader.pid], 10 * S + 900_000_000)[reader.pid] == Traffic(0.0, False, peer, 1, inodes=one)
        reader.receive(sender, 1)
        assert job.update([reader.pid], 11 * S)[reader.pid].growing


def test_the_peer_with_most_bytes_is_named_and_new_connections_count_in_full(reader: Reader, diag: SocketDiag) -> None:
    job = JobSockets(Root(), diag)
    with listening() as one, listening() as two, reader.connect(one) as first:
        job.update([reader.pid], 0)
        reader.receive(first, 1_000)
        with reader.connect(two) as second:
            reader.receive(second, 9_000)
            peer = f"127.0.0.1:{two.getsockname()[1]}"
            (traffic,) = job.update([reader.pid], S).values()
            assert len(traffic.inodes) == 2
            assert traffic == Traffic(10_000.0, True, peer, 2, inodes=traffic.inodes)
            reader.receive(second, 500)
            assert job.update([reader.pid], 2 * S) == {reader.pid: traffic._replace(received_bytes_per_s=500.0)}


def test_connections_within_the_machine_may_be_left_out(reader: Reader, diag: SocketDiag) -> None:
    job = JobSockets(Root(), diag)
    with (
        listening() as server,
        listening("::1") as other_family,
        closing(Reader()) as other,
        other.connect(server) as c,
    ):
        pids = (reader.pid, other.pid)
        job.update(pids, 0, [reader.pid])
        with reader.connect(server) as a:
            reader.receive(a, 300)
        with reader.connect(other_family) as b:
            reader.receive(b, 300)
        other.receive(c, 8_000)
        found = job.update(pids, S, [reader.pid])
        assert found[reader.pid] == Traffic(0.0, False, "", 0, 2)
        assert found[other.pid].received_bytes_per_s == 8_000.0


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_connection_between_processes_of_one_job_does_not_count(reader: Reader, diag: SocketDiag, host: str) -> None:
    job = JobSockets(Root(), diag)
    mine, others = ProcessKey(1, 1), ProcessKey(2, 1)
    pids = (os.getpid(), reader.pid)
    with listening(host) as server, reader.connect(server) as sender:
        job.update(pids, 0, jobs=dict.fromkeys(pids, mine))
        reader.receive(sender, 9_000)
        found = job.update(pids, S, jobs=dict.fromkeys(pids, mine))
        assert found[reader.pid] == Traffic(0.0, False, "", 0, 1)
        reader.ask("send 9000")
        reader.receive(sender, 9_000)
        found = job.update(pids, 2 * S, jobs={os.getpid(): others, reader.pid: mine})
        assert found[reader.pid].received_bytes_per_s == 9_000.0
        assert found[os.getpid()].received_bytes_per_s == 0.0, "a client's request was counted as received data"
        assert found[os.getpid()].near >= 1
        reader.receive(sender, 9_000)
        # If the process at the other end is unknown, the bytes may come from anywhere.
        found = job.update([reader.pid], 3 * S, jobs={reader.pid: mine})
        assert found[reader.pid].received_bytes_per_s == 9_000.0


def test_each_process_has_its_traffic(reader: Reader, diag: SocketDiag) -> None:
    job = JobSockets(Root(), diag)
    with (
        listening() as server,
        closing(Reader()) as other,
        closing(Reader()) as idle,
        reader.connect(server) as a,
        other.connect(server) as b,
    ):
        pids = (reader.pid, other.pid, idle.pid)
        assert job.update(pids, 0) == {idle.pid: Traffic(0.0, False, "", 0)}
        reader.receive(a, 300)
        other.receive(b, 8_000)
        found = job.update(pids, S)
        assert [found[pid].received_bytes_per_s for pid in pids] == [300.0, 8_000.0, 0.0]
        assert [found[pid].growing for pid in pids] == [True, True, False]


def test_a_unix_socket_is_not_tcp(reader: Reader, diag: SocketDiag) -> None:
    job = JobSockets(Root(), diag)
    pair = socket.socketpair()
    try:
        with listening() as server, reader.connect(server):
            job.update([os.getpid(), reader.pid], 0)
            before = job.update([os.getpid()], S)[os.getpid()].near
        assert before >= 1  # this end of the reader's connection was counted before it was closed
        assert job.update([os.getpid()], 3 * S)[os.getpid()].near == before - 1
    finally:
        for each in pair:
            each.close()


def test_the_traffic_of_an_ended_process_is_unknown(diag: SocketDiag) -> None:
    job = JobSockets(Root(), diag)
    gone = Reader()
    with listening() as server, gone.connect(server):
        job.update([gone.pid], 0)
        assert gone.pid in job.update([gone.pid], S)
        gone.process.kill()
        gone.close()
        assert job.update([gone.pid], S * 3) == {}


class Counting(Root):
    """A Root that records the folders whose links were read."""

    def __init__(self) -> None:
        super().__init__()
        self.folders: list[str] = []

    def links(self, relative: str, most: int) -> dict[str, str] | None:
        self.folders.append(relative)
        return super().links(relative, most)


def test_links_are_read_every_2_s_and_only_of_a_few_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # this SocketDiag lists nothing, so connections that another program opens meanwhile have no effect
    blind = SocketDiag(Root(str(tmp_path)), Clock())
    readers = [Reader() for _ in range(6)]
    root = Counting()
    try:
        for each in readers:
            each.ask("read 0")
        monkeypatch.setattr(sockets, "MOST_LINKS", 4 * len(root.links(f"proc/{readers[0].pid}/fd", 512) or {}))
        root.folders.clear()
        job = JobSockets(root, blind)
        pids = [reader.pid for reader in readers]
        counts = []
        for now in (0, S, 2 * S - 1, 2 * S, 2 * S + 1, 2 * S + 2, 4 * S):
            assert job.update(pids, now).keys() == set(pids)
            counts.append(len(root.folders))
        assert counts == [6, 6, 6, 10, 12, 12, 16]
        assert len(set(root.folders[6:12])) == 6
    finally:
        for reader in readers:
            reader.close()


def test_a_new_connection_is_found_at_the_next_update(reader: Reader, diag: SocketDiag) -> None:
    job = JobSockets(Root(), diag)
    assert job.update([reader.pid], 0) == {reader.pid: Traffic(0.0, False, "", 0)}
    with listening() as server, reader.connect(server) as sender:
        reader.receive(sender, 900)
        found = job.update([reader.pid], S // 5)[reader.pid]
        assert (found.growing, found.sockets, round(found.received_bytes_per_s)) == (True, 1, 4_500)


def test_traffic_is_unknown_while_not_all_sockets_are_listed(
    reader: Reader, diag: SocketDiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobSockets(Root(), diag)
    with listening() as server, reader.connect(server):
        ends = [(socket.create_connection(server.getsockname()), server.accept()[0]) for _ in range(200)]
        try:
            monkeypatch.setattr(sockets, "MOST_SOCKETS", 100)
            assert 100 <= len(diag.dump()) < 200
            assert not diag.complete
            job.update([os.getpid()], 0)
            assert job.update([os.getpid()], S) == {}
            monkeypatch.undo()
            job.update([os.getpid(), reader.pid], 2 * S)
            assert diag.complete
            assert job.update([os.getpid(), reader.pid], 3 * S)[reader.pid].sockets == 1
        finally:
            for pair in ends:
                for each in pair:
                    each.close()


def test_traffic_of_a_process_with_too_many_descriptors_is_known_only_while_it_grows(
    reader: Reader, diag: SocketDiag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MOST_FDS", 4)
    job = JobSockets(Root(), diag)
    with listening() as server, reader.connect(server) as sender, reader.connect(server):
        job.update([reader.pid], 0)
        assert job.update([reader.pid], S) == {}
        assert reader.ask("read 0") == "0"
        sender.sendall(bytes(10))
        found = job.update([reader.pid], 2 * S)
        assert found[reader.pid].growing


UNPRIVILEGED = """\
import os, sys
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.sockets import JobSockets, SocketDiag
os.setgroups([]); os.setgid(65534); os.setuid(65534)
diag = SocketDiag(Root(), Clock())
job = JobSockets(Root(), diag)
pid = int(sys.argv[1])
print(int(sys.argv[2]) in diag.dump(), job.update([pid], 0), job.update([pid], 10**9))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_traffic_of_another_users_process_is_unknown_though_its_socket_is_listed(reader: Reader) -> None:
    with listening() as server, reader.connect(server):
        (inode,) = reader.inodes()
        words = [sys.executable, "-c", UNPRIVILEGED, str(reader.pid), str(inode)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split(maxsplit=1) == ["True", "{} {}\n"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a network namespace")
def test_traffic_in_another_network_namespace_is_unknown(diag: SocketDiag) -> None:
    job = JobSockets(Root(), diag)
    with closing(Reader("unshare", "--net")) as inside, closing(Reader()) as outside:
        inside.ask("read 0")
        outside.ask("read 0")
        job.update([inside.pid, outside.pid], 0)
        assert job.update([inside.pid, outside.pid], S).keys() == {outside.pid}


def test_a_captured_machine_has_no_sockets(tmp_path: Path, reader: Reader) -> None:
    diag = SocketDiag(Root(str(tmp_path)), Clock())
    with pytest.raises(Unavailable) as raised:
        diag.dump()
    assert raised.value.status is Status.UNSUPPORTED
    assert diag.dump() == {}
    with listening() as server, reader.connect(server):
        job = JobSockets(Root(), SocketDiag(Root(str(tmp_path)), Clock()))
        assert [job.update([reader.pid], now) for now in (0, S)] == [{}, {}]


def test_a_failure_is_raised_once_and_the_call_repeated_after_a_minute(reader: Reader) -> None:
    clock = ShiftedClock()
    with closing(SocketDiag(Root(), clock)) as diag, listening() as server, reader.connect(server):
        assert diag.dump()
        link = diag._socket
        assert link is not None
        os.close(link.detach())
        with pytest.raises(Unavailable, match="Bad file descriptor"):
            diag.dump()
        assert diag.dump() == {}
        assert diag.unavailable is not None
        clock.ahead_ns = sockets.RETRY_NS
        assert reader.inodes() <= diag.dump().keys()
        assert diag.unavailable is None


def test_a_dump_that_does_not_end_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    before = time.monotonic()
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        left.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, sockets.TIMEOUT_US))
        monkeypatch.setattr(sockets, "_open", lambda: left)
        with pytest.raises(Unavailable, match="temporarily"):
            SocketDiag(Root(), Clock()).dump()
    assert time.monotonic() - before < 5


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> Iterator[SocketDiag]:
    """A collector for which a kernel of another version answers the first request, whose sequence number is 1."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        monkeypatch.setattr(sockets, "_open", lambda: left)
        right.send(answer)
        right.shutdown(socket.SHUT_WR)
        yield SocketDiag(Root(), Clock())


def message(sequence: int, info: bytes | None, *, before: bytes = b"", inode: int = 77) -> bytes:
    body = struct.pack("=BBBB2s2s16s16s12x12xII", 2, 1, 0, 0, b"\0\1", b"\0\2", b"", bytes([9] * 4), 500, inode)
    data = body + before + (b"" if info is None else struct.pack("=HH", 4 + len(info), 2) + info)
    return struct.pack("=IHHII", 16 + len(data), 20, 2, sequence, 0) + data


def done(sequence: int, code: int = 0) -> bytes:
    return struct.pack("=IHHIIi", 20, 3, 2, sequence, 0, code)


def tcp_info(size: int) -> bytes:
    whole = struct.pack("=68xI28xI16xQQ64xQ40x", 250, 3, 1_001, 2_002, 3_003)
    return whole[:size]


@pytest.mark.parametrize(("size", "sent"), [(248, 3_003), (232, 3_003), (208, 3_003), (192, 1_001), (136, 1_001)])
def test_the_record_of_each_kernel_is_read(monkeypatch: pytest.MonkeyPatch, size: int, sent: int) -> None:
    # The lengths of the record in Linux 6.x, 5.x, 4.19, 4.10 and 4.1.
    shutdown = struct.pack("=HHB3x", 5, 8, 0)
    parts = (message(1, tcp_info(size), before=shutdown), message(1, tcp_info(size) + bytes(8), inode=78), done(1))
    with answering(monkeypatch, b"".join(parts)) as diag:
        found = diag.dump()
    ends = bytes([0, 1, 0, 0, 0, 0]), bytes([0, 2, 9, 9, 9, 9])
    assert found[77] == TcpSocket(77, 2_002, sent, "9.9.9.9:2", ends, 500, 250, 3)
    assert found[78].received_bytes == 2_002


@pytest.mark.parametrize("info", [None, tcp_info(104)])
def test_a_kernel_without_byte_counts_makes_traffic_unavailable(
    monkeypatch: pytest.MonkeyPatch, info: bytes | None
) -> None:
    answer = message(1, info) + done(1)
    with answering(monkeypatch, answer) as diag, pytest.raises(Unavailable, match=r"Linux 4\.1"):
        diag.dump()


@pytest.mark.parametrize(("code", "status"), [(-1, Status.DENIED), (-13, Status.DENIED), (-2, Status.UNSUPPORTED)])
@pytest.mark.parametrize("kind", [2, 3])
def test_each_kernel_error_has_its_status(
    monkeypatch: pytest.MonkeyPatch, code: int, status: Status, kind: int
) -> None:
    answer = struct.pack("=IHHIIi", 20, kind, 2, 1, 0, code)
    with answering(monkeypatch, answer) as diag, pytest.raises(Unavailable) as raised:
        diag.dump()
    assert raised.value.status is status


def test_sockets_without_a_process_and_late_answers_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    late = message(0, tcp_info(248), inode=5) + done(0)
    ours = message(1, None, inode=0) + message(1, tcp_info(248), inode=6) + done(1)
    with answering(monkeypatch, late + ours) as diag:
        assert diag.dump().keys() == {6}


def test_damaged_answers_raise_no_error_other_than_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(7)
    whole = message(1, tcp_info(248)) + message(1, tcp_info(240), inode=79) + done(1)
    outcomes = set()
    for _ in range(400):
        raw = bytearray(whole[: dice.choice((len(whole), dice.randrange(1, len(whole))))])
        for _ in range(dice.randrange(4)):
            raw[dice.randrange(min(len(raw), 110))] = dice.randrange(256)
        with answering(monkeypatch, bytes(raw)) as diag:
            try:
                outcomes.add(len(diag.dump()))
            except Unavailable:
                outcomes.add(-1)
    assert {-1, 2} <= outcomes <= {-1, 0, 1, 2}
