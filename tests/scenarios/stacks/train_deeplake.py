"""Deep Lake: a column of JPEG images that its threads of C++ read, through its data set for PyTorch."""

from __future__ import annotations

import deeplake
import torch
from clock import Clock, epochs, options
from images import augment, jpegs
from torch.utils.data import DataLoader


def main() -> None:
    a = options()
    place = f"file://{a.data}/set"
    if a.action == "prepare":
        written = deeplake.create(place)
        written.add_column("image", deeplake.types.Bytes())
        written.append({"image": list(jpegs(a.megabytes))})
        written.commit()
        return
    torch.set_num_threads(1)
    work = a.work

    def transform(row: dict[str, object]) -> torch.Tensor:
        return torch.from_numpy(augment(bytes(row["image"]), work).copy())

    images = deeplake.open_read_only(place).pytorch(transform)
    loader = DataLoader(images, batch_size=a.batch, num_workers=a.workers, shuffle=True)
    clock = Clock(a)
    for _images in clock.batches(epochs(loader)):
        clock.compute()


if __name__ == "__main__":
    main()
