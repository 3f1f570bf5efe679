"""Actions that change the machine, really carried out from a real terminal."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotop_ai.collectors.machine.page_cache import PageCache, measure_cached
from tests.cli.program import TOP
from tests.rigs.nobody import as_nobody, why_not_nobody
from tests.rigs.tmux import Terminal, why_no_tmux

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux() or "there")
PROGRAM = [sys.executable, "-m", "iotop_ai", "--no-smart", "-d", "0.5"]
MIB = 1 << 20
LONG_S = 60.0


def started(terminal: Terminal, argv: list[str]) -> None:
    terminal.type(shlex.join(argv) + "\n")
    terminal.wait_until(lambda text: text.splitlines()[-1].startswith(" q "), what="the row of keys")


@pytest.mark.alone
@pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/proc/sys/vm/drop_caches", os.W_OK), reason="needs root on a host of its own"
)
def test_root_drops_a_full_cache_and_the_recording_contains_the_drop(disk_folder: Path) -> None:
    data = disk_folder / "data"
    data.write_bytes(os.urandom(128 * MIB))
    assert measure_cached(str(data), PageCache()).resident_bytes == 128 * MIB
    state = disk_folder / "state"
    with Terminal(80, 24, {"XDG_STATE_HOME": str(state), "PYTHONPATH": str(TOP)}) as terminal:
        terminal.type(f"cd {shlex.quote(str(disk_folder))}\n")
        started(terminal, PROGRAM)
        terminal.keys("R")
        terminal.wait_for("recording, R stops it")
        terminal.keys("D")
        terminal.wait_for("type drop and press Enter")
        terminal.wait_gone("checking permissions")
        terminal.type("drop\n")
        terminal.wait_for("Enter or Esc:close", LONG_S)
        terminal.wait_for_match(r"Cached +\S+ \wB +-> +\S+ \wB")
        assert measure_cached(str(data), PageCache()).resident_bytes < 16 * MIB
        terminal.keys("Escape")
        terminal.wait_gone("DROP CACHES")
        terminal.keys("D")
        terminal.wait_for("dropped less than a minute ago")
        terminal.keys("Escape")
        terminal.wait_gone("DROP CACHES")
        terminal.keys("R")  # this comes at once, maybe before the next Snapshot
        (recording,) = disk_folder.glob("*.iotop.jsonl")
        terminal.wait_for_match(r"done: \d+ s, .* in ")
        terminal.keys("q")
        terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0", what="the normal screen")
    assert "caches dropped (level 1): Cached" in recording.read_text()
    lines = [json.loads(line) for line in (state / "iotop-ai" / "audit.jsonl").read_text().splitlines()]
    assert [(line["action"], line["target"]) for line in lines] == [("drop-caches", "level 1: page cache")] * 2
    assert lines[0]["result"] == "asked"
    assert lines[1]["result"].startswith("page cache dropped: Cached ")


@pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody() or "there")
def test_the_user_nobody_is_refused_and_offered_what_needs_no_root(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "none"), "PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1"}
    with Terminal(80, 30, environment) as terminal:
        started(terminal, as_nobody(*PROGRAM))
        terminal.keys("D")
        text = terminal.wait_for("> 4  one dataset only")
        assert "denied" in text
        assert "needs root" in text
        assert "sysctl -w" in text
        terminal.keys("1")
        terminal.type("drop\n")
        terminal.wait_for("not permitted; 4 evicts one dataset")
        terminal.keys("Escape")
        terminal.wait_gone("DROP CACHES")
        terminal.keys("q")
        terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0", what="the normal screen")


def test_a_read_only_screen_shows_a_notice_instead_of_the_dialog() -> None:
    with Terminal(80, 24, {"PYTHONPATH": str(TOP)}) as terminal:
        started(terminal, [*PROGRAM, "--readonly"])
        terminal.keys("D")
        terminal.wait_for("this screen is read-only")
        terminal.keys("Escape")
        terminal.wait_gone("this screen is read-only")
        terminal.keys("q")


def test_a_process_is_ended_from_its_row(tmp_path: Path) -> None:
    program = tmp_path / f"zz{os.getpid()}"  # a name that no other process on the machine has
    shutil.copy(shutil.which("sleep") or "", program)
    sleeper = subprocess.Popen([str(program), "300"])
    state = tmp_path / "state"
    try:
        with Terminal(100, 30, {"XDG_STATE_HOME": str(state), "PYTHONPATH": str(TOP)}) as terminal:
            started(terminal, PROGRAM)
            terminal.keys("/")
            terminal.wait_for("Esc:clear")
            terminal.type(f"^{program.name}\n")
            terminal.wait_for_match(rf"^.{program.name} ")
            terminal.wait_for_match(r"^━+ process")
            terminal.keys("k")
            terminal.wait_for(f"{program.name}, pid {sleeper.pid}")
            terminal.type("term\n")
            terminal.wait_for(f"done: term: {program.name} ({sleeper.pid})")
            assert sleeper.wait(20) == -15
            terminal.keys("q")
    finally:
        sleeper.kill()
        sleeper.wait()
    lines = [json.loads(line) for line in (state / "iotop-ai" / "audit.jsonl").read_text().splitlines()]
    assert [(line["action"], line["result"]) for line in lines] == [
        ("term", "asked"),
        ("term", f"term: {program.name} ({sleeper.pid})"),
    ]


def test_all_tagged_processes_are_ended_after_one_confirmation(tmp_path: Path) -> None:
    own = f"zz{os.getpid()}"  # a name that no other process on the machine has
    names = (f"{own}one", f"{own}two", f"{own}three")
    for name in names:
        shutil.copy(shutil.which("sleep") or "", tmp_path / name)
    sleepers = [subprocess.Popen([str(tmp_path / name), "300"]) for name in (*names, names[0])]
    state = tmp_path / "state"
    try:
        with Terminal(100, 30, {"XDG_STATE_HOME": str(state), "PYTHONPATH": str(TOP)}) as terminal:
            terminal.type(f"cd {shlex.quote(str(tmp_path))}\n")
            started(terminal, [*PROGRAM, "--sort", "name"])
            terminal.keys("R")
            terminal.wait_for("recording, R stops it")
            terminal.keys("/")
            terminal.wait_for("Esc:clear")
            terminal.type(f"^{own}\n")
            terminal.wait_for_match(rf"^.{names[1]} ")
            terminal.wait_for_match(r"^━+ process")
            terminal.keys("T")  # this tags a row of two processes and moves to the next row
            terminal.wait_for(f"done: {names[0]} x2 tagged, 2 in total")
            terminal.wait_for_match(rf"^\*{names[0]} x2 ")
            terminal.keys("T")
            terminal.wait_for(f"done: {names[2]} tagged, 3 in total")
            terminal.wait_for_match(r"━━ process 3 tagged")
            terminal.keys("Escape")  # the filter is cleared, but the tags remain
            terminal.wait_for("filter cleared")
            terminal.wait_for_match(r"━━ process 3 tagged")
            terminal.keys("k")
            text = terminal.wait_for("PROCESS  3 tagged")
            for index in (0, 2, 3):
                assert f"{sleepers[index].pid}  {own}" in text
            assert f"{sleepers[1].pid}  {own}" not in text
            terminal.type("term\n")
            terminal.wait_for("done: term: 3 of 3 tagged")
            for index in (0, 2, 3):
                assert sleepers[index].wait(20) == -15
            terminal.wait_until(lambda text: "3 tagged  " not in text and "process by" in text, what="no tag left")
            terminal.keys("U")
            terminal.wait_for("nothing is tagged")
            (recording,) = tmp_path.glob("*.iotop.jsonl")
            terminal.wait_until(lambda _: recording.read_text().count(f"term: {own}") >= 3, what="an event for each")
            terminal.keys("q")
            assert sleepers[1].poll() is None
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
    lines = [json.loads(line) for line in (state / "iotop-ai" / "audit.jsonl").read_text().splitlines()]
    assert [line["target"] for line in lines if line["result"] != "asked"] == [
        f"{Path(str(sleeper.args[0])).name}: {sleeper.pid}"  # type: ignore[index]
        for sleeper in sorted((sleepers[0], sleepers[2], sleepers[3]), key=lambda one: one.pid)
    ]


def test_delay_accounting_can_be_declined() -> None:
    with Terminal(80, 24, {"PYTHONPATH": str(TOP)}) as terminal:
        started(terminal, PROGRAM)
        terminal.keys("C-t")
        terminal.wait_for("DELAY ACCOUNTING")
        terminal.keys("Escape")
        terminal.wait_gone("DELAY ACCOUNTING")
        terminal.keys("q")
        terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0", what="the normal screen")


def test_commands_ask_for_confirmation_and_accept_a_refusal(disk_folder: Path) -> None:
    data, fast = disk_folder / "data", disk_folder / "fast"
    data.mkdir()
    fast.mkdir()
    (data / "file").write_bytes(os.urandom(MIB))
    program = shlex.join(PROGRAM[:3])
    environment = {"XDG_STATE_HOME": str(disk_folder / "state"), "PYTHONPATH": str(TOP)}
    with Terminal(100, 40, environment) as terminal:
        if os.geteuid() == 0:
            terminal.type(f"{program} cache drop; echo code=$?\n")
            terminal.wait_for("Type drop to continue:")
            terminal.wait_for("reads from the disks again")
            terminal.type("no\n")
            terminal.wait_for("not done: not confirmed")
            terminal.wait_for("code=2")
            assert not (disk_folder / "state/iotop-ai/audit.jsonl").exists()
        terminal.cleared()
        stage = f"{program} stage {shlex.quote(str(data))} {shlex.quote(str(fast))} --no-measure; echo code=$?\n"
        terminal.type(stage)
        terminal.wait_for("Type copy to continue:")
        terminal.keys("C-c")
        terminal.wait_for("code=130")
        assert not list(fast.iterdir())
        terminal.cleared()
        terminal.type(stage)
        terminal.wait_for("Type copy to continue:")
        terminal.type("copy\n")
        terminal.wait_for("verified: the size of 1 file, the content of 1 file, 1 MB")
        terminal.wait_for("code=0")
    assert (fast / "data" / "file").read_bytes() == (data / "file").read_bytes()
