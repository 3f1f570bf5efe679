"""What a training script or notebook says about its processes, found without running it."""

from __future__ import annotations

from typing import NamedTuple

FORK = "fork"


class ScriptFacts(NamedTuple):
    """What the training script's source shows. error: why it could not be read; then only path is known.

    unguarded: what starts processes when the module is imported, outside ``if __name__ == "__main__"``; "" nothing.
    workers: a DataLoader with workers, or processes of its own, anywhere. method: the start method that it sets, "" for
    none. cuda: what uses CUDA within a Dataset, "" nothing. datasets: names of the Dataset classes that it defines.
    """

    path: str
    error: str = ""
    notebook: bool = False
    unguarded: str = ""
    workers: bool = False
    method: str = ""
    cuda: str = ""
    datasets: tuple[str, ...] = ()
