"""Installs the stacks, an environment each: ``python -m tests.scenarios.stacks.install [--only NAME]``.

The environments lie in the folder that IOTOP_AI_STACKS names, by default ~/.cache/iotop-ai-stacks. They hold builds
for CPUs; where the package index has only torch for CUDA, --torch-index names one for CPUs.
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
    """An environment. packages: in groups, one call of pip each. borrows: the stack that it takes torch from.

    modules: what a trainer imports; imported once after the installation.
    """

    packages: tuple[tuple[str, ...], ...]
    modules: tuple[str, ...]
    borrows: str = ""


STACKS: dict[str, Stack] = {
    "torch": Stack((("torch==2.13.0", "torchdata==0.11.0", "numpy", "pillow", "requests"),), ("torch", "torchdata")),
    "tensorflow": Stack((("tensorflow-cpu==2.21.0", "pillow"),), ("tensorflow",)),
    "jax": Stack((("jax==0.10.0", "grain==0.2.18", "pillow"),), ("jax", "grain")),
    "huggingface": Stack((("datasets==5.2.0", "pillow"),), ("datasets", "torch"), "torch"),
    "webdataset": Stack((("webdataset==1.0.2", "pillow", "requests"),), ("webdataset", "torch"), "torch"),
    "objects": Stack(
        (("s3fs", "aiohttp", "fsspec", "pillow"), ("boto3",)), ("boto3", "s3fs", "aiohttp", "torch"), "torch"
    ),
    "ray": Stack((("ray[data]==2.60.0", "pillow", "pandas"),), ("ray.data", "torch"), "torch"),
}  # fmt: skip
"""By name, in the order of their value to the verdict."""


def folder() -> Path:
    """Where the environments lie."""
    return Path(os.environ.get(VARIABLE) or Path.home() / ".cache/iotop-ai-stacks")


def python_of(name: str) -> Path:
    """The interpreter of a stack, be it there or not."""
    return folder() / name / "bin/python"


def why_no_stack(name: str) -> str:
    """Why no trainer of the stack can run; "" when one can."""
    if (folder() / name / DONE).exists():
        return ""
    return f"needs the stack: python -m tests.scenarios.stacks.install --only {name}"


def _packages(name: str) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return folder() / name / "lib" / version / "site-packages"


def install(name: str, index: str = "") -> None:
    """Make the environment. Raises subprocess.CalledProcessError when pip fails or a module cannot be imported."""
    stack, python = STACKS[name], python_of(name)
    if stack.borrows and why_no_stack(stack.borrows):
        install(stack.borrows, index)
    if not python.exists():
        venv.create(folder() / name, with_pip=True, symlinks=True)
    if stack.borrows:
        (_packages(name) / f"{stack.borrows}.pth").write_text(f"{_packages(stack.borrows)}\n")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for group in stack.packages:
        subprocess.run([*pip, *(["--extra-index-url", index] if index else []), *group], check=True)
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
