"""Delivers an alert to one of the hundred or so services that the library apprise supports (extra ``notify``)."""

from __future__ import annotations

import importlib.util
import logging
import threading
from typing import Any, NamedTuple

from iotop_ai.alerts.deliveries.message import title
from iotop_ai.alerts.deliveries.outbox import TIMEOUTS_PER_DELIVERY, NotDelivered
from iotop_ai.alerts.rules import Alert
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.model.clean import clean

_LOG_PREFIX_END = " - WARNING - "
"""The end of the prefix (time and level) before each message in apprise's log."""
_HARMLESS = str.maketrans("<>@", "‹›＠")
"""Replaces the characters that mark HTML tags and mentions of a user with characters that look alike."""


def is_installed() -> bool:
    """Whether apprise can be imported."""
    return importlib.util.find_spec("apprise") is not None


class ServiceDelivery(NamedTuple):
    """Sends each alert to a service through apprise.

    url: the address in apprise's form, such as "tgram://token/chat". at_most: the maximum number of messages per hour.
    """

    name: str
    url: str
    timeout_s: float
    at_most: int

    @property
    def per_object(self) -> bool:
        """Whether an alert about several objects is sent as one message for each object."""
        return False

    def describe(self) -> str:
        """Return only the name of the service, because the rest of the address is secret."""
        return f"apprise, {clean(self.url.partition(':')[0])}"

    def send(self, alert: Alert, stop: threading.Event) -> None:
        """Pass the alert to the service. Raises NotDelivered."""
        import apprise  # imported here because the import takes most of a second

        # cto and rto are apprise's timeouts for connecting and for reading.
        separator = "&" if "?" in self.url else "?"
        service = apprise.Apprise.instantiate(
            f"{self.url}{separator}cto={self.timeout_s:g}&rto={self.timeout_s:g}", suppress_exceptions=True
        )
        if service is None:
            raise NotDelivered("apprise does not know an address of this form")
        services = apprise.Apprise()
        services.add(service)
        with apprise.LogCapture(level=logging.WARNING) as log:
            sent = self._notify(services, alert)
            lines = [line.partition(_LOG_PREFIX_END)[2] for line in log.getvalue().splitlines()]
        if not sent:
            raise NotDelivered(clean(" ".join(filter(None, lines)) or "the service did not accept it", 200), retry=True)

    def _notify(self, services: Any, alert: Alert) -> bool:
        def notify() -> bool:
            # apprise converts text to the format of the service. Without body_format it would pass the text as it is,
            # and a service that shows HTML would take "<" and "&" for markup.
            body = f"{alert.text}\n{alert.verdict}".translate(_HARMLESS)
            return bool(services.notify(title=title(alert).translate(_HARMLESS), body=body, body_format="text"))

        try:
            return call_with_timeout(TIMEOUTS_PER_DELIVERY * self.timeout_s, f"apprise {self.name}", notify)
        except TimeoutError as error:
            raise NotDelivered(str(error.strerror), retry=True) from None
