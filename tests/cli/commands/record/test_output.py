from __future__ import annotations

from pathlib import Path

from iotop_ai.cli.commands.record.options import RecordOptions
from iotop_ai.cli.commands.record.output import Output
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.settings import Settings
from iotop_ai.store.write.recorder import Rotation


def test_an_empty_file_that_cannot_be_removed_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    options = RecordOptions(
        Settings(),
        str(folder / "run"),
        False,
        "",
        None,
        Rotation(),
        None,
        (),
        min_free_bytes=0,
        burst_s=None,
        command=(),
    )
    output = Output(options, Clock(), lambda text: None, lambda: None)
    (folder / "run").unlink()
    folder.rmdir()
    folder.write_text("")  # this makes the removal fail, as on a filesystem that became read-only
    output.close()
