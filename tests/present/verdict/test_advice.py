from __future__ import annotations

import pytest

from iotop_ai.present.verdict.advice import limit_text


@pytest.mark.parametrize(
    ("what", "value", "text"),
    [
        ("read_bytes", 10 << 20, "10 MB/s"),
        ("read_ios", 300, "300 reads/s"),
        ("write_bytes", 10 << 20, "10 MB/s of writes"),
        ("write_ios", 300, "300 writes/s"),
    ],
)
def test_a_limit_says_what_it_limits(what: str, value: float, text: str) -> None:
    assert limit_text({"what": what, "limit": float(value)}) == text
