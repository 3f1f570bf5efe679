"""Output to a program that does not read it to its end, as with ``| head -1``."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from iotop_ai.cli.commands.preflight import check, loader
from iotop_ai.cli.main import main
from iotop_ai.model.preflight.environment.report import FORMAT
from iotop_ai.model.preflight.loader.report import Report as LoaderReport
from iotop_ai.model.preflight.loader.run import Configuration, Failure, Run
from iotop_ai.model.preflight.place import Place
from iotop_ai.model.preflight.report import Report
from iotop_ai.present.machine import caches


class NoReader(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def exit_code(*words: str) -> int:
    """The exit code of a run whose output nothing reads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("iotop_ai.cli.stdout.drop_stdout", lambda: None)
        patch.setattr(sys, "stdout", NoReader())
        return main(words)


in_both_forms = pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])


@in_both_forms
def test_a_problem_that_doctor_finds_counts_without_a_reader(form: list[str], tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_text(json.dumps({"format": FORMAT, "checks": {}, "packages": {"numpy": file.name}}))
    assert exit_code("doctor", *form, "--diff", *map(str, files)) == 1


@in_both_forms
def test_a_problem_that_check_finds_counts_without_a_reader(form: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "check", lambda *_: Report(Place("/data"), 0, hung_s=9.0))
    assert exit_code("check", "/data", *form) == 1


@in_both_forms
def test_a_problem_that_loader_finds_counts_without_a_reader(form: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Run(Configuration(2, 32), failure=Failure("hang", "no batch in 30 s"))
    monkeypatch.setattr(loader, "sweep", lambda *_: LoaderReport("m:f", "python3", 0, (failed,), 8.0))
    monkeypatch.setattr(loader, "user_python", lambda _: "python3")
    assert exit_code("loader", "m:f", *form) == 1


@in_both_forms
def test_a_problem_that_cache_finds_counts_without_a_reader(
    form: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(caches, "fits_in_memory", lambda *_: False)
    assert exit_code("cache", "status", str(tmp_path), *form) == 1


@in_both_forms
def test_a_problem_that_stage_finds_counts_without_a_reader(form: list[str], tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (target / "source").mkdir(parents=True)
    source.mkdir()
    for folder, text in ((source, "new"), (target / "source", "other")):
        (folder / "a").write_text(text)
    assert exit_code("stage", str(source), str(target), "--no-measure", *form) == 1


def test_a_message_that_alerts_cannot_send_counts_without_a_reader(own_folder: Path) -> None:
    path = own_folder / "alerts.toml"
    path.write_text('[deliver.web]\nwebhook = "http://127.0.0.1:9/"\n')
    path.chmod(0o600)
    assert exit_code("alerts", "test", "--alerts", str(path)) == 1
