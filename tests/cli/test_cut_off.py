"""A compressed recording that was cut off is read up to the cut, and one line reports it."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.cli.main import main
from iotop_ai.store.write.compress import compress
from tests.store.scenario import lived
from tests.tui.recorded import record

COMMANDS = [["diagnose"], ["report", "--json"], ["export"], ["compare", "--json"]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return Path(compress(record(tmp_path_factory.mktemp("a") / "a.iotop.jsonl", lived(4, 70)))).read_bytes()


def answer(
    path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str], other: Path | None = None
) -> tuple[int, str]:
    """Run the command. other: the first of two files. Returns its exit code and stderr."""
    files = [str(path)] if other is None else [str(other), str(path)]
    code = main([arguments[0], "--allow-root", *arguments[1:], *files])
    return code, capsys.readouterr().err


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda a: a[0])
def test_a_file_that_is_cut_off_near_its_end_is_named(
    tmp_path: Path, whole: bytes, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    cut, good = tmp_path / "cut.iotop.jsonl.gz", tmp_path / "good.iotop.jsonl.gz"
    cut.write_bytes(whole[:-20])
    good.write_bytes(whole)
    other = good if arguments[0] == "compare" else None
    expected = answer(good, arguments, capsys, other)
    code, err = answer(cut, arguments, capsys, other)
    assert "cut off" not in expected[1]
    assert code == expected[0]
    lines = [line for line in err.splitlines() if "cut off" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"{cut} is cut off: its last ")


def test_a_part_that_is_still_being_written_is_not_called_cut_off(
    tmp_path: Path, whole: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.iotop.jsonl.gz.part"
    path.write_bytes(whole[:-20])
    assert "cut off" not in answer(path, ["diagnose"], capsys)[1]
