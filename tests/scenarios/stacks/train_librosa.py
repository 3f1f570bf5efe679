"""Sound: a torch DataLoader whose data set makes spectrograms of recordings (WAV, FLAC) with librosa."""

from __future__ import annotations

import argparse
import os
import random
from pathlib import Path

import librosa
import numpy
import soundfile
import torch
from clock import Clock, epochs, options
from torch.utils.data import DataLoader, Dataset

RATE, SECONDS = 44_100, 10
PART_S = 4.0
"""The seconds of a recording that become a sample."""


class Recordings(Dataset):
    """Recordings in random order. If ``work`` is 0, a sample is the sound itself, not its spectrogram."""

    def __init__(self, folder: Path, work: int) -> None:
        self.paths, self.work = sorted(str(path) for path in folder.glob("*.*")), work
        random.Random(1).shuffle(self.paths)

    def __len__(self) -> int:
        return 1 << 24

    def __getitem__(self, index: int) -> torch.Tensor:
        path = self.paths[index % len(self.paths)]
        if not self.work:
            sound, _ = librosa.load(path, sr=None)
            return torch.from_numpy(sound[: int(PART_S * RATE)])
        begin = random.uniform(0.0, SECONDS - PART_S)
        sound, rate = librosa.load(path, sr=16_000, offset=begin, duration=PART_S)
        for _ in range(self.work):
            power = librosa.feature.melspectrogram(y=sound, sr=rate, n_mels=80)
        return torch.from_numpy(librosa.power_to_db(power, ref=numpy.max))


def write(folder: Path, megabytes: int, form: str) -> None:
    """Write recordings of noise until they have this size."""
    number, written = 0, 0
    while written < megabytes * 1_000_000:
        noise = numpy.frombuffer(os.urandom(2 * RATE * SECONDS), dtype=numpy.int16) // 16
        path = folder / f"{number:05}.{form}"
        soundfile.write(path, noise, RATE)
        number, written = number + 1, written + path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--format", choices=("wav", "flac"), required=True)
    a = options(parser)
    if a.action == "prepare":
        write(Path(a.data), a.megabytes, a.format)
        return
    torch.set_num_threads(1)
    recordings = Recordings(Path(a.data), a.work)
    loader = DataLoader(recordings, batch_size=a.batch, num_workers=a.workers)
    clock = Clock(a)
    for _sounds in clock.batches(epochs(loader)):
        clock.compute()


if __name__ == "__main__":
    main()
