"""``iotop-ai ack`` as users run it, and which finding a word selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.cli.commands.health import ack
from iotop_ai.cli.commands.health.ack import lasting_findings, matching_id
from iotop_ai.collectors.state.acknowledged import Acknowledged
from iotop_ai.model.errors import UsageError
from tests.cli.program import iotop, iotop_here, iotop_started
from tests.diagnosis.build import play
from tests.diagnosis.verdict.test_acknowledge import ill

NAME = "failing_disk:WD_1_2"


def test_lasting_findings_are_listed_whether_acknowledged_or_not() -> None:
    frame = play((ill(), 12))[-1]
    assert list(lasting_findings(frame)) == [NAME]
    acknowledged = frame._replace(carry=frame.carry._replace(acked={NAME: "critical critical=1 reallocated=312"}))
    assert list(lasting_findings(acknowledged)) == [NAME]


@pytest.mark.parametrize("word", [NAME, "WD_1_2", "sda", "/dev/sda"])
def test_a_disk_is_selected_by_its_name_serial_number_or_identity(word: str) -> None:
    assert matching_id(word, lasting_findings(play((ill(), 12))[-1])) == NAME


def test_an_unknown_id_is_refused_with_a_list_of_the_known_ones() -> None:
    with pytest.raises(UsageError, match=f"'sdb' is not a finding to acknowledge; findings: {NAME}"):
        matching_id("sdb", lasting_findings(play((ill(), 12))[-1]))


def test_acknowledgements_are_listed_and_withdrawn(tmp_path: Path) -> None:
    kept = Acknowledged(tmp_path / "iotop-ai")
    kept.add(NAME, "critical reallocated=312", 1)
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    listed = iotop("ack", "--no-smart", "-d", "0.2", **environment)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert f"acknowledged  {NAME}  not active" in listed.stdout
    refused = iotop("ack", "sdz", "--no-smart", "-d", "0.2", **environment)
    assert refused.returncode == 2
    assert refused.stderr.startswith("usage: 'sdz' is not a finding to acknowledge")
    for words in (("ack", "--undo"), ("ack", "--undo", "sdz", "--no-smart", "-d", "0.2")):
        assert iotop(*words, **environment).stderr.startswith("usage: ")
    undone = iotop("ack", "--undo", "WD_1_2", **environment)
    assert (undone.returncode, undone.stdout) == (0, f"{NAME}: acknowledgement removed\n")
    assert kept.read() == {}


@pytest.mark.parametrize("word", ["sda", "/dev/sda"])
def test_an_acknowledgement_is_withdrawn_by_the_name_of_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(ack, "LiveSource", lambda settings: None)
    monkeypatch.setattr(ack, "take_frame", lambda source: play((ill(), 12))[-1])
    kept = Acknowledged(tmp_path / "iotop-ai")
    kept.add("failing_disk:other", "critical reallocated=312", 1)
    kept.add(NAME, "critical reallocated=312", 1)
    undone = iotop_here("ack", "--undo", word)
    assert (undone.returncode, undone.stdout) == (0, f"{NAME}: acknowledgement removed\n")
    assert list(kept.read()) == ["failing_disk:other"]


def test_a_broken_file_is_reported_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "iotop-ai"
    folder.mkdir(mode=0o700)
    (folder / "acknowledged.json").write_text("{")
    done = iotop_started("ack", "--no-smart", "-d", "0.2", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith(f"input: {folder}/acknowledged.json: ")
    assert (folder / "acknowledged.json").read_text() == "{"
