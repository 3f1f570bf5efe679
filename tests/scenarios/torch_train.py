"""A real PyTorch training over files: ``python torch_train.py FOLDER [--until FILE] [--exit 3]``.

A DataLoader with worker processes reads a random piece of a random file for each sample and drops its pages again, as
if the data set were larger than the memory. The model is small, so a step takes as long as --step says. Each step
appends its wait for data to --log as a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

CHUNK = 128 * 1024


class Files(IterableDataset[torch.Tensor]):
    """Endless samples from the files of a folder."""

    def __init__(self, folder: Path, size: int) -> None:
        self.files = sorted(folder.glob("*.bin"))
        self.size = size

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        draw = torch.Generator().manual_seed(0 if info is None else info.id)
        while True:
            path = self.files[int(torch.randint(len(self.files), (1,), generator=draw))]
            with path.open("rb", buffering=0) as file:
                fd, most = file.fileno(), os.fstat(file.fileno()).st_size
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
                offset = int(torch.randint(most - self.size + 1, (1,), generator=draw)) // 4096 * 4096
                data = b"".join(os.pread(fd, CHUNK, offset + at) for at in range(0, self.size, CHUNK))
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            yield torch.frombuffer(bytearray(data), dtype=torch.uint8)[:3072].float() / 255


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=256 * 1024)
    parser.add_argument("--step", type=float, default=0.05)
    parser.add_argument("--seconds", type=float, default=30.0, help="train for at most this long")
    parser.add_argument("--until", type=Path, help="end when this file exists")
    parser.add_argument("--exit", type=int, default=0, help="the exit code")
    parser.add_argument("--log", type=Path)
    a = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(Files(a.folder, a.size), batch_size=a.batch, num_workers=a.workers)
    model = torch.nn.Sequential(torch.nn.Linear(3072, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    end, asked = time.monotonic() + a.seconds, time.monotonic()
    for batch in loader:
        got = time.monotonic()
        loss = model(batch).logsumexp(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(a.step)
        if a.log is not None:
            with a.log.open("a") as log:
                log.write(json.dumps({"at": time.time(), "wait": got - asked}) + "\n")
        if time.monotonic() > end or (a.until is not None and a.until.exists()):
            break
        asked = time.monotonic()
    return int(a.exit)


if __name__ == "__main__":
    raise SystemExit(main())
