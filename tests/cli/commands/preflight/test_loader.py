"""``iotop-ai loader``: the text that it prints and its exit code."""

from __future__ import annotations

import argparse

import pytest

from iotop_ai.cli.commands.preflight import loader
from iotop_ai.model.preflight.loader.report import Report
from iotop_ai.model.preflight.loader.run import Configuration, Failure, Run


@pytest.mark.parametrize(("kind", "code", "begin"), [("hang", 1, "loader: "), ("refused", 2, "unknown: ")])
def test_a_hang_is_a_failure_but_a_refusal_is_unknown(
    kind: str, code: int, begin: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = Run(Configuration(2, 32), failure=Failure(kind, "no batch in 30 s"))
    monkeypatch.setattr(loader, "sweep", lambda *_: Report("m:f", "python3", 0, (failed,), 8.0))
    monkeypatch.setattr(loader, "user_python", lambda _: "python3")
    parser = argparse.ArgumentParser()
    loader.add_arguments(parser)
    assert loader.run(parser.parse_args(["m:f", "--patch"])) == code
    assert capsys.readouterr() == ("", f"{begin}no batch in 30 s\n")
