"""Delivers an alert as a POST of JSON: the alert's own object, or a message for Slack or Discord."""

from __future__ import annotations

import http.client
import json
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from iotop_ai import __version__
from iotop_ai.alerts.deliveries.message import alert_object, title
from iotop_ai.alerts.deliveries.outbox import NotDelivered
from iotop_ai.alerts.rules import Alert
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError

FORMATS = ("json", "slack", "discord")
_RETRY_CODES = (408, 429)
"""The HTTP status codes for a timeout and for too many requests. The same request may succeed later."""
_CLOSED = "the server closed the connection without an answer"
_RETRY_AFTER_S = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_LONGEST_TEXT = 1900
"""The maximum number of characters in the text of a message to Slack or Discord, before characters are escaped.
Discord accepts 2,000."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects, so that a message goes only to the address in the file."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class WebhookDelivery:
    """Posts each alert to an address. Raises UsageError for an address that cannot be used.

    form: one of FORMATS. at_most: the most messages per hour. per_object: whether each object of an alert, such as a
    disk, has its own message, as a program expects; people get one message for all.
    """

    def __init__(self, name: str, url: str, form: str, timeout_s: float, at_most: int) -> None:
        if not _is_address(url):  # the message does not show the address, because it is a secret
            raise UsageError(
                f"deliver.{name}: the webhook is not an http or https address; write 'https://host/path', in ASCII"
                " without spaces, and without a name and password before the host"
            )
        self.name, self.at_most = name, at_most
        self.per_object = form == "json"
        self._url, self._format, self._timeout_s = url, form, timeout_s

    def describe(self) -> str:
        """Return only the host and the format, because the path of a webhook is secret."""
        return f"webhook {clean(urllib.parse.urlsplit(self._url).hostname or '')}, {self._format}"

    def send(self, alert: Alert, stop: threading.Event) -> None:
        """Post the alert. Raises NotDelivered."""
        request = urllib.request.Request(
            self._url,
            json.dumps(payload(alert, self._format)).encode(),
            {"Content-Type": "application/json", "User-Agent": f"iotop-ai/{__version__}"},
        )

        def post() -> None:
            # The status shows that the alert has arrived. The rest of the answer is not read, because an error while
            # it is read would cause the alert to be sent again.
            urllib.request.build_opener(_NoRedirect).open(request, timeout=self._timeout_s).close()

        try:
            # The socket's own timeout starts again with each byte, so it does not limit the whole request.
            call_with_timeout(self._timeout_s, f"webhook {self.name}", post)
        except urllib.error.HTTPError as error:
            error.close()
            retry = error.code >= 500 or error.code in _RETRY_CODES
            retry_after = _RETRY_AFTER_S.fullmatch((error.headers.get("Retry-After") or "").strip())
            after_s = float(retry_after[0]) if retry and retry_after else 0.0
            raise NotDelivered(f"the server answered {error.code}", retry=retry, after_s=after_s) from None
        except http.client.RemoteDisconnected:  # a subclass of HTTPException
            raise NotDelivered(_CLOSED, retry=True) from None
        except http.client.HTTPException:  # the error's text may contain the address, which is a secret
            raise NotDelivered("the server's answer is not HTTP", retry=True) from None
        except ValueError:  # the error's text may contain the address too
            raise NotDelivered("the address cannot be used") from None
        except OSError as error:
            why = getattr(error, "reason", error)
            if isinstance(why, ConnectionResetError | BrokenPipeError):  # the server had not read the whole request
                raise NotDelivered(_CLOSED, retry=True) from None
            raise NotDelivered(clean(getattr(why, "strerror", None) or str(why), 200), retry=True) from None


def _is_address(url: str) -> bool:
    """Whether the text is an http or https address in ASCII, without spaces or a user name."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and " " not in url and parts.username is None
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0


def payload(alert: Alert, form: str) -> dict[str, Any]:
    """Return the JSON object of one message.

    A name in the text cannot notify anyone: Slack's control characters are escaped, and Discord's mentions are off.
    """
    text = title(alert)[:_LONGEST_TEXT]
    if form == "slack":
        return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    if form == "discord":
        return {"content": text, "allowed_mentions": {"parse": []}}
    return alert_object(alert)
