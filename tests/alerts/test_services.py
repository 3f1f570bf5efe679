"""Mail through a server with TLS and a login, and messages through apprise."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from iotop_ai.alerts.config import parse_alerts
from iotop_ai.alerts.deliveries.mail import MailDelivery
from iotop_ai.alerts.deliveries.outbox import Delivery, NotDelivered
from iotop_ai.model.errors import UsageError
from tests.alerts.test_deliveries import alert
from tests.rigs.certificate import make_certificate
from tests.rigs.receivers import mail_server, web_server

LOGIN = ("watch@localhost", "s3cret")


def delivery(**table: object) -> Delivery:
    (found,) = parse_alerts("alerts.toml", {"deliver": {"one": table}}).deliveries
    return found


def send(one: Delivery, subject: str = "sda") -> None:
    one.send(alert(subject), threading.Event())


@pytest.fixture
def password(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text(f"{LOGIN[1]}\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    return make_certificate(tmp_path)


@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_a_server_with_tls_and_a_login_gets_the_mail(
    tls: str, password: str, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with mail_server(tls, certificate, LOGIN) as (smtp, mails):
        one = delivery(mail="ops@localhost", smtp=smtp, tls=tls, user=LOGIN[0], password_file=password)
        with pytest.raises(NotDelivered, match="self-signed certificate") as refused:
            send(one)
        assert not refused.value.retry
        assert mails == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        send(one)
        assert "Subject: [warning] gpu07: disk firing" in mails[0]
        Path(password).write_text("another\n")
        with pytest.raises(NotDelivered, match=f"the server refuses the login of {LOGIN[0]}"):
            send(one)
        Path(password).unlink()
        with pytest.raises(NotDelivered, match=r"password_file .*: No such file"):
            send(one)
    assert len(mails) == 1


def test_an_error_at_the_end_of_an_smtp_session_causes_no_second_mail() -> None:
    with mail_server(farewell="421 closing") as (smtp, mails):
        send(delivery(mail="ops@localhost", smtp=smtp))
    assert len(mails) == 1


def test_a_server_without_tls_gets_no_password(password: str) -> None:
    with mail_server(login=LOGIN) as (smtp, mails):
        one = delivery(mail="ops@localhost", smtp=smtp, user=LOGIN[0], password_file=password)
        assert one.describe() == f"mail to ops@localhost by {smtp}, starttls, as {LOGIN[0]}"
        with pytest.raises(NotDelivered, match="STARTTLS"):
            send(one)
    assert mails == []


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({"tls": "always"}, "tls must be one of no, starttls, tls"),
        ({"user": "x"}, "give the server: smtp = 'host:587'"),
        ({"smtp": "h", "user": "x"}, "a login needs both user and password_file"),
        ({"smtp": "h", "user": "x", "password_file": "/f", "tls": "no"}, "only over an encrypted connection"),
        ({"smtp": "h", "user": "x", "password_file": "/nonexistent"}, "/nonexistent: No such file"),
        ({"smtp": "h", "user": "x", "password_file": "password"}, "give the absolute path of the password_file"),
        ({"smtp": "h", "user": "x", "password_file": "~/password"}, "give the absolute path of the password_file"),
    ],
)
def test_a_login_that_cannot_be_used_is_refused(table: dict[str, object], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        delivery(mail="ops@localhost", **table)


def test_a_password_file_that_others_can_read_is_refused(password: str) -> None:
    Path(password).chmod(0o644)
    with pytest.raises(UsageError, match="other users can read"):
        delivery(mail="ops@localhost", smtp="h", user="x", password_file=password)


def test_no_text_about_a_delivery_contains_its_password(password: str) -> None:
    one = delivery(mail="ops@localhost", smtp="h", user="x", password_file=password)
    assert isinstance(one, MailDelivery)
    assert LOGIN[1] not in repr(one) + one.describe()


def test_apprise_sends_a_message() -> None:
    pytest.importorskip("apprise")
    with web_server() as (url, bodies):
        one = delivery(apprise=url.replace("http://", "json://"))
        assert one.describe() == "apprise, json"
        send(one)
    (body,) = map(json.loads, bodies)
    assert body["title"] == "[warning] gpu07: disk firing: sda (OK)"
    with pytest.raises(NotDelivered, match="A Connection error occurred") as error:
        send(one)
    assert error.value.retry
    with pytest.raises(NotDelivered, match="does not know an address of this form"):
        send(delivery(apprise="nosuchservice://x"))


def test_a_name_is_neither_markup_nor_a_mention_in_a_message_of_apprise() -> None:
    """A service that shows HTML, as Telegram does, refuses a message with an unknown tag."""
    pytest.importorskip("apprise")
    with web_server() as (url, bodies):
        send(delivery(apprise=f"{url.replace('http://', 'json://')}?format=html"), "R&D < 10G <!channel> @everyone")
    (body,) = map(json.loads, bodies)
    assert body["title"] == "[warning] gpu07: disk firing: R&D ‹ 10G ‹!channel› ＠everyone (OK)"
    assert "disk firing: R&amp;D ‹ 10G ‹!channel› ＠everyone" in body["message"].replace("&nbsp;", " ")
