"""xarray over Zarr: dask's threads read and normalise the fields of a batch; a thread of main keeps one batch ahead."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import numpy
import torch
import xarray
from clock import Clock, options, shuffled

FIELD = (256, 256)


def write(folder: Path, megabytes: int) -> None:
    times = megabytes * 1_000_000 // (4 * FIELD[0] * FIELD[1])
    values = numpy.random.default_rng(1).standard_normal((times, *FIELD), dtype=numpy.float32)
    fields = xarray.Dataset({"t2m": (("time", "lat", "lon"), values)})
    fields.chunk({"time": 1}).to_zarr(folder / "set.zarr", zarr_format=2, consolidated=True)


def batches(folder: Path, size: int, work: int, workers: int) -> Iterator[torch.Tensor]:
    fields = xarray.open_zarr(folder / "set.zarr")["t2m"]

    def load(times: list[int]) -> torch.Tensor:
        batch = fields.isel(time=times)
        for _ in range(work):
            batch = (batch - batch.mean(("lat", "lon"))) / batch.std(("lat", "lon"))
        return torch.from_numpy(batch.values)

    with dask.config.set(scheduler="threads", num_workers=workers), ThreadPoolExecutor(1) as ahead:
        asked = None
        for times in shuffled(fields.sizes["time"], size):
            previous, asked = asked, ahead.submit(load, times)
            if previous is not None:
                yield previous.result()


def main() -> None:
    a = options()
    if a.action == "prepare":
        write(Path(a.data), a.megabytes)
        return
    torch.set_num_threads(1)
    clock = Clock(a)
    for _fields in clock.batches(batches(Path(a.data), a.batch, a.work, a.workers)):
        clock.compute()


if __name__ == "__main__":
    main()
