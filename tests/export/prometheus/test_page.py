"""docs/prometheus.md lists what the exporter exports."""

from __future__ import annotations

from tests.prometheus_doc import PAGE, page


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.prometheus_doc"
