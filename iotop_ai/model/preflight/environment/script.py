"""Facts about the processes that a training script or notebook starts, found in its source without running it."""

from __future__ import annotations

from typing import NamedTuple

FORK = "fork"


class ScriptFacts(NamedTuple):
    """The facts found in the source of a training script.

    error: why the source could not be read; only ``path`` is then known
    unguarded: the call that starts processes when the module is imported, outside ``if __name__ == "__main__"``; ""
        without one
    workers: whether the script uses a DataLoader with workers, or starts processes itself
    method: the start method that the script sets; "" if it sets none
    cuda: the call that uses CUDA within a Dataset; "" without one
    datasets: the names of the Dataset classes that it defines
    """

    path: str
    error: str = ""
    notebook: bool = False
    unguarded: str = ""
    workers: bool = False
    method: str = ""
    cuda: str = ""
    datasets: tuple[str, ...] = ()
