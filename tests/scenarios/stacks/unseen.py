"""Cases of stacks that no rule was made with. Their first run is the only one that tells how the rules generalise."""

from __future__ import annotations

from tests.scenarios.stacks.case import HEALTHY, Case
from tests.scenarios.stacks.cases import cpu, disk, healthy

DALI, SPDL = ("dali", "train_dali.py"), ("spdl", "train_spdl.py")
LITDATA, STREAMING = ("litdata", "train_litdata.py"), ("streaming", "train_streaming.py")
LIGHTNING, TRANSFORMERS = ("lightning", "train_lightning.py"), ("transformers", "train_transformers.py")
FORMATS = ("formats", "train_formats.py")
NANOGPT, NODES = ("nanogpt", "train_nanogpt.py"), ("nodes", "train_nodes.py")
TENSORSTORE, LIBROSA = ("tensorstore", "train_tensorstore.py"), ("librosa", "train_librosa.py")
BATCHES, MONAI = ("batchgenerators", "train_batchgenerators.py"), ("monai", "train_monai.py")
ALBUMENTATIONS = ("albumentations", "train_albumentations.py")
SHARDS = 320
"""The megabytes of a data set in shards: 20 shards, so that an epoch lasts longer than the calibration."""
UNSEEN: dict[str, Case] = {
    "DALI disk": disk(*DALI, "futex", 0.6),
    "DALI disk little": disk(*DALI, "sleep", 0.15),
    "DALI decode": cpu(*DALI, "spin", 0.4),
    "DALI healthy": healthy(*DALI, "futex", 0.8),
    "SPDL disk": disk(*SPDL, "poll", 0.5),
    "SPDL disk little": disk(*SPDL, "futex", 0.2),
    "SPDL decode": cpu(*SPDL, "futex", 0.35),
    "SPDL healthy": healthy(*SPDL, "sleep", 0.8),
    "LitData disk": disk(*LITDATA, "futex", 0.5),
    "LitData decode": cpu(*LITDATA, "poll", 0.3)._replace(megabytes=SHARDS),
    "LitData healthy": healthy(*LITDATA, "futex", 0.8)._replace(megabytes=SHARDS),
    "Streaming disk": disk(*STREAMING, "sleep", 0.4),
    "Streaming decode": cpu(*STREAMING, "futex", 0.25)._replace(megabytes=SHARDS),
    "Streaming healthy": healthy(*STREAMING, "poll", 0.8)._replace(megabytes=SHARDS),
    "Lightning disk": disk(*LIGHTNING, "futex", 0.4),
    "Lightning decode": cpu(*LIGHTNING, "spin", 0.25),
    "Lightning healthy": healthy(*LIGHTNING, "futex", 0.6),
    "Transformers disk": disk(*TRANSFORMERS, "sleep", 0.2),
    "Transformers decode": cpu(*TRANSFORMERS, "futex", 0.5),
    "Transformers healthy": healthy(*TRANSFORMERS, "poll", 0.8),
    "HDF5 disk": disk(*FORMATS, "futex", 0.5, "--format hdf5"),
    "Zarr disk": disk(*FORMATS, "poll", 0.3, "--format zarr"),
    "Zarr decode": cpu(*FORMATS, "futex", 0.4, "--format zarr --work 4"),
    "LMDB disk": disk(*FORMATS, "ioctl", 0.6, "--format lmdb"),
    "LMDB healthy": healthy(*FORMATS, "futex", 0.6, "--format lmdb"),
    "Parquet disk": disk(*FORMATS, "futex", 0.3, "--format parquet"),
    "Parquet decode": cpu(*FORMATS, "spin", 0.2, "--format parquet"),
    "video decode": cpu(*FORMATS, "futex", 0.5, "--format video"),
    "video healthy": healthy(*FORMATS, "sleep", 0.6, "--format video"),
    "nanoGPT memmap disk": disk(*NANOGPT, "futex", 0.35, "--serial --batch 2")._replace(megabytes=900),
    "nanoGPT memmap healthy": Case(*NANOGPT, HEALTHY, ("--kind", "ioctl", "--step", "0.12", "--serial")),
    "nodes processes disk": disk(*NODES, "poll", 0.5, "--method process"),
    "nodes processes decode": cpu(*NODES, "futex", 0.25, "--method process"),
    "nodes threads decode": cpu(*NODES, "sleep", 0.5, "--method thread"),
    "TensorStore disk": disk(*TENSORSTORE, "futex", 0.3),
    "TensorStore healthy": Case(*TENSORSTORE, HEALTHY, ("--kind", "poll", "--step", "0.05")),
    "librosa WAV disk": disk(*LIBROSA, "sleep", 0.45, "--format wav --batch 8"),
    "librosa FLAC decode": cpu(*LIBROSA, "ioctl", 0.3, "--format flac"),
    "librosa FLAC healthy": healthy(*LIBROSA, "futex", 0.8, "--format flac"),
    "batchgenerators disk": disk(*BATCHES, "ioctl", 0.4, "--ordered --batch 4"),
    "batchgenerators decode": cpu(*BATCHES, "futex", 0.5, "--batch 4"),
    "MONAI stored decode": cpu(*MONAI, "spin", 0.2, "--cache disk --batch 4"),
    "MONAI memory decode": cpu(*MONAI, "futex", 0.4, "--cache memory --batch 4"),
    "MONAI memory healthy": healthy(*MONAI, "sleep", 0.8, "--cache memory --batch 4"),
    "Albumentations decode": cpu(*ALBUMENTATIONS, "poll", 0.6),
}
