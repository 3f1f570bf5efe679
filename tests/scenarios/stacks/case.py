"""A case: the trainer of a stack, the place of its data, and the right verdict."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.scenarios.stacks.install import folder, python_of
from tests.scenarios.stacks.places import Place, own_disk

HERE = Path(__file__).parent
FINE = ("healthy", "gpu_bound")
"""The classes of a job that loses no significant time."""


class Cause(NamedTuple):
    """The reason why a job loses time. label: the right class. also: classes that are acceptable.

    lost: the state in which it loses the time; "" for a healthy job. parts: the shares of the account that may be the
    largest lost one; the first of them is the right one. words: a class in ``also`` is right too if the verdict's text
    has these words; "" for none.
    """

    name: str
    label: str
    also: tuple[str, ...]
    lost: str
    parts: tuple[str, ...]
    words: str = ""


DISK = Cause("slow disk", "storage_read", ("small_random", "loader_serial"), "wait", ("data_disk",))
CPU = Cause("decode-bound CPU", "cpu_prep", ("single_thread",), "wait", ("data_cpu",))
ALONE = Cause("decode in main", "single_thread", ("cpu_prep",), "wait", ("data_cpu",))
NETWORK = Cause("slow object store", "object_stream", ("network_fs",), "wait", ("data_network",))
MIXED = Cause(
    "read and decode mixed", "storage_read", ("cpu_prep", "small_random", "loader_serial"), "wait",
    ("data_disk", "data_cpu"),
)  # fmt: skip
MIXED_CPU = MIXED._replace(
    label="cpu_prep", also=("storage_read", "single_thread"), parts=("data_cpu", "data_disk")
)  # fmt: skip
"""The same, if the loaders spend more time on decoding than on reading."""
HOST = Cause("launch-bound main", "host_bound", (), "host", ("host",))
RANK = Cause(
    "one slow rank of two", "imbalance", ("cpu_prep", "comm_wait"), "wait", ("data_cpu", "collective"),
    "rank 1 waits for data",
)  # fmt: skip
RESPAWN = Cause("workers restarted each epoch", "worker_respawn", (), "wait", ("data_cpu", "host"))
SAVE = Cause("synchronous checkpoint", "checkpoint_write", (), "save", ("checkpoint",))
HEALTHY = Cause("healthy", "gpu_bound", ("healthy",), "", ())


class Case(NamedTuple):
    """One case. stack: the stack whose environment it needs. script: the trainer's file in this folder.

    options: the options of the trainer. megabytes: the size of the data. ranks: the number of ranks; torchrun starts
    them if there is more than one.
    """

    stack: str
    script: str
    cause: Cause
    options: tuple[str, ...]
    place: Place = own_disk
    megabytes: int = 24
    ranks: int = 1

    def prepare(self, data: Path) -> list[str]:
        """Return the command that writes the data set."""
        words = ["prepare", str(data), "--megabytes", str(self.megabytes), *self.options]
        return [str(python_of(self.stack)), str(HERE / self.script), *words]

    def train(self, data: str, clock: Path, seconds: float) -> list[str]:
        """Return the command of the trainer."""
        words = [str(HERE / self.script), "train", data, "--clock", str(clock), "--seconds", str(seconds)]
        start = [str(python_of(self.stack))]
        if self.ranks > 1:
            torchrun = folder() / self.stack / "bin/torchrun"
            start = [str(torchrun), "--standalone", "--nproc-per-node", str(self.ranks)]
        return [*start, *words, *self.options]

    def clocks(self, clock: Path) -> list[Path]:
        """Return the file of each rank's state."""
        return [clock, *(clock.with_name(f"{clock.name}.{rank}") for rank in range(1, self.ranks))]
