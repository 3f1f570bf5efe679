"""The settings of a training process's data loader, as the process reports them or as its command line shows them.

Source of the settings' names and meanings: torch/utils/data/dataloader.py, class DataLoader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern

MOST = 10**6
"""The largest number of workers or batches that a message may contain."""
_OPTION = pattern(
    r"(?:--?|\+{0,2})(?:[\w-]+\.)*"
    r"(?:(?:num[_-]|n[_-]?)?(?:train[_-])?(?:data[_-]?)?(?:loader[_-])?(?:num[_-])?workers|j)"
)
"""The names under which training scripts take the number of workers: --num-workers, --dataloader_num_workers,
--workers, -j (the ImageNet example of PyTorch), data.num_workers (Hydra)."""


class LoaderSettings(NamedTuple):
    """The settings of a DataLoader; None for a setting that is not reported.

    workers: num_workers. prefetch: prefetch_factor, the batches that each worker prepares ahead. pinned: pin_memory.
    persistent: persistent_workers.
    """

    workers: int | None = None
    prefetch: int | None = None
    pinned: bool | None = None
    persistent: bool | None = None


def settings_of(value: Any) -> LoaderSettings | None:
    """The settings in a message from another process; None without any valid one."""
    if not isinstance(value, Mapping):
        return None
    settings = LoaderSettings(
        _number(value.get("num_workers")),
        _number(value.get("prefetch_factor")),
        _flag(value.get("pin_memory")),
        _flag(value.get("persistent_workers")),
    )
    return None if settings == LoaderSettings() else settings


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def workers_option(cmdline: Sequence[str], workers: int) -> str:
    """The option of a command line that sets the number of workers, such as "--num-workers"; "" without one.

    workers: the number of workers that the process has. An option with another number sets something else, or is not
    obeyed, so it does not count.
    """
    for word, following in zip_longest(cmdline, cmdline[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        found = value if equals else following if name.startswith("-") else ""
        if found == str(workers) and _OPTION.fullmatch(name):
            return name
    return ""
