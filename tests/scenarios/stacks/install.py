"""Installs the stacks, each into a separate environment: ``python -m tests.scenarios.stacks.install [--only NAME]``.

The environments are in the folder that IOTOP_AI_STACKS names, by default ~/.cache/iotop-ai-stacks. They hold builds for
CPUs. If the package index has only a torch for CUDA, --torch-index names an index with a torch for CPUs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

VARIABLE = "IOTOP_AI_STACKS"
DONE = "installed"


class Stack(NamedTuple):
    """An environment. packages: the packages that pip installs. borrows: the stack from which it takes torch.

    modules: the modules that a trainer imports. They are imported once after the installation.
    """

    packages: tuple[str, ...]
    modules: tuple[str, ...]
    borrows: str = ""


SHARED = ("numpy==2.4.6", "pillow==13.0.0", "requests==2.34.2")
STACKS: dict[str, Stack] = {
    "torch": Stack(("torch==2.13.0", "torchdata==0.11.0", *SHARED), ("torch", "torchdata")),
    "tensorflow": Stack(("tensorflow-cpu==2.21.0", "keras==3.15.1", *SHARED), ("tensorflow",)),
    "jax": Stack(("jax==0.10.0", "grain==0.2.18", *SHARED), ("jax", "grain")),
    "huggingface": Stack(("datasets==5.2.0", "aiohttp==3.14.5", *SHARED), ("datasets", "torch"), "torch"),
    "webdataset": Stack(("webdataset==1.0.2", *SHARED), ("webdataset", "torch"), "torch"),
    "objects": Stack(
        # The newest boto3 that aiobotocore allows is pinned, because the resolver takes minutes to find it.
        ("s3fs==2026.9.0", "aiobotocore==3.10.0", "boto3==1.43.117", "botocore==1.43.117", "aiohttp==3.14.5", *SHARED),
        ("boto3", "s3fs", "aiohttp", "torch"),
        "torch",
    ),
    "lightning": Stack(
        ("lightning==2.6.6", "tensorboard==2.21.0", "mlflow-skinny==3.17.2", "wandb==0.30.0"),
        ("lightning.pytorch", "tensorboard", "mlflow", "wandb"),
        "torch",
    ),
    "transformers": Stack(
        ("transformers==5.18.0", "accelerate==1.15.0", "tensorboard==2.21.0"), ("transformers", "accelerate"), "torch"
    ),
    "keras": Stack(("keras==3.15.1", "jax==0.10.0", *SHARED), ("torch", "jax"), "torch"),
    "notebook": Stack(
        ("nbclient==0.11.0", "ipykernel==7.4.0", "ipython==9.18.1"), ("nbclient", "ipykernel", "torch"), "torch"
    ),
    "frames": Stack(("pandas==3.1.1", "polars==2.1.0", "pyarrow==26.0.1"), ("pandas", "polars", "pyarrow")),
    "dali": Stack(("nvidia-dali-cuda120==2.4.0", *SHARED), ("nvidia.dali",)),
    "spdl": Stack(("spdl==0.8.0", *SHARED), ("spdl.pipeline",)),
    "litdata": Stack(("litdata==0.2.76", *SHARED), ("litdata", "torch"), "torch"),
    "streaming": Stack(("mosaicml-streaming==0.13.0", "pillow==13.0.0"), ("streaming", "torch"), "torch"),
    "formats": Stack(
        ("h5py==3.16.0", "zarr==3.1.6", "lmdb==3.0.0", "pyarrow==26.0.1", "av==18.1.0", *SHARED),
        ("h5py", "zarr", "lmdb", "pyarrow", "av", "torch"),
        "torch",
    ),
    "nanogpt": Stack(("numpy==2.4.6",), ("numpy", "torch"), "torch"),
    "nodes": Stack(("torchdata==0.11.0", *SHARED), ("torchdata.nodes", "torch"), "torch"),
    "tensorstore": Stack(("tensorstore==0.1.86", "numpy==2.4.6"), ("tensorstore", "torch"), "torch"),
    "librosa": Stack(("librosa==0.11.0", "soundfile==0.14.0"), ("librosa", "soundfile", "torch"), "torch"),
    "batchgenerators": Stack(("batchgenerators==0.25.5", "numpy==2.4.6"), ("batchgenerators", "torch"), "torch"),
    "monai": Stack(("monai==1.6.1", "nibabel==5.4.2", "numpy==2.4.6"), ("monai.data", "nibabel", "torch"), "torch"),
    "albumentations": Stack(("albumentations==2.0.8", *SHARED), ("albumentations", "cv2", "torch"), "torch"),
    "fastai": Stack(("fastai==2.8.12",), ("fastai.learner", "fastai.data.load"), "torch"),
    "ultralytics": Stack(("ultralytics==8.4.190",), ("ultralytics.data",), "torch"),
    "lance": Stack(("pylance==14.0.2", *SHARED), ("lance.torch.data", "torch"), "torch"),
    "deeplake": Stack(("deeplake==4.7.4", *SHARED), ("deeplake", "torch"), "torch"),
    "xarray": Stack(
        ("xarray==2026.9.0", "dask[array]==2026.8.0", "zarr==3.1.6", "numpy==2.4.6"),
        ("xarray", "dask", "torch"),
        "torch",
    ),
    "stores": Stack(
        ("s3torchconnector==1.5.0", "obstore==0.12.1", *SHARED), ("s3torchconnector", "obstore", "torch"), "torch"
    ),
    "tfjax": Stack(("jax==0.10.0", *SHARED), ("tensorflow", "jax"), "tensorflow"),
    "ray": Stack(("ray[data,train]==2.60.0", "pandas==3.1.1", *SHARED), ("ray.data", "ray.train", "torch"), "torch"),
}
"""The stacks by name, in the order of their importance for the verdict."""


def folder() -> Path:
    """Return the folder of the environments."""
    return Path(os.environ.get(VARIABLE) or Path.home() / ".cache/iotop-ai-stacks")


def python_of(name: str) -> Path:
    """Return the path of a stack's interpreter, whether it exists or not."""
    return folder() / name / "bin/python"


def why_no_stack(name: str) -> str:
    """Return why no trainer of the stack can run; "" when one can."""
    if (folder() / name / DONE).exists():
        return ""
    return f"needs the stack: python -m tests.scenarios.stacks.install --only {name}"


def _packages(name: str) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return folder() / name / "lib" / version / "site-packages"


def install(name: str, index: str = "") -> None:
    """Create the environment. Raises subprocess.CalledProcessError when pip fails or a module cannot be imported."""
    stack, python = STACKS[name], python_of(name)
    if stack.borrows and why_no_stack(stack.borrows):
        install(stack.borrows, index)
    if not python.exists():
        venv.create(folder() / name, with_pip=True, symlinks=True)
    if stack.borrows:
        (_packages(name) / f"{stack.borrows}.pth").write_text(f"{_packages(stack.borrows)}\n")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if stack.packages:
        subprocess.run([*pip, *(["--extra-index-url", index] if index else []), *stack.packages], check=True)
    loads = "; ".join(f"import {module}" for module in stack.modules)
    subprocess.run([str(python), "-c", loads], check=True)
    (folder() / name / DONE).touch()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=tuple(STACKS), help="may be repeated; default: all")
    parser.add_argument("--torch-index", default="", metavar="URL", help="a further package index, with torch for CPUs")
    a = parser.parse_args()
    for name in a.only or STACKS:
        if why_no_stack(name):
            print(f"installing {name} in {folder() / name}", flush=True)
            install(name, a.torch_index)
        print(f"{name}: ready", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
