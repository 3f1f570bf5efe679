"""Every key in the tables, pressed in a real terminal: each has an effect, and each dialog can be left with Esc.

The test fails if an action has no expectation here, or more than one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from iotop_ai.pipeline import frames
from iotop_ai.present.screen.actions import APP_ACTIONS, PANEL_KEYS, SCREENS, Action, all_actions
from iotop_ai.present.screen.key_row import keys_of
from iotop_ai.present.screen.view import View
from tests.cli.program import TOP
from tests.diagnosis.build import JOB_STARVED, play
from tests.diagnosis.facts.test_leading_job import FED
from tests.present.scenes import starved_snapshots
from tests.rigs.nvml import build, machine, why_no_library
from tests.rigs.nvml.c_library import SERVER
from tests.rigs.tmux import STOPS, Terminal, why_no_tmux
from tests.tui.recorded import record

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux() or "there")

PROGRAM = [sys.executable, "-m", "iotop_ai"]
TMUX = {
    "escape": "Escape",
    "enter": "Enter",
    "space": "Space",
    "pagedown": "PageDown",
    "pageup": "PageUp",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "apostrophe": "'",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "at": "@",
    "plus": "+",
    "minus": "-",
    "greater_than_sign": ">",
    "less_than_sign": "<",
    "shift+tab": "BTab",
}
ANY = ""


class Answer(NamedTuple):
    """The effect of a key. seen: a pattern that the screen must newly match; ANY: the screen must change in any way.

    undo: the keys that undo the effect; Esc closes what was opened. before: keys to press first.
    """

    seen: str = ANY
    undo: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


ESC = ("Escape",)
CLOCK = r"\d\d:\d\d:\d\d  "
MOVED = r"\d\d:\d\d:\d\d  |no (further|earlier|more)[^\n]*"

ON_MAIN: dict[str, Answer] = {
    "app.palette": Answer("type to find", ESC),
    "app.picture": Answer(r"done: picture in \S+"),
    "help.open": Answer("means unknown, never zero", ESC),
    **{f"panel.{panel}": Answer(rf"{panel} (hidden|shown)", (str(n),)) for n, panel in enumerate(PANEL_KEYS, 1)},
    "gpu.open": Answer("b/n:GPU", ESC),
    "panels.zoom": Answer("alone; z shows all", ("z",)),
    "health.open": Answer("Up/Down:disk", ESC),
    "theme.next": Answer(r"done: theme \S+"),
    "row.open": Answer("Up/Down:scroll", ESC),
    "device.next": Answer(r"done: \S+ pinned"),
    "device.previous": Answer(r"done: \S+ pinned"),
    "arrow.right": Answer(CLOCK, before=("to disk",)),
    "arrow.left": Answer(CLOCK),
    "device.list": Answer("── devices", ESC),
    "filter.open": Answer("Esc:clear", ESC),
    "filter.clear": Answer("filter cleared", before=("/", "x", "Enter")),
    "sort.next": Answer(r"sorted by \w+"),
    "sort.previous": Answer(r"sorted by \w+"),
    "sort.list": Answer("── sort processes by", ESC),
    "sort.reverse": Answer("(smallest|largest) first", ("r",)),
    "rows.tree": Answer("a tree|grouped"),
    "rows.columns": Answer("── columns of processes", ESC),
    "rows.active": Answer("only active rows|all rows", ("o",)),
    "rows.accumulate": Answer("summed since now|rates per second", ("a",)),
    "time.on": Answer(CLOCK),
    "time.back": Answer(CLOCK),
    "time.leap_on": Answer(MOVED),
    "time.leap_back": Answer(MOVED),
    "time.go": Answer(r"14:32  -3m  \+3m  45%", ESC),
    "time.next_verdict": Answer(MOVED),
    "time.previous_verdict": Answer(MOVED),
    "time.mark": Answer(MOVED),
    "time.pause": Answer("REPLAY [0-9.]+x", ("Space",)),
    "job.next": Answer("no training job|the only job|done: .* of "),
    "job.list": Answer("j:next", ESC),
    "verdict.copy": Answer("copied|no clipboard"),
    "verdict.acknowledge": Answer("only a failing disk or GPU|only on the live screen|not available"),
    # Enter opens what has the focus, so the focus is moved to the processes only at the end.
    "cursor.down": Answer(before=("to process",)),
    "cursor.last": Answer(),
    "cursor.up": Answer(),
    "cursor.first": Answer(),
    "cursor.page_down": Answer(),
    "cursor.page_up": Answer(),
    "rows.tag": Answer(r"(un)?tagged, \d+ in total", before=("to process", "Home")),
    "rows.untag": Answer(r"done: \d+ untagged|nothing is tagged"),
    "row.copy": Answer("copied|no clipboard"),
    "rates.units": Answer("1 MB/s is 1,000,000 B/s", ("B",)),
    "doctor.dismiss": Answer("dismissed|row is not shown"),
}
LIVE: dict[str, Answer] = {
    "app.suspend": Answer(r"\[1\] \+ Stopped"),
    "time.record": Answer("recording, . stops it"),
    "interval.longer": Answer(r"every [0-9.]+ s"),
    "interval.shorter": Answer(r"every [0-9.]+ s"),
    "act.drop_caches": Answer("DROP CACHES", ESC),
    "act.check": Answer("CHECK STORAGE", ESC),
    "act.delay_accounting": Answer("DELAY ACCOUNTING", ESC),
    "act.signal": Answer("PROCESS", ESC, ("to process",)),
    "act.nice": Answer("PROCESS", ESC),
    "act.ionice": Answer("PROCESS", ESC),
}
STEPS = ("detail.on", "detail.back", "detail.next_verdict", "detail.previous_verdict")
DETAIL: dict[str, Answer] = {
    "detail.on": Answer(),
    "detail.back": Answer(),
    "detail.leap_on": Answer(),
    "detail.leap_back": Answer(),
    "detail.next_verdict": Answer(),
    "detail.previous_verdict": Answer(),
    "detail.mark": Answer(),
    "detail.go": Answer(r"14:32  -3m  \+3m  45%", ESC),
    "detail.record": Answer("Esc:back.*not available in a replay"),
}
"""The actions that the detail screens share, tried in a replay: there, only a key moves the picture in time."""
ON_GPU: dict[str, Answer] = {
    "gpu.next": Answer(r"GPU \d  "),
    "gpu.previous": Answer(r"GPU \d  "),
    "gpu.help": Answer("means unknown, never zero", ESC),
}
ON_DEVICE: dict[str, Answer] = {
    "disk.next": Answer(r"\d of \d+  b/n"),
    "disk.previous": Answer(r"\d of \d+  b/n"),
    "disk.health": Answer("Up/Down:scroll", ESC),
    "disk.tab": Answer(r"\[latency\]", ("BTab",)),
    "disk.previous_tab": Answer(r"\[facts\]", ("Tab",)),
    "disk.check": Answer("CHECK STORAGE", ESC),
    "disk.log": Answer("logarithmic scale", ("l",)),
    "disk.help": Answer("means unknown, never zero", ESC),
}
ON_HEALTH: dict[str, Answer] = {
    # The cursor begins at the worst disk, which is the last in the list.
    "health.up": Answer(),
    "health.down": Answer(),
    "health.page_up": Answer(),
    "health.page_down": Answer(),
    "health.first": Answer(),
    "health.last": Answer(),
    "health.next": Answer(),
    "health.previous": Answer(),
    "health.test": Answer("self-tests start only on the live screen", ESC),
    "health.help": Answer("means unknown, never zero", ESC),
    "health.disk": Answer("Up/Down:scroll", ESC),
}
ON_REASONS: dict[str, Answer] = {
    "reason.down": Answer(),
    "reason.up": Answer(),
    "reason.page_down": Answer(),
    "reason.page_up": Answer(),
    "reason.last": Answer(),
    "reason.first": Answer(),
    "reason.copy": Answer("copied|no clipboard"),
    "reason.acknowledge": Answer("only a failing disk or GPU|only on the live screen|not available"),
    "reason.job": Answer("no training job|the only job|done: .* of "),
    "reason.pause": Answer(ANY, ("Space",)),
    "reason.help": Answer("means unknown, never zero", ESC),
}
ON_JOBS: dict[str, Answer] = {
    "jobs.down": Answer(),
    "jobs.up": Answer(),
    "jobs.last": Answer(),
    "jobs.first": Answer(),
    "jobs.next": Answer(),
    "jobs.help": Answer("means unknown, never zero", ESC),
}
ON_PROCESS: dict[str, Answer] = {
    "process.next": Answer(r"\d+ of \d+( listed)?  b/n"),
    "process.previous": Answer(r"\d+ of \d+( listed)?  b/n"),
    "process.pause": Answer(ANY, ("Space",)),
    "process.help": Answer("means unknown, never zero", ESC),
}
LIVE_PROCESS: dict[str, Answer] = {
    "process.act_signal": Answer("PROCESS", ESC),
    "process.act_nice": Answer("PROCESS", ESC),
    "process.act_ionice": Answer("PROCESS", ESC),
    "process.longer": Answer(r"every [0-9.]+ s"),
    "process.shorter": Answer(r"every [0-9.]+ s"),
    "process.last": Answer("the end"),
    "process.first": Answer(r"\d+ more rows? below"),
    "process.page_down": Answer(),
    "process.page_up": Answer(),
    "process.down": Answer(),
    "process.up": Answer(),
    "process.code": Answer(r"py-spy (samples|is not installed|knows)"),
}
LIVE_GPU: dict[str, Answer] = {
    "gpu.longer": Answer(r"every [0-9.]+ s"),
    "gpu.shorter": Answer(r"every [0-9.]+ s"),
    "gpu.pause": Answer("PAUSED", ("Space",)),
    "gpu.now": Answer("done: now", before=("look back",)),
}
LIVE_DEVICE: dict[str, Answer] = {
    "disk.longer": Answer(r"every [0-9.]+ s"),
    "disk.shorter": Answer(r"every [0-9.]+ s"),
    "disk.pause": Answer("PAUSED", ("Space",)),
    "disk.now": Answer("done: now", before=("look back",)),
}
LIVE_HEALTH: dict[str, Answer] = {"health.ask": Answer("the disks are being queried")}
BACK = {
    "gpu.back": "gpu",
    "disk.back": "device",
    "health.back": "health",
    "health.main": "health",
    "reason.back": "reasoning",
    "jobs.back": "jobs",
    "jobs.choose": "jobs",
    "process.back": "process",
}
"""The keys that lead from a screen to the main screen."""
ENDS = ("app.quit", "app.interrupt")
TABLES: tuple[Mapping[str, object], ...] = (
    *(ON_MAIN, LIVE, DETAIL, ON_GPU, ON_DEVICE, ON_HEALTH, ON_REASONS, ON_JOBS, ON_PROCESS),
    *(LIVE_GPU, LIVE_DEVICE, LIVE_HEALTH, LIVE_PROCESS, BACK, dict.fromkeys(ENDS)),
)


def test_every_action_has_one_expectation() -> None:
    named = [name for table in TABLES for name in table]
    # The fleet's screens belong to a separate program, whose keys tests/tui/screens/fleet presses.
    screens = (SCREENS[name] for name in SCREENS if name.startswith("fleet"))
    fleet = {action.name for actions in screens for action in actions} - {action.name for action in APP_ACTIONS}
    assert sorted(named) == sorted(set(all_actions()) - fleet)
    printed = {name for mode in ("live", "replay", "back") for key in keys_of(View(mode=mode)) for name in key.actions}
    assert printed <= set(named)


def matches(pattern: str, text: str) -> set[str]:
    """Every text on the screen that matches the pattern."""
    return {found[0] for found in re.finditer(pattern, text, re.MULTILINE)}


def focused(text: str) -> tuple[str, ...]:
    """The words that show the focus: the first of a panel's rule, and what Enter does, as the banner has no rule."""
    return (*re.findall(r"^━+ (\w+)", text, re.MULTILINE), *re.findall(r"Enter:\S+", text.splitlines()[-1]))


class Driver:
    """A program in a terminal, whose keys are pressed one by one."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def start(self, argv: list[str]) -> None:
        self.terminal.type(shlex.join([*PROGRAM, *argv]) + "\n")
        self.wait_for_main()

    def wait_for_main(self) -> None:
        """Wait until the main screen is shown."""
        self.terminal.wait_until(
            lambda text: text.splitlines()[-1].startswith(" q ") and "── disk " in text.replace("━", "─"),
            what="the main screen",
        )

    def send(self, key: str) -> None:
        """Send one key by the name that tmux has for it, or do "to PANEL" or "look back".

        After Esc the caller has to wait for its effect: a letter that followed at once would be read as Alt and that
        letter.
        """
        if key == "look back":  # the key is repeated until there is an earlier moment
            self.terminal.wait_until(lambda text: "BACK" in text or self.terminal.keys("["), what="the past")
            return
        if key.startswith("to "):
            self.focus(key.removeprefix("to "))
            if key == "to process":
                self.send("Down")
            return
        self.terminal.keys(key)

    def focus(self, panel: str) -> None:
        """Press Tab until the panel has the focus."""
        for _ in range(12):
            before = focused(self.terminal.text())
            if panel in before:
                return
            self.send("Tab")
            self.terminal.wait_until(lambda text, before=before: focused(text) != before, what="another focus")
        raise AssertionError(f"{panel} never had the focus")

    def press(self, action: Action, answer: Answer) -> None:
        """Press each key of an action, check its effect, and close what it opened."""
        for key in action.keys:
            for key_before in answer.before:
                self.send(key_before)
                time.sleep(0.2)
            if answer.seen.startswith("done: "):  # the effect of the second key may be the same text
                self.terminal.wait_until(lambda text: not matches(answer.seen, text), what=f"{action.name}: gone")
            text, before = self.terminal.text(), self.terminal.styled_screen()
            stale = matches(answer.seen, text)
            name = f"{action.name} by {key}"
            self.send(self.tmux_name(key))
            if answer.seen == ANY:
                self.terminal.wait_until(lambda _, before=before: self.terminal.styled_screen() != before, what=name)
            else:

                def fresh(text: str, stale: set[str] = stale) -> bool:
                    return bool(matches(answer.seen, text) - stale)

                self.terminal.wait_until(fresh, what=f"{name}: {answer.seen}")
            for back in answer.undo:
                self.send(back)
            if answer.undo == ESC:
                self.terminal.wait_until(lambda text: not matches(answer.seen, text), what=f"{name}: closed by Esc")

    def press_all(self, table: Mapping[str, Answer]) -> None:
        """Press the keys of every action in a table, in its order."""
        actions = all_actions()
        for name, answer in table.items():
            self.press(actions[name], answer)

    def leave_by_each_key(self, screen: str, open_: tuple[str, ...]) -> None:
        """Press each key that leads from an open screen to the main one. open_: the keys that open the screen again."""
        is_open = True
        for action in SCREENS[screen]:
            for key in action.keys if action.name in BACK else ():
                if not is_open:
                    open_screen(self, screen, open_)
                is_open = False
                self.send(self.tmux_name(key))
                self.wait_for_main()

    @staticmethod
    def tmux_name(key: str) -> str:
        """The name that tmux has for a key."""
        if key.startswith("ctrl+"):
            return f"C-{key[-1]}"
        return TMUX.get(key) or (key if len(key) == 1 else key.capitalize())


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """A process with a unique name, which runs until the end of the test."""
    path = tmp_path / f"zz{os.getpid()}"
    shutil.copy(shutil.which("sleep") or "", path)
    process = subprocess.Popen([str(path), "600"])
    yield path
    process.kill()
    process.wait()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment variables that keep every written file inside the test's folder."""
    return {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "none"),
        "PYTHONPATH": str(TOP),
    }


@pytest.mark.timeout(400)  # it presses every key on six screens, and waits for the terminal each time
def test_every_key_works_in_a_replay(tmp_path: Path, environment: dict[str, str]) -> None:
    path = record(tmp_path / "a.iotop.jsonl", list(frames(starved_snapshots(60))))
    with Terminal(100, 30, environment) as terminal:
        driver = Driver(terminal)
        terminal.type(f"cd {shlex.quote(str(tmp_path))}\n")
        driver.start(["replay", path, "--allow-root", "--at", "50%"])
        driver.press_all({"row.open": ON_MAIN["row.open"]})  # here the banner has the focus
        driver.press_all({name: answer for name, answer in ON_MAIN.items() if name != "row.open"})
        for screen, table, open_ in (
            ("gpu", ON_GPU, ("g",)),
            ("device", ON_DEVICE, ("to disk", "Enter")),
            ("health", ON_HEALTH, ("h",)),
            ("process", ON_PROCESS, ("to process", "Enter")),
        ):
            open_screen(driver, screen, open_)
            driver.press_all({**DETAIL, **table})
            driver.leave_by_each_key(screen, open_)
        driver.focus("path")
        driver.send("BTab")
        driver.send("BTab")  # this moves the focus over the timeline to the banner
        terminal.type("@90%\n")
        terminal.wait_for("02:54:1")
        terminal.resize(60, 15)
        driver.wait_for_main()
        open_screen(driver, "reasoning", ("Enter",))
        # The facts about a failing disk do not change from step to step, so stepping would show no effect.
        driver.press_all({**{name: one for name, one in DETAIL.items() if name not in STEPS}, **ON_REASONS})
        driver.leave_by_each_key("reasoning", ("Enter",))
        driver.send("q")
        wait_for_shell(terminal)


def test_every_key_about_jobs_works(tmp_path: Path, environment: dict[str, str]) -> None:
    tasks = (*JOB_STARVED.tasks, FED.task, *FED.workers)
    path = record(tmp_path / "a.iotop.jsonl", play((replace(JOB_STARVED, tasks=tasks, second_job=FED, euid=0), 20)))
    with Terminal(100, 30, environment) as terminal:
        driver = Driver(terminal)
        driver.start(["replay", path, "--allow-root", "--at", "50%"])
        open_screen(driver, "jobs", ("J",))
        driver.press_all({**DETAIL, **ON_JOBS})
        driver.leave_by_each_key("jobs", ("J",))
        driver.send("F10")
        wait_for_shell(terminal)


@STOPS
@pytest.mark.skipif(bool(why_no_library()), reason=why_no_library() or "built")
@pytest.mark.timeout(400)
def test_every_key_works_on_the_live_screen(tmp_path: Path, environment: dict[str, str], program: Path) -> None:
    machine(tmp_path / "gpu.conf", [SERVER, SERVER])
    library = build(tmp_path)
    environment |= {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(tmp_path / "gpu.conf")}
    with Terminal(100, 30, environment) as terminal:
        driver = Driver(terminal)
        terminal.type(f"cd {shlex.quote(str(tmp_path))}\n")
        driver.start(["-d", "0.5"])
        driver.press_all({"app.suspend": LIVE["app.suspend"]._replace(undo=())})
        terminal.type("fg\n")
        driver.wait_for_main()
        driver.press_all({"time.record": LIVE["time.record"]})
        # the second time, the key stops the recording, and its message comes late
        driver.press_all({"time.record": Answer(r"done: \d+ s, ")})
        # If a process ended meanwhile, a key would find no row, so only the test's own process is listed.
        terminal.type(f"/^{program.name}\n")
        terminal.wait_for_match(rf"^.{program.name} ")
        driver.press_all({name: answer for name, answer in LIVE.items() if name not in ("app.suspend", "time.record")})
        for screen, table, open_ in (
            ("gpu", LIVE_GPU, ("g",)),
            ("device", LIVE_DEVICE, ("to disk", "Enter")),
            ("health", LIVE_HEALTH, ("h",)),
            ("process", LIVE_PROCESS, ("to process", "Enter")),
        ):
            open_screen(driver, screen, open_)
            driver.press_all(table)
            driver.send("Escape")
            driver.wait_for_main()
        driver.send("C-c")
        wait_for_shell(terminal)
    assert list(tmp_path.glob("*.iotop.jsonl")), "no recording was written by R"


def open_screen(driver: Driver, screen: str, keys: tuple[str, ...]) -> None:
    """Open a screen by the keys that lead to it from the main screen."""
    for key in keys:
        driver.send(key)
    driver.terminal.wait_until(lambda text: text.splitlines()[-1].startswith(" Esc:back"), what=f"the screen {screen}")


def wait_for_shell(terminal: Terminal) -> None:
    """Wait until the program has ended with exit code 0, or 130 after Ctrl-C, and the shell has the terminal again."""
    terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0", what="the normal screen")
    terminal.type("echo rc=$? $((40+2))\n")
    terminal.wait_for_match(r"rc=(0|130) 42")
