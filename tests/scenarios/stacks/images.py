"""JPEG images like those of a data set, and their augmentation, for the trainers of all stacks."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Iterator
from pathlib import Path

SIDE = 448
KINDS = 16


def jpegs(megabytes: int) -> Iterator[bytes]:
    """Yield images of about 150 kB each, ``megabytes`` MB in all."""
    from PIL import Image

    kinds = []
    for _ in range(KINDS):
        coarse = Image.frombytes("RGB", (SIDE // 3, SIDE // 3), os.urandom(3 * (SIDE // 3) ** 2))
        out = io.BytesIO()
        coarse.resize((SIDE, SIDE)).save(out, "JPEG", quality=95)
        kinds.append(out.getvalue())
    left = megabytes * 1_000_000
    while left > 0:
        one = random.choice(kinds)
        left -= len(one)
        yield one


def write_folder(folder: Path, megabytes: int) -> None:
    """Write images as FOLDER/CLASS/NUMBER.jpg, the usual layout of image folders."""
    for number, image in enumerate(jpegs(megabytes)):
        target = folder / f"class{number % 10}" / f"{number:05}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(image)


def augment(image: bytes, work: int) -> object:
    """Decode, crop and flip an image ``work`` times, and return the last result as an array of 224 x 224 x 3.

    If ``work`` is 0, the array holds the first 12,288 bytes of the image as they are.
    """
    import numpy
    from PIL import Image, ImageOps

    if not work:
        return numpy.frombuffer(image[: 3 * 64 * 64], dtype=numpy.uint8)
    for _ in range(work):
        with Image.open(io.BytesIO(image)) as opened:
            left, top = random.randrange(SIDE // 4), random.randrange(SIDE // 4)
            box = (left, top, left + SIDE * 3 // 4, top + SIDE * 3 // 4)
            small = opened.convert("RGB").resize((224, 224), box=box)
        if random.random() < 0.5:
            small = ImageOps.mirror(small)
    return numpy.asarray(small)
