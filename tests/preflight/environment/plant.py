"""Environments that each have one fault, made of real files: a venv, the metadata of packages, a folder of torch."""

from __future__ import annotations

import json
import venv
from collections.abc import Sequence
from pathlib import Path

TORCH = '__version__ = "{version}"\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = None\n'


def make_venv(folder: Path) -> Path:
    """Create an empty virtual environment, and return the path of its Python."""
    venv.create(folder, symlinks=True)
    return folder / "bin/python"


def site(python: Path) -> Path:
    """The site-packages folder of a virtual environment."""
    return next((python.parent.parent / "lib").glob("python*/site-packages"))


def package(
    folder: Path,
    name: str,
    version: str,
    *,
    installer: str = "pip",
    requires: Sequence[str] = (),
    tag: str = "py3-none-any",
) -> None:
    """Write the metadata that pip leaves when it installs a wheel."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}\n")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: bdist_wheel\nRoot-Is-Purelib: true\nTag: {tag}\n")
    (info / "INSTALLER").write_text(f"{installer}\n")
    (info / "RECORD").write_text("")


def torch(folder: Path, version: str = "2.5.1", cuda: str = "", *, recorded: str = "") -> None:
    """Write a torch folder with version.py, and the metadata. recorded: the version in the metadata, if it differs."""
    place = folder / "torch"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("raise ImportError('doctor imports no framework')\n")
    (place / "version.py").write_text(TORCH.format(version=version, cuda=repr(cuda) if cuda else "None"))
    package(folder, "torch", recorded or version)


def conda(folder: Path, *packages: tuple[str, str, str]) -> None:
    """Write conda-meta for packages given as (name, version, channel)."""
    meta = folder / "conda-meta"
    meta.mkdir(exist_ok=True)
    for name, version, channel in packages:
        entry = {"name": name, "version": version, "channel": f"https://conda.anaconda.org/{channel}/linux-64"}
        (meta / f"{name}-{version}-0.json").write_text(json.dumps(entry))
