"""The exit code of ``why`` before the first window is full."""

from __future__ import annotations

import pytest

from iotop_ai.cli.commands import why
from iotop_ai.cli.main import build_parser
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.finding import Finding, Severity, Verdict
from tests.export.make import frame


@pytest.mark.parametrize(("class_id", "code"), [("failing_disk", 1), ("unknown", 2)])
def test_before_the_first_window_only_a_failing_disk_is_a_problem(
    class_id: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding(class_id, Severity.CRITICAL, 1.0, subject="sda")
    watched = frame()._replace(verdict=Verdict((finding,), 2.0, 10.0, 1, 1))
    monkeypatch.setattr(why, "watch", lambda *_: watched)
    args = build_parser(["why"]).parse_args(["why", "--duration", "2"])
    if code == 1:
        assert why.run(args) == code
    else:
        with pytest.raises(UnknownError, match="too short to judge"):
            why.run(args)
