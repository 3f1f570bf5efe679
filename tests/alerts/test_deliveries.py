"""Deliveries to real servers and programs; a hostile alert or a faulty hook does no damage."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.alerts.deliveries import outbox as outbox_module
from iotop_ai.alerts.deliveries.command import CommandDelivery
from iotop_ai.alerts.deliveries.mail import MailDelivery, message
from iotop_ai.alerts.deliveries.outbox import Delivery, NotDelivered, Outbox
from iotop_ai.alerts.deliveries.webhook import WebhookDelivery, payload
from iotop_ai.alerts.rules import FIRING, Alert, AlertRules, Rule
from iotop_ai.model.condition.grammar import parse_condition
from iotop_ai.model.errors import UsageError
from tests.alerts.test_rules import HOT, failing, frame_at
from tests.rigs.nobody import UID, as_user, why_not_nobody
from tests.rigs.prometheus import wait_for
from tests.rigs.receivers import mail_server, web_server
from tests.rigs.threads import no_thread

HOSTILE = "$(touch x); `touch x` && touch x"


def alert(subject: str = "sda") -> Alert:
    return Alert(
        "disk",
        FIRING,
        "warning",
        "finding failing_disk",
        f"disk firing: {subject}",
        subject,
        1.5,
        "ratio",
        "gpu07",
        "OK",
        0,
    )


def script(folder: Path, body: str) -> str:
    path = folder / "hook"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return str(path)


def test_a_condition_that_flaps_sends_one_mail_and_one_message() -> None:
    with web_server() as (url, bodies), mail_server() as (smtp, mails):
        messages: list[str] = []
        deliveries: list[Delivery] = [
            WebhookDelivery("web", url, "json", 10.0, 12),
            MailDelivery("mail", "ops@localhost", "iotop-ai@localhost", smtp, 10.0, 12),
        ]
        outbox, rules = Outbox(deliveries, messages.append), AlertRules([HOT])
        for second in range(180):
            for _, one in rules.add(frame_at(second, 90.0 if second // 7 % 2 else 80.0)):
                outbox.put(one)
        outbox.close(60.0)
        assert messages == []
        assert [json.loads(body)["rule"] for body in bodies] == ["hot"]
        assert len(mails) == 1
        assert "Subject: [warning] dgx-07: hot firing" in mails[0]


def test_people_get_one_message_for_many_objects_and_programs_one_for_each(tmp_path: Path) -> None:
    hook = script(tmp_path, f'echo "$IOTOP_AI_ALERT_SUBJECT" >> {tmp_path}/subjects')
    rules = AlertRules([Rule("bad", parse_condition("finding failing_disk"))])
    ((_, many),) = rules.add(failing(0, "sda", "sdb", "sdc"))
    with web_server() as (url, bodies), web_server() as (chat, texts), mail_server() as (smtp, mails):
        lines: list[str] = []
        deliveries: list[Delivery] = [
            WebhookDelivery("web", url, "json", 10.0, 12),
            WebhookDelivery("chat", chat, "slack", 10.0, 12),
            MailDelivery("mail", "ops@localhost", "iotop-ai@localhost", smtp, 10.0, 12),
            CommandDelivery("hook", (hook,), 30.0, 12),
        ]
        outbox = Outbox(deliveries, lines.append)
        outbox.put(many)
        outbox.close(60.0)
        subjects = [f"failing_disk sd{letter}" for letter in "abc"]
        assert lines == []
        assert sorted(json.loads(body)["subject"] for body in bodies) == subjects
        assert sorted((tmp_path / "subjects").read_text().splitlines()) == subjects
        assert (len(texts), len(mails)) == (1, 1)
        assert all(one in json.loads(texts[0])["text"] for one in subjects)
        assert mails[0].count('"subject":') == 3


def test_a_hostile_name_is_only_data_to_the_command(tmp_path: Path) -> None:
    hook = script(tmp_path, f'cd {tmp_path}; echo "$IOTOP_AI_ALERT_SUBJECT" > variable; cat > stdin')
    CommandDelivery("hook", (hook,), 30.0, 12).send(alert(HOSTILE), threading.Event())
    assert (tmp_path / "variable").read_text() == HOSTILE + "\n"
    assert json.loads((tmp_path / "stdin").read_text())["subject"] == HOSTILE
    assert sorted(os.listdir(tmp_path)) == ["hook", "stdin", "variable"]


TRAINER = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(pathlib.Path(sys.argv[2]).write_text("saved") and 0))
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
while True:
    time.sleep(60)
"""


def example(word: str) -> str:
    """The command in docs/alerts.md that contains this word."""
    blocks = (Path(__file__).parents[2] / "docs/alerts.md").read_text().split("```sh\n#!/bin/sh\n")[1:]
    (found,) = (command for block in blocks if word in (command := block.split("```")[0]))
    return found


def test_the_documented_command_lets_the_trainer_save(tmp_path: Path) -> None:
    pid, saved = tmp_path / "train.pid", tmp_path / "checkpoint"
    hook = script(tmp_path, example("USR1").replace("/run/train.pid", str(pid)))
    with subprocess.Popen([sys.executable, "-c", TRAINER, str(pid), str(saved)]) as trainer:
        wait_for(lambda: pid.exists() and pid.read_text(), "the trainer's PID")
        CommandDelivery("save", (hook,), 30.0, 12).send(alert(), threading.Event())
        assert trainer.wait(30) == 0
    assert saved.read_text() == "saved"


def test_the_documented_backup_is_made_by_only_one_of_many_nodes(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    data.mkdir()
    (data / "model.ckpt").write_text("weights")
    text = example("rsync").replace("/shared/", f"{tmp_path}/").replace("/data/checkpoints/", f"{data}/")
    hook = script(tmp_path, text.replace("backup:/checkpoints/", str(backup)))
    with open(tmp_path / "backup.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another node makes the backup
        with pytest.raises(NotDelivered, match="ended with status 1"):
            CommandDelivery("backup", (hook,), 30.0, 12).send(alert(), threading.Event())
    assert not backup.exists()
    CommandDelivery("backup", (hook,), 30.0, 12).send(alert(), threading.Event())
    assert (backup / "model.ckpt").read_text() == "weights"


def test_a_hanging_command_is_ended_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hook = script(tmp_path, f"sleep 1000 & echo $! > {pid}.new; mv {pid}.new {pid}; wait")
    delivery = CommandDelivery("hook", (hook,), 5.0, 12)
    with pytest.raises(NotDelivered, match="took longer than 5 s and was killed"):
        delivery.send(alert(), threading.Event())
    sleeper = int(pid.read_text())
    wait_for(lambda: not alive(sleeper), "end of the hook's child")


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_hanging_command_ends_with_the_monitor(tmp_path: Path) -> None:
    messages: list[str] = []
    hook = script(tmp_path, "sleep 1000")
    outbox = Outbox([CommandDelivery("hook", (hook,), 600.0, 12)], messages.append)
    outbox.put(alert())
    outbox.close(0.5)
    thread = outbox._thread._thread
    assert thread is not None
    assert not thread.is_alive()
    assert messages == [f"alert disk is not sent to hook: {hook} still ran when the monitor ended and was killed"]


def test_an_alert_that_gets_no_thread_is_delivered_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with web_server() as (url, bodies):
        lines: list[str] = []
        outbox = Outbox([WebhookDelivery("web", url, "json", 10.0, 12)], lines.append)
        with monkeypatch.context() as without_threads:
            without_threads.setattr(threading.Thread, "start", no_thread)
            outbox.put(alert())
        assert lines == ["alert disk stays queued until the next alert: can't start new thread"]
        outbox.put(alert())
        outbox.close(60.0)
    assert (len(bodies), len(lines)) == (2, 1)


def test_a_command_that_gets_no_input_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = script(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 1000")
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(NotDelivered, match=r"got no input and was killed: can't start new thread"):
        CommandDelivery("hook", (hook,), 600.0, 12).send(alert(), threading.Event())


def test_messages_an_hour_are_limited() -> None:
    with web_server() as (url, bodies):
        messages: list[str] = []
        outbox = Outbox([WebhookDelivery("web", url, "json", 10.0, 2)], messages.append)
        for _ in range(4):
            outbox.put(alert())
        outbox.close(60.0)
    assert len(bodies) == 2
    assert messages == ["alert disk is not sent to web: 2 messages were sent in the last hour"] * 2


class Recovering:
    """A delivery whose first tries fail and whose later ones succeed."""

    name, at_most = "web", 2
    per_object = True

    def __init__(self, failures: int) -> None:
        self.failures, self.sent = failures, 0

    def send(self, alert: Alert, stop: threading.Event) -> None:
        if self.failures:
            self.failures -= 1
            raise NotDelivered("refused")
        self.sent += 1

    def describe(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("failures", "sent", "last"),
    [(3, 2, "2 messages were sent in the last hour"), (99, 0, "8 messages were tried in the last hour")],
)
def test_failed_tries_do_not_count_towards_the_limit_of_messages(failures: int, sent: int, last: str) -> None:
    web, messages = Recovering(failures), list[str]()
    outbox = Outbox([web], messages.append)
    for _ in range(9):
        outbox.put(alert())
    outbox.close(60.0)
    assert web.sent == sent
    assert messages[-1] == f"alert disk is not sent to web: {last}"


def test_the_reason_of_a_server_that_refuses_is_reported() -> None:
    with web_server(status=404) as (url, _), pytest.raises(NotDelivered, match="the server answered 404"):
        WebhookDelivery("web", url, "json", 10.0, 2).send(alert(), threading.Event())
    with web_server() as (url, _):
        pass
    with pytest.raises(NotDelivered, match="Connection refused") as error:
        WebhookDelivery("web", url, "json", 10.0, 2).send(alert(), threading.Event())
    assert error.value.retry
    with pytest.raises(UsageError):
        WebhookDelivery("web", "file:///etc/passwd", "json", 10.0, 2)


@pytest.mark.parametrize(
    ("status", "after", "waits"),
    [(429, "0.4", [0.4]), (408, "", [0.01]), (503, "999999", [0.5]), (429, "nan", [0.01]), (404, "0.4", [])],
)
def test_a_busy_server_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, status: int, after: str, waits: list[float]
) -> None:
    monkeypatch.setattr(outbox_module, "TRIES_AFTER_S", (0.01, 0.01))
    monkeypatch.setattr(outbox_module, "LONGEST_WAIT_S", 0.5)
    with web_server(status, 1, {"Retry-After": after}) as (url, bodies):
        messages: list[str] = []
        outbox = Outbox([WebhookDelivery("web", url, "json", 10.0, 2)], messages.append)
        waited: list[float] = []
        wait = outbox._stop.wait
        monkeypatch.setattr(outbox._stop, "wait", lambda seconds: waited.append(seconds) or wait(seconds))
        outbox.put(alert())
        outbox.close(60.0)
    assert waited == waits
    assert len(bodies) == 1 + len(waits)
    assert messages == ([] if waits else ["alert disk is not sent to web: the server answered 404"])


@pytest.mark.parametrize(("to", "copies"), [("alice@localhost, bob@localhost", 1), ("bob@localhost", 0)])
def test_a_recipient_that_the_server_refuses_is_named(to: str, copies: int) -> None:
    with (
        mail_server(refuses="bob@localhost") as (smtp, mails),
        pytest.raises(NotDelivered, match=r"^the server refuses bob@localhost$") as error,
    ):
        MailDelivery("mail", to, "iotop-ai@localhost", smtp, 10.0, 12).send(alert(), threading.Event())
    assert len(mails) == copies
    assert error.value.retry == (not copies)


def test_a_mail_has_its_own_date_and_message_id() -> None:
    one = alert()._replace(wall_ns=1_700_000_000 * 10**9)
    mails = [message(one, "iotop-ai", "ops@example.org") for _ in range(2)]
    assert mails[0]["Date"] == "Tue, 14 Nov 2023 22:13:20 +0000"
    assert re.fullmatch(r"<[^<>@\s]+@gpu07>", mails[0]["Message-ID"])
    assert mails[0]["Message-ID"] != mails[1]["Message-ID"]
    assert message(one._replace(host="a> b\u00fc"), "iotop-ai", "root")["Message-ID"].endswith("@localhost>")


def test_a_name_mentions_no_user_of_the_chat() -> None:
    assert payload(alert("<!channel> @everyone"), "slack")["text"].count("&lt;!channel&gt;") == 1
    assert payload(alert("@everyone"), "discord")["allowed_mentions"] == {"parse": []}


@contextlib.contextmanager
def server_that_answers(text: bytes, reads: int = 65536) -> Iterator[str]:
    """The address of a server that reads up to this many bytes, answers with this text and closes the connection."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(reads)
                    connection.sendall(text)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/secret"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_server_of_another_protocol_is_a_one_line_error() -> None:
    with (
        server_that_answers(b"SSH-2.0-OpenSSH_9\r\n") as url,
        pytest.raises(NotDelivered, match="answer is not HTTP") as error,
    ):
        WebhookDelivery("web", url, "json", 10.0, 2).send(alert(), threading.Event())
    assert error.value.retry


@pytest.mark.parametrize("reads", [65536, 1])
def test_a_server_that_closes_without_an_answer_is_named(reads: int) -> None:
    """The kernel resets the connection if a part of the request is unread."""
    with server_that_answers(b"", reads) as url, pytest.raises(NotDelivered) as error:
        WebhookDelivery("web", url, "json", 10.0, 2).send(alert(), threading.Event())
    assert error.value.retry
    assert str(error.value) == "the server closed the connection without an answer"


@pytest.mark.parametrize("hangs", [True, False])
def test_an_alert_is_not_sent_again_when_the_answer_is_cut_off(hangs: bool) -> None:
    released, posts = threading.Event(), list[bytes]()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    posts.append(connection.recv(65536))
                    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
                    if hangs:
                        released.wait(30)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        WebhookDelivery("web", url, "json", 2.0, 2).send(alert(), threading.Event())
        released.set()
        listener.shutdown(socket.SHUT_RDWR)
    assert len(posts) == 1


@pytest.mark.parametrize("kind", ["webhook", "mail"])
def test_a_server_that_trickles_its_answer_times_out(kind: str) -> None:
    released = threading.Event()

    def trickle(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: " if kind == "webhook" else b"220-")
            while not released.wait(0.05):
                connection.sendall(b"x")

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=trickle, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        one: Delivery = (
            WebhookDelivery("trickling", f"http://{address}/", "json", 0.3, 12)
            if kind == "webhook"
            else MailDelivery("trickling", "ops@localhost", "iotop-ai", address, 0.3, 12)
        )
        with pytest.raises(NotDelivered, match="no answer for") as error:
            one.send(alert(), threading.Event())
        assert error.value.retry
        released.set()
        listener.shutdown(socket.SHUT_RDWR)


class Faulty:
    """A delivery that raises an error other than NotDelivered."""

    name, at_most = "faulty", 12
    per_object = True

    def send(self, alert: Alert, stop: threading.Event) -> None:
        raise LookupError("https://hooks.example/s3cret")

    def describe(self) -> str:
        return ""


def test_an_unexpected_error_loses_no_later_alert() -> None:
    with web_server() as (url, bodies):
        messages: list[str] = []
        outbox = Outbox([Faulty(), WebhookDelivery("web", url, "json", 10.0, 12)], messages.append)
        for _ in range(2):
            outbox.put(alert())
        outbox.close(60.0)
    assert messages == ["alert disk is not sent to faulty: an unexpected LookupError"] * 2
    assert len(bodies) == 2


@pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody())
def test_a_command_that_runs_as_another_user_delays_no_alert(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hook = script(tmp_path, f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 1000")

    def become_nobody() -> None:  # as under sudo, the command then belongs to another user
        wait_for(pid.exists, "the command")
        os.setresuid(UID, UID, UID)

    def act() -> None:
        threading.Thread(target=become_nobody).start()
        with pytest.raises(NotDelivered, match="took longer than 3 s and cannot be killed, as it runs as another user"):
            CommandDelivery("hook", (hook,), 3.0, 12).send(alert(), threading.Event())

    try:
        assert as_user(0, act) == 0
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("to", ["a@", "<", '"', "a@[", "@", "(", "=?utf-8?q?=0a?=@x"])
def test_an_invalid_address_is_a_one_line_error(to: str) -> None:
    with pytest.raises(NotDelivered, match="is not an address; write 'you@"):
        MailDelivery("mail", to, "iotop-ai", "127.0.0.1:1", 1.0, 12).send(alert(), threading.Event())


@pytest.mark.parametrize("to", ["root", "a@b", "Ops <ops@example.org>, b@c", "üser@x"])
def test_addresses_and_local_users_are_valid_recipients(to: str) -> None:
    assert message(alert(), "iotop-ai", to)["To"] == to
