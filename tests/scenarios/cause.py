"""A cause: its scene, its trainer and the right class."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.scenarios.torch_python import torch_python

TRAINER = Path(__file__).with_name("trainer.py")


class Setting(NamedTuple):
    """Where a trainer runs. within: a prefix of its command. env: more variables of the watcher.

    root: the folder of a captured machine to watch; None watches this machine.
    """

    folder: Path
    within: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    root: Path | None = None


Scene = Callable[[Path], "contextlib.AbstractContextManager[Setting]"]


class Cause(NamedTuple):
    """A cause, its trainer and the right class.

    label: the right class. scene: makes the trouble in its own folder. options: the trainer's.
    gpu: the trainer appears on the C NVML library; gpus: how many; card: differences from the usual card.
    program: runs as ``program FOLDER --log FILE [options] [--gpu CONF]``; None: without a trainer.
    torch: the trainer needs a Python with torch; without one the cause is skipped.
    negative: nothing is wrong; an alarm is false. also: further classes that are not false alarms.
    window_s: seconds that the verdict may take. seconds: shortest time to watch.
    background: whether one of the repeats runs beside a busy core. draw: returns the cause with other parameters;
    setting: these as text. captured: made from a captured tree. why_not: why this machine cannot make
    it, "" when it can.
    """

    label: str
    scene: Scene
    options: tuple[str, ...] = ()
    gpu: bool = False
    gpus: int = 1
    card: tuple[tuple[str, object], ...] = ()
    program: Path | None = TRAINER
    torch: bool = False
    negative: bool = False
    also: tuple[str, ...] = ()
    window_s: float = 10.0
    seconds: int = 0
    background: bool = True
    draw: Callable[[Cause, random.Random], Cause] | None = None
    setting: str = ""
    captured: bool = False
    why_not: Callable[[], str] | None = None

    def command(self, setting: Setting, log: Path, conf: Path | None) -> list[str]:
        """Return the trainer's command line; [] without a trainer."""
        if self.program is None:
            return []
        shown = [] if conf is None else ["--gpu", str(conf)]
        python = torch_python() if self.torch else sys.executable
        return [
            *setting.within, python, str(self.program), str(setting.folder), "--log", str(log), *self.options, *shown
        ]  # fmt: skip

    def drawn(self, chance: random.Random) -> Cause:
        """Return the cause with parameters drawn at random."""
        return self if self.draw is None else self.draw(self, chance)


def with_options(cause: Cause, *options: object, setting: str = "") -> Cause:
    """Return the cause with more options; the last of equal options applies."""
    words = tuple(str(option) for option in options)
    return cause._replace(options=(*cause.options, *words), setting=setting or " ".join(words))
