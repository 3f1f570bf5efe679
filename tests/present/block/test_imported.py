"""The Frame of an imported log names the source of its figures, and what the log lacks is unknown."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from iotop_ai.export.json.snapshot import snapshot_object
from iotop_ai.export.text.block import Block, render_block
from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from iotop_ai.present.job.data_path import path_rows
from iotop_ai.present.machine.panel import system_rows
from iotop_ai.present.screen.view import View
from iotop_ai.sources.imports.common import ImportOptions
from iotop_ai.sources.imports.iostat import iostat_snapshots
from iotop_ai.sources.imports.nvidia_smi import nvidia_smi_snapshots

LOGS = Path(__file__).parents[2] / "data" / "logs"
WANTED = ImportOptions(zone=UTC, allow_root=True)


@pytest.fixture(params=["iostat", "nvidia-smi"])
def imported(request: pytest.FixtureRequest) -> Frame:
    if request.param == "iostat":
        return list(frames(iostat_snapshots(str(LOGS / "made-iostat-11.txt"), WANTED)))[1]
    return list(frames(nvidia_smi_snapshots(str(LOGS / "made-nvidia-smi.csv"), WANTED)))[1]


def test_the_screen_names_the_log_from_which_the_figures_come(imported: Frame) -> None:
    for width in (80, 160):
        assert f"imported from {imported.snapshot.host.origin}" in path_rows(imported, View(), width, 3)[0].text


def test_the_monitors_own_cost_is_unknown(imported: Frame) -> None:
    text = "\n".join(line.text for line in system_rows(imported, View(), 160, 4))
    assert "self N/A %" in text or "self ? %" in text
    system = snapshot_object(imported)["system"]
    assert system["self"] == {"pid": 0, "cpu_ratio": None, "rss_bytes": None, "collect_s": None, "late_s": None}
    assert system["host"]["origin"] == imported.snapshot.host.origin
    assert system["cpu"] is None
    assert system["memory"] is None


def test_the_text_block_has_only_figures_of_the_log(imported: Frame) -> None:
    text = render_block(imported, Block())
    assert "self cpu=? MiB=? ms=?" in text
    if imported.snapshot.host.origin == "iostat":
        assert "sda" in text
        assert "306.5" in text
