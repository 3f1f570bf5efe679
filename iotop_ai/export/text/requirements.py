"""A Python environment as requirements.txt or environment.yml."""

from __future__ import annotations

import re

from iotop_ai.model.preflight.environment.python import Package, PythonFacts, canonical, release
from iotop_ai.store.format.secrets import without_secrets

LEFT_OUT = ("pip", "setuptools", "wheel", "distribute")
"""Packages that ``pip freeze`` also leaves out; in Python 3.12 and later, it leaves out only pip."""
_VALID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
"""The names and versions that are written; others come from invalid metadata."""
_TORCH_BUILD = re.compile(r"\+((?:cu|rocm|cpu|xpu)[0-9.]*)$")
_FILE_URL = re.compile(r"(\w+\+)?file:")
_SSH = "ssh://git@"
"""The beginning of a URL with the login name of git servers, which is not a secret."""
_COMMIT = re.compile(r"(?<=@)[0-9a-f]{40,64}(#subdirectory=.*)?$")
_INDEX = "https://download.pytorch.org/whl/"


def requirements_text(facts: PythonFacts) -> str:
    """The packages that Python would import, one per name, with their versions, like ``pip freeze``.

    Options for torch's package indices come first.
    """
    packages = [package for package in facts.imported if canonical(package.name) not in LEFT_OUT and package.version]
    lines = [f"# {facts.implementation} {facts.version}, {facts.machine}"]
    return "\n".join([*lines, *_indices(packages), *map(_requirement, packages)]) + "\n"


def _indices(packages: list[Package]) -> list[str]:
    """Options for the package indices of torch's builds (+cu121, +cpu), which the general index does not have."""
    builds = sorted({match[1] for package in packages if (match := _TORCH_BUILD.search(package.version))})
    return [f"--extra-index-url {_INDEX}{build}" for build in builds]


def environment_text(facts: PythonFacts, name: str) -> str:
    """environment.yml: conda's packages and their channels; all other packages are listed below pip."""
    channels = []
    for package in facts.conda_packages:
        channel = package.channel.rsplit("/", 1)[-1] if "conda.anaconda.org" in package.channel else package.channel
        channel = "defaults" if channel.endswith(("pkgs/main", "pkgs/r")) else channel
        if _VALID.fullmatch(channel) and channel not in channels:
            channels.append(channel)
    conda = [
        package
        for package in facts.conda_packages
        if _VALID.fullmatch(package.name) and _VALID.fullmatch(package.version)
    ]
    names = {canonical(package.name) for package in conda}
    # A package that conda lists is not listed again if it is unknown how its imported copy was installed.
    pip = [
        package
        for package in facts.imported
        if canonical(package.name) not in LEFT_OUT and package.installer != "conda" and package.version
        and not (canonical(package.name) in names and not package.installer)
    ]  # fmt: skip
    python = ".".join(map(str, release(facts.version)))
    lines = [
        f"name: {name}",
        "channels:",
        *(f"  - {channel}" for channel in channels or ["conda-forge"]),
        "dependencies:",
    ]
    lines += (
        [f"  - {package.name}={package.version}" for package in conda] if conda else [f"  - python={python}", "  - pip"]
    )
    if pip:
        lines += ["  - pip:", *(f"      - {_quoted(line)}" for line in [*_indices(pip), *map(_requirement, pip)])]
    return "\n".join(lines) + "\n"


def _requirement(package: Package) -> str:
    """The line of a package.

    A package that no index has becomes a comment, so that the rest can be installed on another machine. The URL of a
    conda package is left out, because it is only the folder in which the package was built.
    """
    if not (_VALID.fullmatch(package.name) and _VALID.fullmatch(package.version)):
        return f"# {canonical(package.name)}: its metadata is not valid"
    url = "" if package.installer == "conda" else _url(package.url)
    if package.editable or _FILE_URL.match(url):
        return f"# {package.name}=={package.version} is installed from {url}"
    return f"{package.name} @ {url}" if url else f"{package.name}=={package.version}"


def _url(url: str) -> str:
    """The URL without secrets. A commit hash in the URL is kept, although it looks like a secret."""
    commit = _COMMIT.search(url) if "+" in url.partition(":")[0] else None
    end = commit.start() if commit else len(url)
    return _SSH.join(map(without_secrets, url[:end].split(_SSH))) + url[end:]


def _quoted(line: str) -> str:
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"' if line.startswith("#") or " " in line else line
