"""The whole screen at every size and in every scene: exact width, known styles, outside names as plain text."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading
from iotop_ai.present.screen.column_help import MAIN
from iotop_ai.present.screen.help import help_rows, page_count
from iotop_ai.present.screen.key_row import keys_of
from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.layout import PANELS, plan, screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.fit import fit
from iotop_ai.present.text.line import Line, cells
from iotop_ai.present.text.theme import BACKGROUNDS, TOKENS
from iotop_ai.present.verdict import headline
from tests.present import scenes
from tests.present.make import Disk, Machine, Proc, disk, frame, older, snapshots

SIZES = [(60, 15), (80, 24), (100, 30), (120, 40), (160, 48), (250, 70), (60, 70), (250, 15), (83, 25)]
SCENES: dict[str, Callable[[], Frame]] = {
    name: getattr(scenes, name) for name in ("starved", "healthy", "unsure", "no_gpu", "first")
}
SCENE_FRAMES: dict[str, Frame] = {}
UTC = View(utc_offset_s=0)
VIEWS = [
    UTC,
    UTC._replace(focus="disk", cursor="disk:md0", message="done: something", only_active=True),
    UTC._replace(ascii_only=True, mode="paused", pattern="train", typing=True, sort="cpu", reverse=True),
    UTC._replace(hidden=frozenset({"gpu", "banner", "system"}), focus="process", scroll=5, pattern="("),
]


def scene(name: str) -> Frame:
    if name not in SCENE_FRAMES:
        SCENE_FRAMES[name] = SCENES[name]()
    return SCENE_FRAMES[name]


def well_formed(lines: list[Line], width: int) -> None:
    for line in lines:
        assert cells(line.text) == width, line.text
        assert line.background in BACKGROUNDS
        for span in line.spans:
            assert span.token in TOKENS
            assert span.text.isprintable()


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_every_line_has_the_exact_width(name: str, size: tuple[int, int]) -> None:
    made = scene(name)
    for view in VIEWS:
        lines = screen_rows(*size, made, view)
        assert len(lines) == size[1]
        well_formed(lines, size[0])
        if view.ascii_only:
            assert all(line.text.isascii() for line in lines)


@pytest.mark.parametrize("name", SCENES)
def test_every_panel_stays_within_its_height_at_any_size(name: str) -> None:
    for _, rows in PANELS:
        for width in (1, 10, 39, 60, 80, 250):
            for height in (0, 1, 2, 3, 9):
                lines = rows(scene(name), UTC, width, height)
                assert len(lines) <= height
                well_formed(lines, width)


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_the_plan_fills_the_screen_in_order_of_its_panels(name: str, size: tuple[int, int]) -> None:
    slots = plan(*size, scene(name), UTC)
    order = [panel for panel, _ in PANELS]
    assert [s.panel for s in slots] == [p for p in order if p in {s.panel for s in slots}]
    for above, below in pairwise(slots):
        assert 0 <= below.y - (above.y + above.height) <= 1
    assert slots[-1].panel == "keys"
    assert slots[-1].y == size[1] - 1
    assert {"banner", "path", "disk"} <= {s.panel for s in slots}


def test_the_plan_depends_on_the_machine_and_not_on_its_load() -> None:
    taken = scenes.starved_snapshots(60, onset=30)
    plans = {plan(80, 24, frame(taken[:n]), UTC) for n in (2, 20, 29, 36, 60)}
    assert len(plans) == 1


def test_a_hidden_panel_keeps_its_title() -> None:
    view = UTC._replace(hidden=frozenset({"gpu", "graphs", "banner"}), keymap=user_keymap({"panel.gpu": ["z"]})[0])
    slots = {slot.panel: slot for slot in plan(80, 24, scene("starved"), view)}
    assert [slots[name].height for name in ("gpu", "graphs", "banner")] == [1, 1, 1]
    rows = [line.text for line in screen_rows(80, 24, scene("starved"), view)]
    assert rows[0].startswith(" FAILING ") or rows[0].startswith(" STARVED ")
    assert rows[slots["gpu"].y].startswith("── gpu ──")
    assert rows[slots["gpu"].y].endswith(" hidden; z shows it ──")
    assert rows[slots["graphs"].y].endswith(" hidden; 3 shows it ──")
    all_shown = {slot.panel: slot for slot in plan(80, 24, scene("starved"), UTC)}
    assert slots["process"].height > all_shown["process"].height + 4
    low = plan(60, 15, scene("starved"), view)
    assert {"gpu", "graphs", "banner"}.isdisjoint(slot.panel for slot in low)


STARVED_80 = """\
── path ─────────────────────────────────────────── gpu07  02:55:00  live 1 s ──
 alice pt_data_worker x64 reads › /data ext4 › sda1 › sda SATA SSD              \n\
 waits    blocked   64  run    0  stalled on disk  97 %  CPU   1 %  memory   0 %\n\
── last 100 s ──────── -90 ────────── -60 ────────── -30 ───────── now ─── peak \n\
 all GPUs   20 %    ⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣤⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀       96 \n\
 sda read   90 MB/s ⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣦⣤⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀      480 \n\
 r_await    85 ms   ⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣤⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶⣦⣶       93 \n\
── 8 x H100-80G ─────── busy%   bw%   mem G temp C   power W    link  throttle  \n\
 0-7 all alike          19-21     9   61/80  41-44   188/700 Gen5x16  none      \n\
── disk ────── r/s rMB/s rsize r_await  w/s wMB/s w_await aqu-sz %util health   \n\
>sda    /data  735  90.0  125K    85.0    2   0.1    91.0   62.7   100 FAILING  \n\
 md0 x4 /raid    0     0     -       -   11   3.2     0.1   <0.1     0 ok       \n\
 nvme4  /        3   0.1   33K      <1   20   0.4     0.1   <0.1     0 ok       \n\
── process by io ▼ ───── user    read/s  write/s IO-wait%  cpu% state       pid \n\
 pt_data_worker x64      alice   90.0 M      0         97     1 D      48301+63 \n\
 train.py x8             alice      0      2.0 K        0     6 S      48213 +7 \n\
 337 more, none with I/O; ? 37 of other users unreadable (sudo shows them)      \n\
 used:  /data 37 %  /raid 21 %  / 64 %  shm 3 %   net eth0 0.1/100G  ib0 0/400G \n\
 cpu 9/192 (40 allowed)  mem 0.3/2T  swap 0  psi io 97 %       self 0.4 % 43 MB \n\
 q ? Enter:why j:job Tab:panel b/n:disk g:GPU h:health /:find R:record [ ]:back """


def test_the_starved_node_at_80x24() -> None:
    view = UTC._replace(past=older(scenes.starved_snapshots()))
    made = scene("starved")
    lines = screen_rows(80, 24, made, view)
    assert lines[0].text.startswith(" STARVED  8 of 8 GPUs wait for data 78 % of the time ")
    assert lines[0].text.endswith(" 6.2 GPU-h lost/h ")
    assert [line.text[1:9] for line in lines[1:4]] == ["because ", "and     ", "do      "]
    words = headline.text_of(fit(headline.because(made.verdict), 69))
    assert lines[1].text[10:].rstrip() == words
    assert "\n".join(line.text for line in lines[4:]) == STARVED_80


def test_only_the_fault_is_red() -> None:
    lines = screen_rows(80, 24, scene("starved"), UTC)
    red = [(y, s.text.strip()) for y, line in enumerate(lines) for s in line.spans if s.token == "bad"]
    assert red == [(5, "sda"), (10, "85"), (14, ">sda"), (14, "85.0"), (14, "FAILING")]
    healthy = screen_rows(80, 24, scene("healthy"), UTC)
    assert not [s for line in healthy for s in line.spans if s.token in ("bad", "hot", "warn")]


def test_there_is_one_inverse_block_and_a_tint_only_in_bad_states() -> None:
    for name in SCENES:
        lines = screen_rows(160, 48, scene(name), UTC)
        blocks = [s for line in lines for s in line.spans if s.token.startswith("block-")]
        assert [cells(s.text) for s in blocks] == [9]
        loud = scene(name).verdict.state.value in ("STARVED", "BLOCKED", "SLOWED")
        assert any(s.token.startswith("tint-") for s in lines[0].spans) == loud


def test_the_first_frame_shows_no_zero() -> None:
    lines = screen_rows(80, 24, scene("first"), UTC)
    slots = {s.panel: s for s in plan(80, 24, scene("first"), UTC)}
    for panel in ("disk", "process"):
        slot = slots[panel]
        for line in lines[slot.y + 1 : slot.y + slot.height]:
            assert not [s for s in line.spans if s.token == "zero"], line.text
    assert "?" in lines[slots["disk"].y + 1].text


HOSTILE = "[/x][@click=app.quit]\ufffd训练"


def test_hostile_names_are_plain_text() -> None:
    strange = disk("sdb", label=HOSTILE, mounts=[("/" + HOSTILE, "ext4")], model=HOSTILE, detail=HOSTILE)
    proc = Proc(77, HOSTILE, HOSTILE, read=5 << 20, cmdline=(HOSTILE,), wchan=HOSTILE)
    drive = Disk(strange, reads=9, read_bytes=5 << 20, read_await=1.0)
    machine = Machine((drive,), (proc,), usage={"/" + HOSTILE: 0.5})
    made = frame(snapshots(lambda i: machine, 5))
    for width, height in SIZES:
        lines = screen_rows(width, height, made, UTC)
        well_formed(lines, width)
        assert any("[/x]" in line.text for line in lines)
    ascii_ = screen_rows(160, 48, made, UTC._replace(ascii_only=True))
    well_formed(ascii_, 160)


def test_a_machine_without_readings_is_drawn() -> None:
    empty = frame(snapshots(lambda i: Machine(), 2))
    unread = ("block", "disks", "processes", "cpu", "memory", "network", "smart")
    without_readings = empty._replace(snapshot=empty.snapshot._replace(**{name: Reading() for name in unread}))
    for made in (empty, without_readings):
        for width, height in SIZES:
            well_formed(screen_rows(width, height, made, UTC), width)


def help_text(view: View, width: int, height: int, page: int = 0) -> str:
    lines = help_rows(view, width, height, page)
    well_formed(lines, width)
    assert len(lines) == height
    return "\n".join(line.text for line in lines)


@pytest.mark.parametrize("mode", ["live", "replay", "back"])
def test_every_key_is_on_the_first_page_of_80x24(mode: str) -> None:
    view = UTC._replace(mode=mode)
    assert page_count(80, 24, view) <= 5
    words = help_text(view, 80, 24).split()
    for key in keys_of(view):
        assert set(key.keys.split()) <= set(words)
        assert set(key.text.split()) <= set(words)


def test_the_help_explains_old_names() -> None:
    text = help_text(UTC, 80, 24, 1)
    for word in ("avgqu-sz", "avgrq-sz", "svctm", "NVMe"):
        assert word in text
    for width, height in ((60, 15), (100, 30), (160, 48), (250, 70)):
        all_text = "\n".join(help_text(UTC, width, height, page) for page in range(page_count(width, height, UTC)))
        for word in ("avgqu-sz", "F1", "Space", *(title for title, _ in MAIN)):
            assert word in all_text
    assert page_count(160, 48, UTC) == 1
