"""The user's Python environment as its files describe it."""

from __future__ import annotations

import shlex
from typing import NamedTuple


class Package(NamedTuple):
    """An installed distribution.

    installer: pip, uv or conda; "" if unknown
    folder: the folder that contains its metadata
    tags: the tags of its wheel, such as "cp311-cp311-manylinux_2_17_x86_64"
    url: the source of a direct installation, as pip accepts it ("git+https://host/name.git@COMMIT")
    editable: whether ``url`` is a checkout from which the distribution is imported
    """

    name: str
    version: str
    installer: str = ""
    folder: str = ""
    tags: tuple[str, ...] = ()
    url: str = ""
    editable: bool = False


class CondaPackage(NamedTuple):
    """A package listed in conda-meta; ``channel`` is the name of its channel, such as "conda-forge"."""

    name: str
    version: str
    channel: str = ""


class Unmet(NamedTuple):
    """A requirement that is not met; ``found`` is the installed version, "" without one."""

    package: str
    requirement: str
    found: str = ""


class Torch(NamedTuple):
    """A torch folder on the path, described by its version.py.

    cuda, hip: the version of CUDA or HIP that it was built for; "" for none
    """

    folder: str
    version: str = ""
    cuda: str = ""
    hip: str = ""


class PythonFacts(NamedTuple):
    """A Python interpreter and its packages.

    error: why this interpreter could not be queried; only ``executable`` is then known
    packages: its distributions in the order of the path; of several with one name, the first is imported
    unmet: the requirements that are not met; None if unknown
    numpies: the folders that contain a numpy
    shadows: modules in the training script's folder that hide a standard module or an installed framework; as names if
        that is the current folder, else as paths
    locks: files whose mere existence is a lock, if older than ten minutes, as (program, path)
    libstdcxx: the libstdc++ of LD_LIBRARY_PATH and that of the system, as (folder, N), where GLIBCXX_3.4.N is the
        newest version
    held_locks: lock files that have an effect only while a process locks them, as (path, inode)
    start_method: the default start method of multiprocessing
    lost_kernels: Jupyter kernels whose program does not exist, as (name, program)
    managed: whether this Python is externally managed, so that pip refuses to change its packages (PEP 668)
    pip: whether pip is installed
    uv: whether uv made this virtual environment
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
    managed: bool = False
    pip: bool = True
    uv: bool = False

    @property
    def command(self) -> str:
        """The executable, quoted as a word of a shell command."""
        return shlex.quote(self.executable)

    @property
    def pip_install(self) -> str:
        """The beginning of a shell command that installs packages."""
        if self.managed:
            return f"{self.command} -m venv --system-site-packages .venv && .venv/bin/python -m pip install"
        return self._pip("install")

    @property
    def pip_uninstall(self) -> str:
        """The beginning of a shell command that removes packages from this Python: a new venv would not hide them."""
        return self._pip("uninstall") + " --break-system-packages" * self.managed

    def _pip(self, action: str) -> str:
        """The beginning of a shell command for this Python's packages. uv makes environments without pip."""
        if self.uv and not self.pip:
            return f"uv pip {action} --python {self.command}"
        pip = f"{self.command} -m pip {action}"
        return pip if self.pip else f"{self.command} -m ensurepip && {pip}"

    def imported_package(self, name: str) -> Package | None:
        """The distribution of this canonical name that is imported; None without one."""
        return next((package for package in self.packages if canonical(package.name) == name), None)

    @property
    def imported(self) -> tuple[Package, ...]:
        """The first distribution of each canonical name, sorted by that name."""
        by_name: dict[str, Package] = {}
        for package in self.packages:
            by_name.setdefault(canonical(package.name), package)
        return tuple(by_name[name] for name in sorted(by_name))


def canonical(name: str) -> str:
    """A distribution's name in the form in which the package index compares names: "Py_YAML" becomes "py-yaml"."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, such as (2, 4, 0) for "2.4.0+cu121"; () without a number."""
    out: list[int] = []
    for part in version.split("+", 1)[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        out.append(int(digits))
        if digits != part:
            break
    return tuple(out)
