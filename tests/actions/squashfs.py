"""A small squashfs, which is read-only by nature and supports neither fsync nor direct I/O."""

from __future__ import annotations

import base64
import lzma
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IMAGE = """
/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4D//ATRdADQcymryMHIagELFxTHtjGVApL/rYVboAXfW7B8wUJNtc6oOutyZOZ/Gv4xm
nWY/irj/rFJ8J61adQ9bSLfkf9rBSZIj1WYSmX1C2ZZQI/o2xE7LxaXlR/Sp+ac/eNdFW8Otb3X14WbJMexUaAn1fEKuaQNaor4+
68xWnVrMbiAx7pc55p5N0v58kFTv9DW3AOb2AVokhdQKDcuJEi/nTaeHW3XmsX9T7hcKvT68hVJnxR4Mp0AFhk3sxyNAMFhZMKtv
9Jszr7ueJy7gJ/dnFEGZYuUbjdtY94rPffMlO0vBGAsIfyLuWl9DEUJGEI3egO7AKmGyGt0i/5ETgktDkqgsnv3xc9wMLVIRY4mV
VKXbUEHlxGOeRxhbxUuINTuH/nhCor+pshW7Dx7mps1eK0ZYrQXUAJPEvlsSrL6FAAHQAoCAAQBoB9y+scRn+wIAAAAABFla
"""
"""The image, made by mksquashfs and compressed by xz. It holds 0.bin, 1.bin and 2.bin with FILE_BYTES each."""
FILE_BYTES = 4 << 20


def why_no_squashfs() -> str:
    """The reason why this machine cannot mount a squashfs; "" if it can."""
    if os.geteuid():
        return "needs root to mount"
    return "" if "squashfs" in Path("/proc/filesystems").read_text() else "needs squashfs in the kernel"


@contextmanager
def squashfs(folder: Path) -> Iterator[Path]:
    """Mount the image below the folder."""
    image, place = folder / "image", folder / "squashfs"
    image.write_bytes(lzma.decompress(base64.b64decode(IMAGE)))
    place.mkdir()
    subprocess.run(["mount", "-o", "loop,ro", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
