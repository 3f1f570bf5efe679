"""The metrics as a file for node_exporter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.export.prometheus.textfile import Textfile
from iotop_ai.model.errors import InputError, UsageError
from tests.bench.scrape import session


def test_after_a_failed_write_the_next_write_is_due_10_s_later(tmp_path: Path) -> None:
    path = tmp_path / "later" / "iotop.prom"
    textfile = Textfile(str(path))
    frames = list(session(25))
    with pytest.raises(InputError, match=r"iotop\.prom: No such file or directory$"):
        textfile.put(frames[0])
    path.parent.mkdir()
    written = [textfile.put(frame) for frame in frames[1:]]
    assert not any(written[:9])
    assert written.count(True) == 2
    assert path.read_text().startswith("# HELP")
    textfile.close()
    assert not path.exists()


def test_closing_does_not_remove_a_pipe_that_was_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.prom"
    os.mkfifo(path)
    textfile = Textfile(str(path))
    with pytest.raises(UsageError, match="is a device, pipe or socket"):
        textfile.put(next(iter(session(2))))
    textfile.close()
    assert path.is_fifo()


def test_closing_does_not_remove_the_file_of_another_program(tmp_path: Path) -> None:
    path, other = tmp_path / "node.prom", tmp_path / "other"
    textfile = Textfile(str(path))
    assert textfile.put(next(iter(session(2))))
    other.write_text("other metrics")
    other.rename(path)
    textfile.close()
    assert path.read_text() == "other metrics"


@pytest.mark.parametrize("name", ["metrics.txt", "prom"])
def test_a_name_that_node_exporter_does_not_read_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"must end in \.prom"):
        Textfile(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's files")
def test_the_end_removes_nothing_behind_another_users_link(tmp_path: Path) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    for folder in (theirs / "out", own):
        folder.mkdir(parents=True)
    os.chown(theirs, 65534, 65534)
    textfile = Textfile(str(theirs / "out" / "node.prom"))
    assert textfile.put(next(iter(session(2))))
    (own / "node.prom").write_text("other metrics")
    (theirs / "out").rename(theirs / "moved")
    (theirs / "out").symlink_to(own)
    os.chown(theirs / "out", 65534, 65534, follow_symlinks=False)
    textfile.close()
    assert (own / "node.prom").read_text() == "other metrics"
