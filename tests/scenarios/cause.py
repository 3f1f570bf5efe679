"""A cause of lost time: its scene, its trainer and the right class."""

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
    """The surroundings of a trainer.

    folder: the folder with its data. within: the words that precede its command. env: further environment variables for
    the program that watches. root: the folder of a captured machine to watch; None to watch this machine.
    """

    folder: Path
    within: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    root: Path | None = None


Scene = Callable[[Path], "contextlib.AbstractContextManager[Setting]"]


class Cause(NamedTuple):
    """A cause of lost time, with its trainer and the right class.

    label: the right class. scene: makes the trouble in the run's folder. options: the options of the trainer. gpu:
    whether the trainer appears on the C NVML library. gpus: the number of GPUs. card: how their figures differ from
    those of the usual card. program: a script that is run as ``program FOLDER --log FILE [options] [--gpu CONF]``; None
    for a cause without a trainer. torch: whether the trainer needs a Python with torch; without one the cause is
    skipped.

    negative: whether nothing is wrong, so that any alarm is false. also: further classes that do not count as false
    alarms. window_s: the seconds that the verdict may take. seconds: the shortest time to watch. background: whether
    one of the repeats runs beside a busy core. draw: returns the cause with other parameters. setting: these parameters
    as text. captured: whether the cause is made from a captured tree. why_not: returns why this machine cannot make the
    cause; "" when it can.
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
        """Return the command line of the trainer; [] without a trainer."""
        if self.program is None:
            return []
        gpu = [] if conf is None else ["--gpu", str(conf)]
        python = torch_python() if self.torch else sys.executable
        return [
            *setting.within, python, str(self.program), str(setting.folder), "--log", str(log), *self.options, *gpu
        ]  # fmt: skip

    def drawn(self, rng: random.Random) -> Cause:
        """Return the cause with random parameters; the cause itself if it has no ``draw``."""
        return self if self.draw is None else self.draw(self, rng)


def with_options(cause: Cause, *options: object, setting: str = "") -> Cause:
    """Return the cause with more options. Of two equal options, the last one applies. setting: the options as text."""
    words = tuple(str(option) for option in options)
    return cause._replace(options=(*cause.options, *words), setting=setting or " ".join(words))
