"""Decodes images in the user's Python (3.8 or newer) with Pillow, if that Python has it.

Run it as ``python -c SOURCE``. Standard input holds, for each file, its length (4 bytes, big-endian) and its bytes.
The last line of standard output is a JSON object.
"""

from __future__ import annotations

import io
import json
import struct
import sys
import time

FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""A file is decoded only if its content has one of these formats: for PostScript, Pillow would run Ghostscript."""


def main() -> None:
    """Read the files, decode them, and write the result."""
    decoder, why, files, failed, cpu_s = "", "", 0, 0, 0.0
    try:
        import PIL
        from PIL import Image

        decoder = "Pillow " + PIL.__version__
    except Exception as error:  # an installation may raise any error
        why = "Pillow does not load in this Python: " + str(error)
    source = sys.stdin.buffer
    while True:
        head = source.read(4)
        if len(head) < 4:
            break
        raw = source.read(struct.unpack(">I", head)[0])
        if not decoder:
            continue
        start = time.process_time()
        try:
            image = Image.open(io.BytesIO(raw))  # reads only the header
            if image.format not in FORMATS:
                raise ValueError(image.format)
            image.convert("RGB").load()
            files += 1
            cpu_s += time.process_time() - start
        except Exception:
            failed += 1
    answer = {"decoder": decoder, "files": files, "failed": failed, "cpu_s": cpu_s, "why": why}
    sys.stdout.write("\n" + json.dumps(answer))  # a sitecustomize may have printed an incomplete line


if __name__ == "__main__":
    main()
