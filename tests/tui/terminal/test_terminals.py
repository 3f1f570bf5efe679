"""Terminals of all kinds: what is drawn on them, at which sizes, and that they remain usable."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.program import TOP
from tests.rigs.pty_pair import PtyPair
from tests.rigs.sshd import Sshd, why_no_sshd
from tests.rigs.tmux import STOPS, why_no_tmux
from tests.tui.inside import PROGRAM, TITLE, assert_usable, closed, opened, record, start

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux() or "there")

BREAKING = """
import sys
from iotop_ai.cli.main import main
from iotop_ai.present.screen import layout

real = dict(layout.PANELS)["process"]

def rows(frame, view, width, height):
    if view.reverse:
        raise ZeroDivisionError("a panel \\x1b[31mbroke")
    return real(frame, view, width, height)

layout.PANELS = tuple((name, rows if name == "process" else make) for name, make in layout.PANELS)
sys.exit(main(["--no-smart", "-d", "0.5"]))
"""


def test_a_panel_that_fails_is_reported_in_one_line_with_its_log(tmp_path: Path) -> None:
    with opened(tmp_path, 120) as terminal:
        start(terminal, tmp_path, f"{shlex.quote(sys.executable)} -c {shlex.quote(BREAKING)}")
        record(terminal, tmp_path)
        terminal.keys("r")
        text = terminal.wait_for("rc=2")
        log = tmp_path / "state" / "iotop-ai" / "crash.log"
        assert "unknown: ZeroDivisionError" in text, text
        assert "Traceback" not in text
        assert str(log) in text.replace("\n", "")
        assert_usable(terminal)
        assert closed(tmp_path)
        assert log.stat().st_mode & 0o777 == 0o600
        written = log.read_text()
        assert "iotop-ai " in written.splitlines()[0]
        assert "ZeroDivisionError" in written
        assert "in rows" in written


def test_many_changes_of_size_end_with_a_whole_screen(tmp_path: Path) -> None:
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path)
        for width, height in ((60, 15), (250, 70), (20, 5), (81, 23), (1, 1), (160, 48), (40, 60)) * 3:
            terminal.resize(width, height)
        terminal.resize(80, 24)
        # Pictures of earlier sizes may still arrive, so the test waits until the last row is in its place.
        text = terminal.wait_until(
            lambda seen: (
                seen.split("\n")[23].startswith(" q ?") and {"path", "disk", "process"} <= set(TITLE.findall(seen))
            ),
            what="the whole screen",
        )
        assert text.count("── path") == 1
        terminal.keys("q")
        terminal.wait_for("rc=0")
        assert_usable(terminal)


def test_a_size_that_changes_only_for_a_moment_is_painted_again(tmp_path: Path) -> None:
    """A terminal that was smaller for a moment has lost rows, although its size is the same as before."""
    tmp_path.chmod(0o700)
    environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": str(tmp_path)}
    command = [*shlex.split(PROGRAM), "-d", "60"]
    with PtyPair(command, 80, 24, {**environment, "PYTHONPATH": str(TOP)}, tmp_path) as console:
        console.wait_for("\x1b[?2004h")  # from here on the app controls the terminal
        console.wait_for("process", console.wait_for("path"))
        console.type("r")
        at = console.wait_for("smallest first")
        while console.read(0.3):  # read all that is painted at start-up
            at = len(console.written)
        for _ in range(3):
            console.resize(1, 1)
            console.resize(80, 24)
            at = console.wait_for("path", at)
            at = console.wait_for("process", at)
            while console.read(0.3):
                at = len(console.written)
        console.type("q")
        assert console.ended() == 0


@pytest.mark.parametrize(
    ("environment", "most_colours", "ascii_only"),
    [
        ({"TERM": "linux", "COLORTERM": ""}, 16, True),
        ({"TERM": "xterm", "COLORTERM": ""}, 16, False),
        ({"TERM": "xterm-256color", "COLORTERM": ""}, 256, False),
        ({"TERM": "screen", "COLORTERM": ""}, 16, False),
        ({"TERM": "vt220", "COLORTERM": ""}, 0, False),
        ({"NO_COLOR": "1"}, 0, False),
        ({"LC_ALL": "C"}, 2**24, True),
    ],
)
def test_a_terminal_gets_only_the_colours_and_glyphs_that_it_has(
    tmp_path: Path, environment: dict[str, str], most_colours: int, ascii_only: bool
) -> None:
    with opened(tmp_path, **environment) as terminal:
        written = tmp_path / "bytes"
        terminal.record(written)
        start(terminal, tmp_path)
        size = written.stat().st_size
        terminal.wait_until(lambda _: written.stat().st_size > size, what="a refresh")
        terminal.keys("L") if most_colours == 2**24 else terminal.keys("r")
        terminal.wait_for("done:")
        text = terminal.text()
        terminal.keys("q")
        terminal.wait_for("rc=0")
        raw = written.read_bytes().decode("utf-8", "replace")
        codes = re.findall(r"\x1b\[([\d;]*)m", raw)
        if most_colours < 2**24:
            assert not any("38;2" in code or "48;2" in code for code in codes)
        if most_colours < 256:
            assert not any("38;5" in code or "48;5" in code for code in codes)
        if most_colours == 0:
            colours = {part for code in codes for part in code.split(";") if re.fullmatch(r"(3|4|9|10)[0-7]", part)}
            assert colours == set()
        assert text.isascii() == ascii_only


def test_a_linux_console_shows_no_rubbish(tmp_path: Path) -> None:
    """A bare pseudo-terminal stands for the console: it must get only bytes and sequences that a console knows."""
    tmp_path.chmod(0o700)
    environment = {**os.environ, "TERM": "linux", "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": str(tmp_path)}
    environment.pop("COLORTERM", None)
    with PtyPair(shlex.split(PROGRAM), 80, 25, {**environment, "PYTHONPATH": str(TOP)}, tmp_path) as console:
        console.wait_for("\x1b[?2004h")
        for key, answer in (
            ("r", "smallest first"),
            ("\x1b>", "by read"),  # text that the previous picture has in the same place is not written again
            ("\x1b[[A", "this help"),
            ("\x1b", "path"),
            (":", "actions"),
            ("\x1b", "path"),
            ("s", "sort processes by"),
            ("\x1b", "path"),
        ):
            at = len(console.written)
            console.type(key)
            console.wait_for(answer, at)
        console.type("q")
        assert console.ended() == 0
        assert console.attributes() == console.before
        raw = console.written.decode("ascii")
    codes = {part for found in re.findall(r"\x1b\[([\d;]*)m", raw) for part in found.split(";") if part}
    assert codes <= {
        str(n) for n in (0, 1, 2, 4, 7, *range(30, 38), *range(40, 48), 39, 49, *range(90, 98), *range(100, 108))
    }
    assert len(codes) > 4
    for mode, final_state in (
        (25, "h"),
        (7, "h"),
        (1000, "l"),
        (1003, "l"),
        (1006, "l"),
        (2004, "l"),
        (1004, "l"),
        (1049, "l"),
    ):
        assert re.findall(rf"\x1b\[\?{mode}([hl])", raw)[-1] == final_state, mode


@STOPS
def test_without_an_alternate_screen_the_prompt_comes_below_the_last_picture(tmp_path: Path) -> None:
    """A Linux console has no alternate screen, and in other terminals it may be switched off."""
    with opened(tmp_path) as terminal:
        terminal.tmux("set-option", "-g", "alternate-screen", "off")
        start(terminal, tmp_path)
        terminal.keys("r")
        terminal.wait_for("smallest first")
        terminal.keys("C-z")
        terminal.wait_for_match("^\\S.*Stopped")
        terminal.type("fg; echo rc=$?\n")
        terminal.wait_until(lambda seen: seen.split("\n")[23].startswith(" q ?"), what="the whole screen")
        terminal.keys("q")
        terminal.wait_for_match("^rc=0\nready>$")
        rows = terminal.screen()
        assert rows[-1] == "ready>"
        assert rows[-2] == "rc=0"
        assert any(row.startswith("── process") for row in rows)
        assert not any(row.startswith(" q ?") for row in rows)


@pytest.mark.skipif(shutil.which("screen") is None, reason="needs GNU screen")
@pytest.mark.parametrize("altscreen", ["on", "off"])
def test_the_screen_works_inside_gnu_screen(tmp_path: Path, altscreen: str) -> None:
    rc = tmp_path / "screenrc"
    rc.write_text(f"startup_message off\ndefutf8 on\naltscreen {altscreen}\n")
    sockets = tmp_path / "sockets"
    sockets.mkdir(mode=0o700)
    with opened(tmp_path, 80, 24, SCREENDIR=str(sockets), COLORTERM="") as terminal:
        terminal.type(f"screen -c {rc} -S rig-{os.getpid()} sh\n")
        try:
            terminal.wait_until(lambda seen: seen.strip() == "ready>", what="the shell in the window")
            start(terminal, tmp_path)
            terminal.keys("Escape", ">")
            text = terminal.wait_for("sorted by read")
            assert len([line for line in text.splitlines() if line.strip()]) >= 20
            terminal.resize(120, 40)
            terminal.wait_until(lambda seen: any(len(line) > 100 for line in seen.splitlines()), what="the new width")
            terminal.keys("q")
            terminal.wait_for_match("^rc=0$")
            terminal.type("echo TERM=$TERM\n")
            terminal.wait_for_match("^TERM=screen")
        finally:
            environment = {**os.environ, "SCREENDIR": str(sockets)}
            subprocess.run(["screen", "-S", f"rig-{os.getpid()}", "-X", "quit"], env=environment, capture_output=True)


@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_sshd()), reason=why_no_sshd() or "there")
@pytest.mark.skipif(shutil.which("mosh") is None, reason="needs mosh")
def test_the_screen_works_inside_mosh(tmp_path: Path) -> None:
    """mosh sends pictures, puts many keys in one packet, and draws only what it believes has changed."""
    remote_state, local_folder = tmp_path / "there-state", tmp_path / "here"
    local_folder.mkdir()
    with Sshd(tmp_path) as server, opened(local_folder, **server.environment) as terminal:
        program = f"env XDG_STATE_HOME={remote_state} iotop-ai --no-smart -d 0.5"
        start(terminal, local_folder, f"mosh --ssh=ssh --bind-server=127.0.0.1 box -- {program}")
        terminal.wait_until(lambda seen: {"path", "disk", "process"} <= set(TITLE.findall(seen)), what="the screen")
        assert len(terminal.text().split("\n")[0]) <= 80
        terminal.keys("Escape", ">")
        terminal.wait_for("sorted by read")
        terminal.keys("/")
        terminal.wait_for("Esc:clear")
        terminal.type("zz")
        terminal.wait_for_match("^ /zz")
        terminal.keys("Escape")
        terminal.keys("?")
        terminal.wait_for("── help")
        terminal.keys("Escape")
        terminal.wait_gone("── help")
        terminal.resize(120, 40)
        terminal.wait_until(lambda seen: any(len(line) > 100 for line in seen.splitlines()), what="the new width")
        terminal.wait_until(lambda seen: seen.split("\n")[39].startswith(" q ?"), what="the new height")
        (client,) = terminal.children()
        assert terminal.mode()["mouse_any_flag"] == "1"
        terminal.keys("q")
        terminal.wait_for("[mosh is exiting.]")
        terminal.wait_for("rc=0")
        assert_usable(terminal)
        assert not os.path.exists(f"/proc/{client}")


def test_the_screen_starts_with_the_view_of_its_last_run(tmp_path: Path) -> None:
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path)
        terminal.keys("t", "7")
        terminal.wait_for("tree by io")
        terminal.wait_for("system hidden")
        terminal.keys("q")
        terminal.wait_for("rc=0")
        terminal.type("clear\n")
        terminal.type(f"{PROGRAM}; echo rc=$?\n")
        text = terminal.wait_for("tree by io")
        assert " cpu " not in text.splitlines()[-2]
        terminal.keys("q")
        terminal.wait_for("rc=0")
        (tmp_path / "state" / "iotop-ai" / "screen.json").write_text("{")
        terminal.type("clear\n")
        terminal.type(f"{PROGRAM}; echo rc=$?\n")
        terminal.wait_for("the remembered view is unreadable")
        terminal.wait_gone("the remembered view is unreadable")
        terminal.keys("q")
        terminal.wait_for("rc=0")
        terminal.type("clear\n")
        terminal.type(f"{PROGRAM}; echo rc=$?\n")
        assert "view is unreadable" not in terminal.wait_for(" q ?")
        terminal.keys("q")
        terminal.wait_for("rc=0")


def test_keys_of_the_settings_file_work_and_the_mouse_can_be_off(own_folder: Path) -> None:
    folder = own_folder / "config" / "iotop-ai"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('mouse = false\n[keys]\n"sort.next" = ["F7", "ctrl+n"]\n"app.quit" = ["x"]\n')
    with opened(own_folder) as terminal:
        start(terminal, own_folder, shows=" x ?")
        terminal.keys("F7")
        terminal.wait_for("sorted by read")
        assert terminal.mode()["mouse_any_flag"] == "0"
        terminal.keys("C-n")
        terminal.wait_for("sorted by write")
        terminal.keys("q", "?")
        terminal.wait_for("── help")
        terminal.wait_for("F7")  # the help is painted from the top on, so this key comes last
        terminal.keys("Escape")
        terminal.wait_gone("── help")
        terminal.keys("x")
        terminal.wait_for("rc=0")


@pytest.mark.alone
def test_a_refresh_takes_few_bytes(tmp_path: Path) -> None:
    """Most seconds take under 6 KB, for slow links. A new verdict may paint all rows, so two seconds may take more."""
    with opened(tmp_path) as terminal:
        written = tmp_path / "bytes"
        terminal.record(written)
        start(terminal, tmp_path, PROGRAM.replace("-d 0.5", "-d 1"))
        terminal.keys(">")
        terminal.wait_for("sorted by")  # by now the app has painted the whole screen
        seconds = []
        for _ in range(6):
            begin, size = time.monotonic(), written.stat().st_size
            time.sleep(1)
            seconds.append((written.stat().st_size - size) / (time.monotonic() - begin))
        terminal.keys("q")
        terminal.wait_for("rc=0")
        assert 0 < sorted(seconds)[3] < 6 * 1024
