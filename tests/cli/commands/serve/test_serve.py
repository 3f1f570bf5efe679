"""``iotop-ai serve`` as a user runs it, scraped by the real Prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from iotop_ai.cli.commands.serve.options import is_loopback, parse_listen
from iotop_ai.export.prometheus.server import allowed_host
from iotop_ai.model.errors import UsageError
from tests.cli.forked import Run
from tests.cli.program import PLAIN, TOP, command, iotop, iotop_here
from tests.rigs.certificate import make_certificate
from tests.rigs.nobody import UID, as_nobody, why_not_nobody
from tests.rigs.prometheus import fetch, prometheus, promtool, wait_for

QUICK = ("--no-smart", "-d", "0.5")


@contextlib.contextmanager
def serving(folder: Path, *arguments: str, before: Sequence[str] = (), code: int = 0) -> Iterator[tuple[str, Path]]:
    """Run ``serve``; yield the metrics' address and the log. before: words before the command; code: its exit code."""
    log = folder / "serve.log"
    words = ("serve", "--listen", "127.0.0.1:0", *QUICK, *arguments)
    environment = {**PLAIN, "XDG_RUNTIME_DIR": str(folder)}
    with log.open("wb") as stream:
        process: subprocess.Popen[bytes] | Run
        if before:
            line = [*before, *command(*words)]
            process = subprocess.Popen(line, cwd=TOP, env=environment, stdin=subprocess.DEVNULL, stderr=stream)
        else:
            process = Run(words, environment, errors=stream)
    try:
        found = wait_for(lambda: re.search(r"https?://(\S+)/metrics", log.read_text()), "address")
        yield found[0], log
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == code, log.read_text()


def test_prometheus_scrapes_the_metrics(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, _), prometheus(tmp_path, address.split("/")[2]) as server:
        assert wait_for(lambda: server.query('up{job="iotop-ai"} == 1'), "scrape")
        assert len(wait_for(lambda: server.query("iotop_verdict_state == 1"), "verdict")) == 1
        # the metric is a counter; Prometheus computes the rate from it
        assert wait_for(lambda: server.query("rate(iotop_monitor_cpu_seconds_total[10s]) > 0"), "rate")
        assert server.query('iotop_collector_status{collector="block",status="ok"}')
        (age,) = server.query("time() - iotop_monitor_reading_timestamp_seconds")
        assert float(age["value"][1]) < 60


def test_each_format_is_served_and_other_requests_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, log):
        wait_for(lambda: fetch(address)[0] == 200, "first reading")
        _, kind, body = fetch(address)
        assert kind.startswith("text/plain; version=0.0.4")
        done = promtool("check", "metrics", text=body)
        assert (done.returncode, done.stderr) == (0, b"")
        _, kind, body = fetch(address, Accept="application/openmetrics-text;version=1.0.0")
        assert kind.startswith("application/openmetrics-text; version=1.0.0")
        assert body.endswith(b"# EOF\n")
        assert fetch(address, Host="rebound.example:9743")[0] == 421
        assert fetch(address, Host=os.uname().nodename)[0] == 200
        assert fetch(address.replace("/metrics", "/etc/passwd"))[0] == 404
        request = urllib.request.Request(address, method="POST", data=b"x")
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request, timeout=20)
        assert error.value.code == 501
        assert "warning" not in log.read_text()


def test_silent_clients_hold_up_no_scrape(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, _), contextlib.ExitStack() as stack:
        wait_for(lambda: fetch(address)[0] == 200, "first reading")
        host, port = address.split("/")[2].split(":")
        for _ in range(8):
            stack.enter_context(socket.create_connection((host, int(port))))
        assert fetch(address)[0] == 200


def test_a_recording_that_cannot_begin_ends_the_server() -> None:
    done = iotop("serve", "--listen", "127.0.0.1:0", "--record", "/nonexistent/x")
    assert done.returncode == 2
    assert "input: /nonexistent/x: No such file or directory" in done.stderr


def test_a_server_with_a_token_and_tls_refuses_clients_without_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    token.chmod(0o644)
    assert iotop("serve", "--token-file", str(token)).stderr.startswith("input: --token-file")
    token.chmod(0o600)
    certificate, key = make_certificate(tmp_path)
    flags = ("--token-file", str(token), "--tls-cert", str(certificate), "--tls-key", str(key))
    with serving(tmp_path, *flags) as (address, _):
        assert address.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(certificate))

        def ask(**headers: str) -> int:
            try:
                with urllib.request.urlopen(
                    urllib.request.Request(address, headers=headers), timeout=20, context=trusted
                ) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code

        wait_for(lambda: ask(Authorization="Bearer s3cret") == 200, "first reading")
        assert ask() == 401
        assert ask(Authorization="Bearer s3cre") == 401


def test_a_file_for_node_exporter_and_a_recording_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "textfile"
    folder.mkdir()
    text, recording = folder / "iotop.prom", tmp_path / "run.iotop.jsonl"
    path = tmp_path / "verdict.sock"
    with serving(tmp_path, "--textfile", str(text), "--record", str(recording), "--socket", str(path)):
        wait_for(text.exists, "textfile")
        path.unlink()  # even though another program removes the file, serve ends as usual
        done = promtool("check", "metrics", text=text.read_bytes())
        assert (done.returncode, done.stderr) == (0, b"")
        assert text.stat().st_mode & 0o777 == 0o644
    assert list(folder.iterdir()) == []  # the metrics of a server that ended would look current
    replayed = iotop("diagnose", str(recording), "--json")
    assert json.loads(replayed.stdout)["not_recorded"] == []
    assert json.loads(recording.read_text().splitlines()[-1])["k"] == "end"


@pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody())
def test_an_output_that_cannot_be_closed_leaves_no_other_open(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    own, folder = tmp_path / "own", tmp_path / "socket"
    for one in (own, folder):
        one.mkdir()
        os.chown(one, UID, UID)
    text, recording, path = own / "iotop.prom", own / "run.iotop.jsonl", folder / "verdict.sock"
    flags = ("--textfile", str(text), "--record", str(recording), "--socket", str(path))
    with serving(tmp_path, *flags, before=as_nobody(), code=2) as (_, log):
        wait_for(text.exists, "textfile")
        os.chown(folder, 0, 0)  # so that serve can no longer remove the socket
    assert log.read_text().splitlines()[-1].startswith("unknown: verdict.sock: Permission denied")
    assert not text.exists()
    assert json.loads(recording.read_text().splitlines()[-1])["k"] == "end"


def test_an_address_beyond_loopback_is_warned_about(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0.0.0.0:0") as (_, log):
        assert "warning: any machine" in log.read_text()


def test_flags_that_make_no_sense_give_a_one_line_error(tmp_path: Path) -> None:
    for arguments, line in (
        (("--listen", "example.org:1"), "usage: --listen example.org:1: example.org is not a numeric address"),
        (("--rotate", "1G"), "usage: --append, --rotate, --keep and --cmdline need --record FILE"),
        (("--tls-cert", "x"), "usage: --tls-cert and --tls-key must be given together"),
        (("--textfile", "metrics.txt"), "usage: --textfile: the name must end in .prom"),
        (("--record", "-"), 'usage: --record needs a file; "iotop-ai record -" writes to stdout'),
    ):
        done = iotop_here("serve", *arguments)
        assert (done.returncode, done.stderr.strip()) == (2, line)


def test_a_missing_folder_gives_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "iotop.prom"
    done = iotop("serve", "--textfile", str(path))
    assert (done.returncode, done.stderr) == (2, f"input: --textfile: {path}: No such file or directory\n")


def test_a_port_in_use_gives_a_one_line_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = iotop("serve", "--listen", f"127.0.0.1:{port}")
    assert (done.returncode, done.stderr) == (2, f"input: --listen 127.0.0.1:{port}: Address already in use\n")


def test_addresses_are_parsed() -> None:
    assert parse_listen("127.0.0.1:9743") == ("127.0.0.1", 9743)
    assert parse_listen("9743") == ("127.0.0.1", 9743)
    assert parse_listen("localhost:1") == ("127.0.0.1", 1)
    assert parse_listen(":9743") == ("0.0.0.0", 9743)
    assert parse_listen("[::1]:9743") == ("::1", 9743)
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    for wrong in ("127.0.0.1", "a:b", "127.0.0.1:70000", "", "1" * 5000):  # int() refuses 5000 digits
        with pytest.raises(UsageError):
            parse_listen(wrong)


@pytest.mark.parametrize("host", ["localhost:9743", "127.0.0.1", "[::1]:9743", "10.1.2.3:9743", "gpu07", "GPU07:9743"])
def test_names_of_this_machine_are_allowed(host: str) -> None:
    assert allowed_host(host, {"gpu07"})


@pytest.mark.parametrize(
    "host", ["", "evil.example", "gpu07.evil.example:9743", "localhost.evil.example", "127.0.0.1.x"]
)
def test_names_of_other_machines_are_refused(host: str) -> None:
    assert not allowed_host(host, {"gpu07"})


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_the_capabilities_of_the_shipped_unit_suffice(tmp_path: Path) -> None:
    unit = iotop("assets", "show", "iotop-ai-serve.service").stdout
    (line,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    kept = "".join(f",+{name.removeprefix('CAP_').lower()}" for name in line.split())

    def collector_statuses(*before: str) -> set[bytes]:
        """Run ``serve`` after the words ``before``; return the status lines of its collectors."""

        def answered() -> set[bytes]:
            status, _, body = fetch(address)
            found = {line for line in body.splitlines() if line.startswith(b"iotop_collector_status{")}
            return (
                found
                if status == 200 and not any(b'"pending"' in line and line.endswith(b" 1") for line in found)
                else set()
            )

        with serving(tmp_path, before=before) as (address, _):
            return wait_for(answered, "answers of all collectors")

    def limited(capabilities: str) -> set[bytes]:
        return collector_statuses("setpriv", f"--bounding-set=-all{capabilities}", "--no-new-privs")

    unlimited = collector_statuses("env")
    assert limited(kept) == unlimited
    assert limited("") != unlimited


ASK = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
print(client.makefile("rb").read().decode())
"""


@pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody())
def test_another_user_can_ask_for_the_verdict_on_their_own_jobs(tmp_path: Path) -> None:
    path = tmp_path / "verdict.sock"
    tmp_path.chmod(0o755)
    with serving(tmp_path, "--socket", str(path)) as (_, log):
        wait_for(lambda: "curl --unix-socket" in log.read_text(), "the socket's line, which follows the address")
        assert path.stat().st_mode & 0o777 == 0o666

        def ask() -> tuple[str, str]:
            done = subprocess.run(as_nobody(sys.executable, "-c", ASK, str(path)), capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            head, _, body = done.stdout.partition("\n\n")
            return head.split()[1], body

        wait_for(lambda: ask()[0] == "200", "first reading")
        assert json.loads(ask()[1])["jobs"] == []
        taken = iotop("serve", "--listen", "127.0.0.1:0", "--socket", str(path))
        assert (taken.returncode, taken.stderr.count("\n")) == (2, 2)
        assert "is not replaced: a program listens there" in taken.stderr
        with socket.socket(socket.AF_UNIX) as silent:  # a client that sends nothing delays no other client
            silent.connect(str(path))
            assert ask()[0] == "200"
    assert not path.exists()
