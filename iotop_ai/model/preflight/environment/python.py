"""The user's Python environment as its files describe it."""

from __future__ import annotations

import shlex
from typing import NamedTuple


class Package(NamedTuple):
    """An installed distribution. installer: pip, uv, conda; "" unknown. folder: holds its metadata. url: the source of
    a direct installation, as pip takes it ("git+https://host/name.git@COMMIT"); editable where that is a checkout.
    tags: those of its wheel ("cp311-cp311-manylinux_2_17_x86_64").
    """

    name: str
    version: str
    installer: str = ""
    folder: str = ""
    tags: tuple[str, ...] = ()
    url: str = ""
    editable: bool = False


class CondaPackage(NamedTuple):
    """A package of conda-meta. channel: its name, "conda-forge"."""

    name: str
    version: str
    channel: str = ""


class Unmet(NamedTuple):
    """A requirement that is not met. found: the installed version, "" for none."""

    package: str
    requirement: str
    found: str = ""


class Torch(NamedTuple):
    """A torch folder on the path, from its version.py. cuda, hip: the versions it was built for, "" without."""

    folder: str
    version: str = ""
    cuda: str = ""
    hip: str = ""


class PythonFacts(NamedTuple):
    """A Python interpreter and its packages. error: why this Python could not be asked; then only executable is known.

    packages: in the order of the path, so the first of a name is the one that is imported. unmet None: unknown.
    numpies: folders with a numpy. shadows: files in the current folder that hide a module. locks: (program, path) of
    files whose existence is a lock, older than ten minutes. held_locks: (path, inode) of lock files that count only
    while a process holds them. start_method: multiprocessing's default. lost_kernels: (name, program) of Jupyter's
    kernels whose program does not exist. libstdcxx: the newest GLIBCXX of the library that
    LD_LIBRARY_PATH names and of the system's, as (folder, 3.4.N) pairs.
    """

    executable: str
    error: str = ""
    version: str = ""
    implementation: str = ""
    machine: str = ""
    libc: str = ""
    prefix: str = ""
    base_prefix: str = ""
    conda: bool = False
    packages: tuple[Package, ...] = ()
    conda_packages: tuple[CondaPackage, ...] = ()
    unmet: tuple[Unmet, ...] | None = None
    torches: tuple[Torch, ...] = ()
    numpies: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()
    locks: tuple[tuple[str, str], ...] = ()
    libstdcxx: tuple[tuple[str, int], ...] = ()
    held_locks: tuple[tuple[str, int], ...] = ()
    start_method: str = ""
    lost_kernels: tuple[tuple[str, str], ...] = ()

    @property
    def command(self) -> str:
        """The executable as a word of a shell."""
        return shlex.quote(self.executable)

    def first(self, name: str) -> Package | None:
        """The distribution of this name that is imported; None without one."""
        return next((one for one in self.packages if canonical(one.name) == name), None)

    @property
    def imported(self) -> tuple[Package, ...]:
        """The first distribution of each name, by name."""
        found: dict[str, Package] = {}
        for one in self.packages:
            found.setdefault(canonical(one.name), one)
        return tuple(found[name] for name in sorted(found))


def canonical(name: str) -> str:
    """A distribution's name as the index compares it: "Py_YAML" is "py-yaml"."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def release(version: str) -> tuple[int, ...]:
    """The leading numbers: (2, 4, 0) of "2.4.0+cu121"; () without any."""
    out: list[int] = []
    for part in version.split("+", 1)[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        out.append(int(digits))
        if digits != part:
            break
    return tuple(out)
