"""File formats: a torch DataLoader whose data set reads arrays, images or videos (HDF5, Zarr, LMDB, Parquet, MP4)."""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from clock import Clock, epochs, options
from images import augment, jpegs
from torch.utils.data import DataLoader, Dataset, IterableDataset

SHAPE = (224, 224, 3)
SAMPLE_BYTES = 224 * 224 * 3
FRAMES, FRAMES_OF_A_SAMPLE = 300, 8
ROWS_OF_A_GROUP = 64


def arrays(megabytes: int) -> Iterator[numpy.ndarray]:
    """Yield images as arrays whose lower half of bits is noise, so that they can be compressed to about a half."""
    for _ in range(megabytes * 1_000_000 // SAMPLE_BYTES):
        noise = numpy.frombuffer(os.urandom(SAMPLE_BYTES), dtype=numpy.uint8) & 0x0F
        yield noise.reshape(SHAPE)


def transform(image: numpy.ndarray, work: int) -> torch.Tensor:
    """Normalise and flip an image ``work`` times; if ``work`` is 0, return a corner of it."""
    if not work:
        return torch.from_numpy(image[:64, :64].copy())
    for _ in range(work):
        scaled = (image.astype(numpy.float32) / 255.0 - 0.45) / 0.225
        scaled = scaled[:, ::-1] if random.random() < 0.5 else scaled
    return torch.from_numpy(numpy.ascontiguousarray(scaled[:64, :64]))


class Samples(Dataset):
    """Samples in random order. Each worker opens the file with ``opened`` when it needs the first sample.

    opened: returns the number of samples, and a function that returns the sample of a number.
    """

    def __init__(self, opened: Callable[[], tuple[int, Callable[[int], torch.Tensor]]]) -> None:
        self.opened = opened
        self.file: tuple[int, Callable[[int], torch.Tensor]] | None = None

    def __len__(self) -> int:
        return 1 << 24

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.file is None:
            self.file = self.opened()
        count, sample = self.file
        return sample(index * 7919 % count)


class Rows(IterableDataset):
    """The rows of Parquet files, which threads of each worker read ahead."""

    def __init__(self, folder: Path, work: int) -> None:
        self.folder, self.work = folder, work

    def __iter__(self) -> Iterator[torch.Tensor]:
        import pyarrow.dataset

        worker = torch.utils.data.get_worker_info()
        paths = sorted(map(str, self.folder.glob("*.parquet")))[worker.id :: worker.num_workers]
        for batch in pyarrow.dataset.dataset(paths).to_batches(batch_size=ROWS_OF_A_GROUP):
            for image in batch.column("image"):
                yield torch.from_numpy(augment(image.as_py(), self.work).copy())


def write_hdf5(folder: Path, megabytes: int) -> None:
    import h5py

    images = numpy.stack(list(arrays(megabytes)))
    with h5py.File(folder / "set.h5", "w") as file:
        file.create_dataset("images", data=images, chunks=(1, *SHAPE))


def write_zarr(folder: Path, megabytes: int) -> None:
    import zarr

    images = numpy.stack(list(arrays(megabytes)))
    array = zarr.create_array(str(folder / "set.zarr"), shape=images.shape, chunks=(4, *SHAPE), dtype="uint8")
    array[:] = images


def write_lmdb(folder: Path, megabytes: int) -> None:
    import lmdb

    with lmdb.open(str(folder / "set.lmdb"), map_size=megabytes * 2_000_000) as file, file.begin(write=True) as entries:
        for number, image in enumerate(jpegs(megabytes)):
            entries.put(f"{number:08}".encode(), image)


def write_parquet(folder: Path, megabytes: int) -> None:
    import pyarrow
    import pyarrow.parquet

    images = list(jpegs(megabytes))
    for part in range(8):
        table = pyarrow.table({"image": images[part::8]})
        pyarrow.parquet.write_table(
            table, folder / f"{part}.parquet", row_group_size=ROWS_OF_A_GROUP, use_dictionary=False
        )


def write_video(folder: Path, megabytes: int) -> None:
    import av

    number, written = 0, 0
    while written < megabytes * 1_000_000:
        path = folder / f"{number:04}.mp4"
        with av.open(str(path), "w") as container:
            stream = container.add_stream("mpeg4", rate=30)
            stream.width, stream.height, stream.gop_size = 320, 240, 12
            for _ in range(FRAMES):
                coarse = numpy.frombuffer(os.urandom(30 * 40 * 3), dtype=numpy.uint8).reshape(30, 40, 3)
                frame = av.VideoFrame.from_ndarray(coarse.repeat(8, 0).repeat(8, 1), format="rgb24")
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
        number, written = number + 1, written + path.stat().st_size


def hdf5(folder: Path, work: int) -> tuple[int, Callable[[int], torch.Tensor]]:
    import h5py

    images = h5py.File(folder / "set.h5")["images"]
    return len(images), lambda index: transform(images[index], work)


def zarr_array(folder: Path, work: int) -> tuple[int, Callable[[int], torch.Tensor]]:
    import zarr

    images = zarr.open_array(str(folder / "set.zarr"), mode="r")
    return images.shape[0], lambda index: transform(images[index], work)


def lmdb_file(folder: Path, work: int) -> tuple[int, Callable[[int], torch.Tensor]]:
    import lmdb

    entries = lmdb.open(str(folder / "set.lmdb"), readonly=True, lock=False, readahead=False).begin()

    def sample(index: int) -> torch.Tensor:
        return torch.from_numpy(augment(bytes(entries.get(f"{index:08}".encode())), work).copy())

    return entries.stat()["entries"], sample


def videos(folder: Path, work: int) -> tuple[int, Callable[[int], torch.Tensor]]:
    import av

    paths = sorted(folder.glob("*.mp4"))

    def sample(index: int) -> torch.Tensor:
        with av.open(str(paths[index % len(paths)])) as container:
            stream = container.streams.video[0]
            container.seek(random.randrange(int(stream.duration * 0.8)), stream=stream)
            images = []
            for frame in container.decode(stream):
                images.append(frame.to_ndarray(format="rgb24"))
                if len(images) == FRAMES_OF_A_SAMPLE:
                    break
        return transform(images[0], work)

    return 1 << 20, sample


WRITERS: dict[str, Callable[[Path, int], None]] = {
    "hdf5": write_hdf5, "zarr": write_zarr, "lmdb": write_lmdb, "parquet": write_parquet, "video": write_video,
}  # fmt: skip
OPENERS: dict[str, Any] = {"hdf5": hdf5, "zarr": zarr_array, "lmdb": lmdb_file, "video": videos}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--format", choices=tuple(WRITERS), required=True)
    a = options(parser)
    folder = Path(a.data)
    if a.action == "prepare":
        WRITERS[a.format](folder, a.megabytes)
        return
    torch.set_num_threads(1)
    images = Rows(folder, a.work) if a.format == "parquet" else Samples(lambda: OPENERS[a.format](folder, a.work))
    loader = DataLoader(images, batch_size=a.batch, num_workers=a.workers)

    clock = Clock(a)
    for _images in clock.batches(epochs(loader)):
        clock.compute()


if __name__ == "__main__":
    main()
