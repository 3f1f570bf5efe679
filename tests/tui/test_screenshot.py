from __future__ import annotations

import re

import pytest

from tests.present.make import MIB, Machine, Proc, frame, snapshots
from tests.tui.screens.main.test_process_cursor import showing


def rows(svg: str) -> list[str]:
    """The texts of a picture."""
    return [part.replace("&#160;", " ") for part in re.findall(r">([^<>]*)</text>", svg)]


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("pattern", ["fold=101", "command ~ 'fold=101'"])
async def test_a_picture_has_the_rows_that_the_filter_finds_in_whole_command_lines(pattern: str, tree: bool) -> None:
    procs = [Proc(n, "python", read=MIB, cmdline=("python", "train.py", f"--fold={n}")) for n in (100, 101, 102)]
    made = frame(snapshots(lambda _tick: Machine(procs=tuple(procs)), 5))
    async with showing(made, pattern=pattern, tree=tree) as one:
        panel = one.app.main.panels["process"]
        await one.press("down")
        shown = [line.text.rstrip() for line in panel.lines if line.text.strip()]
        assert "1 of 3 match" in shown[-1]
        picture = rows(one.app.picture())
        assert any("python train.py" in row for row in picture)
        assert any("1 of 3 match" in row for row in picture)
        assert not any("--fold" in row for row in picture)
        assert [line.text.rstrip() for line in panel.lines if line.text.strip()] == shown
