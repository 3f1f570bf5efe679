"""What a cause is: where it is made, which trainer runs in it, which class is right."""

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
    """Where a trainer runs. within: what stands before its command. env: more variables of the watcher.

    root: the folder of a captured machine that is watched instead of this one; None watches this one.
    """

    folder: Path
    within: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    root: Path | None = None


Scene = Callable[[Path], "contextlib.AbstractContextManager[Setting]"]


class Cause(NamedTuple):
    """A cause, its trainer and the class that is right.

    label: that class. scene: makes the trouble in a folder of its own. options: the trainer's.
    gpu: the trainer shows itself on the C NVML library; gpus: so many; card: keys that differ from the usual card's.
    program: what is run as ``program FOLDER --log FILE [options] [--gpu CONF]``; None: no trainer at all.
    torch: the trainer runs with a Python that has torch, and the cause is skipped where there is none.
    negative: what must not be taken for trouble. also: classes beside the label that are no false alarm.
    window_s: what the verdict may look at before it is late; seconds: the shortest time to watch when that is more than
    is asked for.
    background: whether one of the repeats runs beside a busy core. draw: the same cause with other parameters;
    told: these in words. captured: made from a captured tree. why_not: why this machine cannot make it, "" when it can.
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
    told: str = ""
    captured: bool = False
    why_not: Callable[[], str] | None = None

    def command(self, setting: Setting, log: Path, conf: Path | None) -> list[str]:
        """The trainer's command line; [] without one."""
        if self.program is None:
            return []
        shown = [] if conf is None else ["--gpu", str(conf)]
        python = torch_python() if self.torch else sys.executable
        return [
            *setting.within, python, str(self.program), str(setting.folder), "--log", str(log), *self.options, *shown
        ]  # fmt: skip

    def drawn(self, chance: random.Random) -> Cause:
        """With parameters drawn at random."""
        return self if self.draw is None else self.draw(self, chance)


def with_options(cause: Cause, *options: object, told: str = "") -> Cause:
    """The cause with more options, of which the last word counts."""
    words = tuple(str(option) for option in options)
    return cause._replace(options=(*cause.options, *words), told=told or " ".join(words))
