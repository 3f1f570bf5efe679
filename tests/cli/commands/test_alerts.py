"""``iotop-ai alerts`` and the alerts of ``record``, as a user runs them."""

from __future__ import annotations

import errno
import json
import re
import socket
import threading
from pathlib import Path

import pytest

from iotop_ai.cli.options import alerts
from tests.cli.program import TOP, iotop, iotop_here, iotop_started
from tests.rigs.receivers import web_server


def write_alerts(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "alerts.toml"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_all_alerts_are_off_by_default(own_folder: Path) -> None:
    done = iotop_started("alerts", "list", XDG_CONFIG_HOME=str(own_folder))
    rows = [line.split()[:2] for line in done.stdout.splitlines()[2:]]
    assert rows == [["off", name] for name in ("gpu_hot", "failing_disk", "data_wait", "disk_busy")]
    done = iotop("alerts", "--alerts", write_alerts(own_folder, 'enable = ["gpu_hot"]'))
    assert "on     gpu_hot" in done.stdout
    assert "off    disk_busy" in done.stdout
    done = iotop_here("alerts", "--alerts", "none")
    assert done.stdout.splitlines()[0] == "--alerts none: the rules are off"


def test_a_name_after_alerts_list_is_refused() -> None:
    done = iotop_here("alerts", "list", "zzz")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "usage: alerts list accepts no names; remove 'zzz'\n"


def test_a_file_may_begin_with_a_byte_order_mark_like_the_settings_file(own_folder: Path) -> None:
    done = iotop_here("alerts", "--alerts", write_alerts(own_folder, '\ufeffenable = ["gpu_hot"]'))
    assert "on     gpu_hot" in done.stdout


def test_a_file_that_does_not_answer_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(seconds: float, place: str, call: object) -> None:
        raise TimeoutError(errno.ETIMEDOUT, "no answer for 1 s", place)

    monkeypatch.setattr(alerts, "call_with_timeout", hangs)
    monkeypatch.setattr(alerts, "alerts_path", lambda: "/home/a/alerts.toml")
    why = "alerts are off: /home/a/alerts.toml: no answer for 1 s\n"
    done = iotop_here("alerts")
    assert (done.stdout.splitlines()[0], done.stderr) == ("the rules are off", why)
    done = iotop_here("alerts", "test")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"unknown: {why}")


def test_a_test_message_arrives(own_folder: Path) -> None:
    with web_server() as (url, bodies):
        path = write_alerts(own_folder, f'[deliver.web]\nwebhook = "{url}"\nformat = "slack"\n')
        done = iotop("alerts", "test", "--alerts", path)
    assert (done.returncode, done.stdout) == (0, "web: sent (webhook 127.0.0.1, slack)\n")
    assert json.loads(bodies[0])["text"].endswith(": a test message of iotop-ai alerts test")
    done = iotop("alerts", "test", "--alerts", path)  # the server has ended by now
    assert (done.returncode, done.stdout) == (1, "web: not sent: Connection refused\n")


def test_a_test_without_a_file_of_rules_does_not_blame_the_file(own_folder: Path) -> None:
    why = "the rules are off, so there is no delivery to test; docs/alerts.md has examples\n"
    done = iotop_here("alerts", "test", "--alerts", "none")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"usage: --alerts none: {why}")
    done = iotop("alerts", "test", XDG_CONFIG_HOME=str(own_folder))
    missing = f"{own_folder}/iotop-ai/alerts.toml is missing"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"usage: {missing}: {why}")
    done = iotop_here("alerts", "test", "--alerts", write_alerts(own_folder, ""))
    assert done.stderr == f"usage: {own_folder}/alerts.toml has no [deliver.NAME]; docs/alerts.md has examples\n"


def test_the_settings_that_the_shipped_units_need_are_printed_as_documented(own_folder: Path) -> None:
    text = (TOP / "docs/alerts.md").read_text()
    (documented,) = re.findall(r"```ini\n(.*?)```", text, re.DOTALL)
    folder = own_folder / "iotop-ai"
    folder.mkdir()
    home = {"XDG_CONFIG_HOME": str(own_folder)}
    path = write_alerts(folder, '[deliver.mail]\nmail = "root"\n')
    assert "[Service]" not in iotop("alerts", "list", "--alerts", path).stdout
    assert "alerts:" not in iotop("service", **home).stderr
    write_alerts(folder, '[deliver.web]\nwebhook = "https://example.org/x"\n')
    shown = iotop("alerts", "list", **home).stdout
    assert "sudo systemctl edit iotop-ai" in shown
    assert "IPAddressAllow=any" in shown
    assert "CAP_KILL" not in shown
    write_alerts(folder, '[deliver.hook]\ncommand = ["/bin/true"]\n')
    service = iotop("service", **home)
    for line in documented.splitlines():
        assert f"  {line}\n" in iotop("alerts", "list", **home).stdout
        assert f"service: {line}\n" in service.stderr
    assert "IPAddressDeny=any" in service.stdout


@pytest.mark.parametrize("command", ["record", "serve"])
def test_a_run_sends_one_message_and_keeps_the_event(own_folder: Path, command: str) -> None:
    recording = own_folder / "run.iotop.jsonl"
    with web_server() as (url, bodies):
        rules = '[[rule]]\nname = "memory"\nwhen = "memory.total_bytes > 1M"\nseverity = "critical"\n'
        path = write_alerts(own_folder, f'{rules}[deliver.web]\nwebhook = "{url}"\n')
        output = (
            ("-o", str(recording)) if command == "record" else ("--record", str(recording), "--listen", "127.0.0.1:0")
        )
        done = iotop(command, *output, "--duration", "4", "--no-smart", "--alerts", path, timeout=90)
    assert done.returncode == 0, done.stderr
    assert "alert: memory firing: memory.total_bytes > 1M: met" in done.stderr
    assert [json.loads(body)["severity"] for body in bodies] == ["critical"]
    assert "critical memory firing" in recording.read_text()


def test_a_file_that_others_can_change_is_refused(own_folder: Path) -> None:
    hook = own_folder / "hook"
    hook.write_text("#!/bin/sh\ntrue\n")
    hook.chmod(0o755)
    text = f'enable = ["gpu_hot"]\n[deliver.hook]\ncommand = ["{hook}"]\n'
    for mode in (0o620, 0o602):
        done = iotop("record", "--duration", "1", "--alerts", write_alerts(own_folder, text, mode))
        assert done.returncode == 2
        assert "is not read, as it names programs and addresses: users other than" in done.stderr
        assert done.stderr.endswith(f"; chmod go-w {own_folder / 'alerts.toml'}\n")
    path = write_alerts(own_folder, text)
    assert iotop("alerts", "list", "--alerts", path).returncode == 0
    hook.chmod(0o777)
    done = iotop("alerts", "list", "--alerts", path)
    assert done.returncode == 2
    assert "the command is not trusted" in done.stderr


def test_the_remedy_is_the_same_for_a_relative_path_and_for_a_link(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_alerts(own_folder, "", 0o620)
    (own_folder / "link.toml").symlink_to("alerts.toml")
    monkeypatch.chdir(own_folder)
    for name in ("alerts.toml", "link.toml"):
        done = iotop_here("alerts", "list", "--alerts", name)
        assert (done.returncode, done.stderr.rpartition("; ")[2]) == (2, f"chmod go-w {name}\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[rule]]\nname = "a"\nwhen = "gpus.*.heat > 3"', "rule a: no field 'heat' in gpus"),
        ('[[rule]]\nname = "a"', "rule a: when must be a condition in quotes"),
        ('[[rule]]\nname = "a b"', "a rule's name must be 1 to 40"),
        ('enable = ["gpu_cold"]', "enable: gpu_cold is not one of gpu_hot, failing_disk, data_wait, disk_busy"),
        ('[deliver.a]\ncommand = "touch x"', "deliver.a: command must be a list of words"),
        ('[deliver.a]\ncommand = ["touch", "x"]', "deliver.a: give the absolute path of the command"),
        ('[deliver.a]\nwebhook = "ftp://x"', "deliver.a: the webhook is not an http or https address"),
        ('[deliver.a]\nmail = "a@b"\ncc = "c"', "deliver.a: unknown key 'cc'"),
        ('[deliver.a]\nmail = "a@"', "deliver.a: mail: 'a@' is not an address; write 'you@example.org'"),
        ('[deliver.a]\nmail = "a@b"\nsender = "<"', "deliver.a: sender: '<' is not an address"),
        (
            '[deliver.a]\nmail = "a@b"\nsmtp = "mail:smtp"',
            "deliver.a: smtp: 'mail:smtp' is not a server; write 'host:587'",
        ),
        ('[deliver.a]\nmail = "a@b"\nsmtp = "mail:99999"', "deliver.a: smtp: 'mail:99999' is not a server"),
        ('[deliver.a]\nmail = "a@b"\nsmtp = "mail host:25"', "deliver.a: smtp: 'mail host:25' is not a server"),
        ('[deliver.a]\nmail = "a@b"\nsmtp = "::1"', "deliver.a: smtp: '::1' is not a server"),
        ("rule = 3", "write [[rule]] for each rule"),
        ("[[rule", "not TOML"),
        ('[deliver.a]\nmail = "x@y"\ntls = []', "deliver.a: tls must be one of no, starttls, tls"),
        (
            '[deliver.a]\nwebhook = "http://[bad/s3cret"',
            "deliver.a: the webhook is not an http or https address; write",
        ),
        ('[deliver.a]\nwebhook = "http://h:abc/s3cret"', "deliver.a: the webhook is not an http or https address"),
        ('[deliver.a]\nwebhook = "http://h/s3cret x"', "deliver.a: the webhook is not an http or https address"),
        ('[deliver.a]\nwebhook = "http://me:s3cret@h/"', "deliver.a: the webhook is not an http or https address"),
        (
            f'[[rule]]\nname = "a"\nwhen = "finding hung"\nclear_after = {"9" * 400}',
            "rule a: clear_after must be a duration",
        ),
        (
            f"enable = []\n[[rule]]\nclear_after = {'9' * 5000}",
            "not TOML: a number is too long; write a shorter one (line 3)",
        ),
        (
            f"bell = true\nenable = {'[' * 20_000}",
            "not TOML: brackets are nested too deeply; close or remove some (line 2)",
        ),
    ],
)
def test_a_mistake_in_the_file_is_one_line(own_folder: Path, text: str, why: str) -> None:
    done = iotop_here("alerts", "list", "--alerts", write_alerts(own_folder, text))
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: {own_folder}/alerts.toml: ")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    assert "s3cret" not in done.stderr


def test_a_delivery_that_fails_does_not_stop_the_others(own_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, web_server() as (url, bodies):

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-OpenSSH_9\r\n")

        threading.Thread(target=answer, daemon=True).start()
        other = f"http://127.0.0.1:{listener.getsockname()[1]}/s3cret"
        text = f'[deliver.a]\nwebhook = "{other}"\n[deliver.b]\nwebhook = "{url}"\n'
        done = iotop("alerts", "test", "--alerts", write_alerts(own_folder, text))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "a: not sent: the server's answer is not HTTP\nb: sent (webhook 127.0.0.1, json)\n"
    assert len(bodies) == 1
