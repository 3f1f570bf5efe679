"""Ray Data: images that its tasks read and decode (with --work 0 they are only read), iterated as torch batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import ray
from clock import Clock, options
from images import augment, write_folder

REPEATS = 20
"""The number of times that the files are read in an epoch if they are decoded (--work is not 0), so that no epoch ends
while it is watched."""


def main() -> None:
    a = options()
    if a.action == "prepare":
        write_folder(Path(a.data), a.megabytes)
        return
    ray.init(
        num_cpus=a.workers,
        include_dashboard=False,
        object_store_memory=400_000_000,
        _temp_dir=str(a.clock.parent / "ray"),
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    paths = sorted(str(path) for path in Path(a.data).glob("*/*.jpg"))

    def transform(row: dict[str, object]) -> dict[str, object]:
        return {"image": augment(row["bytes"], a.work)}

    files = paths if not a.work else paths * REPEATS
    images = ray.data.read_binary_files(files, override_num_blocks=len(files) // 16).map(transform)

    def epochs() -> Iterator[object]:
        while True:
            yield from images.iter_torch_batches(batch_size=a.batch, prefetch_batches=2)

    clock = Clock(a)
    for _batch in clock.batches(epochs()):
        clock.compute()


if __name__ == "__main__":
    main()
