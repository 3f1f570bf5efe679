"""docs/prometheus.md lists the metrics that are exported."""

from __future__ import annotations

from tests.prometheus_doc import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.prometheus_doc"
