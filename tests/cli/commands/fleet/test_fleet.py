"""``fleet`` as a user runs it, with a real Prometheus that scrapes nine replayed machines and two other targets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.fleet.queries import queries
from tests.cli.program import iotop, iotop_started
from tests.rigs.fleet.answering import answering
from tests.rigs.fleet.exporter import exporter
from tests.rigs.fleet.small import MACHINES, OTHERS, WINDOW_S
from tests.rigs.prometheus import Prometheus, free_port, prometheus_of, wait_for

WINDOW = ("--window", "10s")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with exporter(MACHINES, OTHERS) as configs, prometheus_of(tmp_path_factory.mktemp("fleet"), configs) as one:
        rated = 'count(rate(iotop_job_time_seconds_total{bucket="compute"}[5s])) >= 8'
        wait_for(
            lambda: one.query(rated) and one.query('rate(node_disk_reads_completed_total{device="sda"}[5s])'), "rates"
        )
        yield one


@pytest.mark.slow
def test_the_table_and_the_json_have_every_machine(server: Prometheus) -> None:
    done = iotop_started("fleet", "--prometheus", server.url, *WINDOW, "--once")
    assert (done.returncode, done.stderr) == (1, "")
    first, _, titles, *rows = done.stdout.splitlines()
    assert first.startswith("FAILING   8 of 11 machines have trouble; ")
    assert titles.split()[:3] == ["machine", "state", "GPU-h"]
    assert {row.split()[0] for row in rows if row.startswith(("gpu", "node", "blank"))} == {*MACHINES, *OTHERS}
    assert any(row.startswith("slurm 48213 ranks.py waits for rank 8 on gpu09: data disk") for row in rows)

    done = iotop("fleet", "--prometheus", server.url, *WINDOW, "--json", "--find", "starved", "--sort", "name")
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert [one["machine"] for one in found["machines"]] == ["gpu03", "gpu04", "gpu09"]
    assert [one["findings"][0]["class"] for one in found["machines"]] == [
        "storage_read",
        "single_thread",
        "storage_read",
    ]
    assert sum(found["machines"][0]["time"].values()) == pytest.approx(1)
    (late,) = [job for job in found["jobs"] if job["straggler"]]
    assert (late["straggler"]["machine"], late["straggler"]["rank_numbers"]) == ("gpu09", "8")
    assert {part["machine"]: part["rank_numbers"] for part in late["machines"]} == {
        "gpu07": "0-3",
        "gpu08": "4-7",
        "gpu09": "8",
    }
    assert found["not_answered"] == []

    done = iotop("fleet", "--prometheus", server.url, *WINDOW, "--once", "--find", "gpu01")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_server_that_does_not_answer_gives_one_line_and_exit_code_2() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = iotop("fleet", "--prometheus", url, "--once")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"unknown: {url}: Connection refused\n"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (b"<html>login</html>", "the answer is not Prometheus's JSON"),
        (b"", "it closes the connection before the answer is complete"),
    ],
)
def test_a_garbled_answer_gives_one_line_and_exit_code_2(fault: bytes, words: str) -> None:
    with answering() as server:
        server.fault = fault
        done = iotop("fleet", "--prometheus", server.url, "--window", "20s", "--json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert words in done.stderr


def ask_once(alerts: list[dict[str, str]], *flags: str) -> tuple[int, str, str]:
    """Run ``fleet --once`` with these flags while these alerts fire. Returns its exit code, stdout and stderr."""
    with answering() as server:
        result = [{"metric": labels, "value": [1795402100, "1"]} for labels in alerts]
        answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
        server.bodies[queries(WINDOW_S)["alerts"]] = json.dumps(answer).encode()
        done = iotop("fleet", "--prometheus", server.url, "--window", f"{WINDOW_S}s", "--once", *flags)
    return done.returncode, done.stdout, done.stderr


def test_a_filter_that_no_machine_passes_gives_one_line_and_exit_code_2() -> None:
    code, text, words = ask_once([], "--find", "nosuch")
    assert (code, words) == (2, "unknown: no machine has 'nosuch'\n")
    assert text.startswith("UNSURE    none of 11 machines matches\n")


def test_a_watchdog_is_listed_but_is_not_a_fault() -> None:
    watchdog = {"alertname": "Watchdog", "severity": "none"}
    code, text, _ = ask_once([watchdog | {"instance": "gpu01:9743"}, watchdog], "--find", "gpu01")
    assert code == 0
    assert any(line.startswith("gpu01") and "Watchdog" in line for line in text.splitlines())
    assert "alerts without a machine: Watchdog" in text
    assert ask_once([watchdog | {"instance": "gpu01:9743", "severity": "critical"}], "--find", "gpu01")[0] == 1


def test_without_a_terminal_the_screen_is_refused() -> None:
    done = iotop("fleet", "--prometheus", f"http://127.0.0.1:{free_port()}")
    assert (done.returncode, done.stderr) == (2, "usage: not a terminal: use --once for text\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--prometheus", "ftp://x"), "usage: --prometheus ftp://x: write an address such as http://prometheus:9090"),
        (("--prometheus", "http://x", "--window", "1s"), "usage: --window: 1s is outside 10 s to 30 d"),
        (
            ("--prometheus", "http://x", "--ca-file", "y"),
            "usage: --ca-file is for an address that begins with https://",
        ),
        (("--prometheus", "https://x", "--ca-file", "/no"), "input: --ca-file /no: No such file or directory"),
        (("--prometheus", "http://x", "--user-file", "/no"), "input: --user-file /no: No such file or directory"),
        (("--prometheus", "http://x", "--user-file", "a", "--token-file", "b"), "usage: --token-file and --user-file"),
    ],
)
def test_invalid_arguments_give_a_one_line_error(arguments: tuple[str, ...], line: str) -> None:
    done = iotop("fleet", *arguments, "--once")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(line)


def test_a_key_log_that_cannot_be_opened_is_not_reported_as_the_ca_file(tmp_path: Path) -> None:
    key_log = str(tmp_path / "missing/keys")
    done = iotop("fleet", "--prometheus", "https://x", "--once", SSLKEYLOGFILE=key_log)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"input: SSLKEYLOGFILE {key_log}: No such file or directory\n"


def test_a_secret_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "user"
    secret.write_text("me:pa55\n")
    secret.chmod(0o644)
    done = iotop("fleet", "--prometheus", "http://x", "--user-file", str(secret), "--once")
    assert done.stderr.startswith("input: --user-file")
    assert "chmod 600" in done.stderr
    secret.chmod(0o600)
    secret.write_text("nobody\n")
    done = iotop("fleet", "--prometheus", "http://x", "--user-file", str(secret), "--once")
    assert done.stderr.endswith("write name:password on one line\n")
