"""The screen of another machine over a real ssh and sshd: success, and one line for each failure."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import TOP, command
from tests.rigs.sshd import Sshd, why_no_sshd
from tests.rigs.tmux import Terminal, why_no_tmux
from tests.tui.terminal.hanging import LEAVES_S

WHY_NOT = why_no_sshd() or why_no_tmux()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
LONG_S = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sshd")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Sshd]:
    with Sshd(folder) as server:
        yield server


@pytest.fixture
def terminal(server: Sshd) -> Iterator[Terminal]:
    server.write_client_config()
    with Terminal(80, 24, {**server.environment, "PYTHONPATH": str(TOP), "COLUMNS": "", "LINES": ""}) as terminal:
        yield terminal


def run_line(terminal: Terminal, line: str) -> None:
    terminal.type(f"clear; {line}; echo rc=$?\n")


MONITOR = " ".join(command("--host", "box"))
PIPE = f"ssh box iotop-ai record - | {' '.join(command('replay', '--allow-root', '-'))}"


def wait_for_update(terminal: Terminal) -> None:
    """Wait until the screen of the other machine shows a newer Snapshot."""
    terminal.wait_for("► REMOTE 1 s", LONG_S)
    first = terminal.wait_for_match(r"(\d\d:\d\d:\d\d)  ► REMOTE", LONG_S)[1]
    terminal.wait_until(lambda text: "► REMOTE" in text and f"{first}  ►" not in text, LONG_S, "a newer Snapshot")


def wait_for_exit(terminal: Terminal, code: int = 0) -> str:
    """Wait for the program's end, and return the text that is then in the terminal."""
    text = terminal.wait_for(f"rc={code}", LONG_S)
    assert "Traceback" not in text
    assert terminal.mode()["alternate_on"] == "0"
    return text


@pytest.mark.parametrize("line", [MONITOR, PIPE], ids=["host", "pipe"])
def test_the_other_machine_is_shown_and_no_program_stays_there(server: Sshd, terminal: Terminal, line: str) -> None:
    run_line(terminal, line)
    wait_for_update(terminal)
    assert len(server.sessions()) == 1
    # Every key reaches our program, also where ssh reads from the same terminal.
    word = "abcdefghijklmnopqrst"
    terminal.keys("/")
    for letter in word:
        terminal.keys(letter)
    terminal.wait_for(f"/{word}", LONG_S)
    terminal.keys("Enter")
    begun = time.monotonic()
    terminal.keys("q")
    text = wait_for_exit(terminal)
    if line == MONITOR:  # in a pipe, the shell waits for the recorder's next write
        assert time.monotonic() - begun < LEAVES_S + 0.5
    assert "connection" not in text, "a normal exit is reported as a lost connection"
    terminal.wait_until(lambda _: not server.sessions(), LONG_S, "the other end has ended")


@pytest.mark.parametrize("line", [MONITOR, PIPE], ids=["host", "pipe"])
def test_a_lost_connection_is_reported(server: Sshd, terminal: Terminal, line: str) -> None:
    run_line(terminal, line)
    wait_for_update(terminal)
    server.cut()
    terminal.wait_for("► REMOTE ended", LONG_S)
    terminal.wait_for("the other end has closed the connection")
    terminal.keys("q")
    text = wait_for_exit(terminal)
    if line == MONITOR:
        assert "box: the connection was lost" in text.replace("\n", "")


@pytest.mark.slow
def test_a_silent_host_is_detected(server: Sshd, terminal: Terminal) -> None:
    """Neither side closes the connection: the server is stopped, which looks like a pulled cable."""
    run_line(terminal, MONITOR)
    wait_for_update(terminal)
    sessions = server.sessions()
    for pid in sessions:
        os.kill(pid, signal.SIGSTOP)
    terminal.wait_for("► REMOTE ended", LONG_S)
    terminal.keys("q")
    assert "box: the connection was lost: Timeout, server 127.0.0.1 not responding" in wait_for_exit(terminal)
    for pid in sessions:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ({"key": "otherkey"}, "input: box: no connection: root@127.0.0.1: Permission denied (publickey)."),
        ({"port": 1}, "input: box: no connection: ssh: connect to host 127.0.0.1 port 1: Connection refused"),
        (
            {"options": ["StrictHostKeyChecking yes", "HostKeyAlias other"]},
            "input: box: no connection: Host key verification failed.",
        ),
        ({"options": ["ProxyCommand /nonexistent"]}, "input: box: no connection: "),
    ],
    ids=["wrong key", "unreachable", "unknown host", "broken proxy"],
)
def test_errors_of_ssh_are_explained(server: Sshd, terminal: Terminal, client: dict[str, object], message: str) -> None:
    server.write_client_config(**client)  # type: ignore[arg-type]
    run_line(terminal, MONITOR)
    message = message.replace("root@", f"{os.environ.get('USER', 'root')}@") if os.geteuid() else message
    assert message in wait_for_exit(terminal, 2).replace("\n", "")


def test_an_unknown_host_key_is_confirmed_on_the_terminal(server: Sshd, terminal: Terminal) -> None:
    known = server.folder / "new"
    server.write_client_config(options=["StrictHostKeyChecking ask"], known=known)
    run_line(terminal, MONITOR)
    terminal.wait_for("Are you sure you want to continue", LONG_S)
    terminal.type("yes\n")
    wait_for_update(terminal)
    terminal.keys("q")
    wait_for_exit(terminal)
    assert known.read_text()


def test_a_host_without_iotop_ai_is_reported(tmp_path: Path) -> None:
    with Sshd(tmp_path, program=False) as server, Terminal(80, 24, server.environment) as terminal:
        run_line(terminal, f"cd {TOP}; {MONITOR}")
        assert "input: box: no iotop-ai in the PATH of that machine" in wait_for_exit(terminal, 2)
        terminal.cleared()
        run_line(terminal, f"cd {TOP}; {PIPE}")
        text = wait_for_exit(terminal, 2)
        assert "iotop-ai: command not found" in text or "iotop-ai: not found" in text
        assert "input: standard input: not a recording: no complete line was received" in text
