"""NVIDIA DALI: JPEG files that its C++ threads read and decode, on the CPU. Its reader maps the files into memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clock import Clock, options
from images import write_folder
from nvidia.dali import fn, pipeline_def, types


@pipeline_def(device_id=None)
def images_of(folder: str, work: int) -> object:
    jpegs, labels = fn.readers.file(file_root=folder, random_shuffle=True, initial_fill=64, name="files")
    if not work:
        return jpegs, labels
    images = fn.decoders.image(jpegs, device="cpu", output_type=types.RGB)
    for _ in range(work):
        images = fn.random_resized_crop(images, size=(224, 224), random_area=(0.5, 0.9))
        images = fn.flip(images, horizontal=fn.random.coin_flip())
    return fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW"), labels


def main() -> None:
    a = options()
    if a.action == "prepare":
        write_folder(Path(a.data), a.megabytes)
        return
    pipeline = images_of(a.data, a.work, batch_size=a.batch, num_threads=a.workers, prefetch_queue_depth=2)
    pipeline.build()

    def batches() -> Iterator[object]:
        while True:
            yield pipeline.run()

    clock = Clock(a)
    for _images, _labels in clock.batches(batches()):
        clock.compute()


if __name__ == "__main__":
    main()
