"""The metrics as a file for node_exporter."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.export.prometheus.textfile import Textfile
from iotop_ai.model.errors import InputError, UsageError
from tests.bench.scrape import session


def test_a_write_that_failed_is_not_a_success_until_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "later" / "iotop.prom"
    text = Textfile(str(path))
    frames = list(session(25))
    with pytest.raises(InputError, match=r"iotop\.prom: No such file or directory$"):
        text.put(frames[0])
    path.parent.mkdir()
    seen = [text.put(frame) for frame in frames[1:]]
    assert not any(seen[:9])
    assert seen.count(True) == 2
    assert path.read_text().startswith("# HELP")
    text.close()
    assert not path.exists()


@pytest.mark.parametrize("name", ["metrics.txt", "prom"])
def test_a_name_that_node_exporter_does_not_read_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"must end in \.prom"):
        Textfile(name)
