"""A Python environment as requirements.txt or environment.yml."""

from __future__ import annotations

import re

from iotop_ai.model.preflight.environment.python import Package, PythonFacts, canonical, release
from iotop_ai.store.format.secrets import without_secrets

LEFT_OUT = ("pip", "setuptools", "wheel", "distribute")
"""Packages that ``pip freeze`` also leaves out."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
_TORCH_BUILD = re.compile(r"\+((?:cu|rocm|cpu|xpu)[0-9.]*)$")
_FILE = re.compile(r"(\w+\+)?file:")
_SSH = "ssh://git@"
"""The login name of git servers, which is not a secret."""
_COMMIT = re.compile(r"(?<=@)[0-9a-f]{40,64}(#subdirectory=.*)?$")
_INDEX = "https://download.pytorch.org/whl/"


def requirements_text(facts: PythonFacts) -> str:
    """Each imported package with its version, like ``pip freeze``; options for torch's package indices come first."""
    packages = [one for one in facts.imported if canonical(one.name) not in LEFT_OUT and one.version]
    lines = [f"# {facts.implementation} {facts.version}, {facts.machine}"]
    return "\n".join([*lines, *_indices(packages), *map(_requirement, packages)]) + "\n"


def _indices(packages: list[Package]) -> list[str]:
    """Options for the package indices of torch's CUDA builds, which the general index does not have."""
    builds = sorted({match[1] for one in packages if (match := _TORCH_BUILD.search(one.version))})
    return [f"--extra-index-url {_INDEX}{build}" for build in builds]


def environment_text(facts: PythonFacts, name: str) -> str:
    """environment.yml: conda's packages and their channels; all other packages are listed below pip."""
    channels = []
    for one in facts.conda_packages:
        channel = one.channel.rsplit("/", 1)[-1] if "conda.anaconda.org" in one.channel else one.channel
        channel = "defaults" if channel.endswith(("pkgs/main", "pkgs/r")) else channel
        if _PLAIN.fullmatch(channel) and channel not in channels:
            channels.append(channel)
    conda = [one for one in facts.conda_packages if _PLAIN.fullmatch(one.name) and _PLAIN.fullmatch(one.version)]
    names = {canonical(one.name) for one in conda}
    pip = [
        one
        for one in facts.imported
        if canonical(one.name) not in LEFT_OUT and one.installer != "conda" and one.version
        and not (canonical(one.name) in names and not one.installer)
    ]  # fmt: skip
    python = ".".join(map(str, release(facts.version)))
    lines = [f"name: {name}", "channels:", *(f"  - {one}" for one in channels or ["conda-forge"]), "dependencies:"]
    lines += [f"  - {one.name}={one.version}" for one in conda] if conda else [f"  - python={python}", "  - pip"]
    if pip:
        lines += ["  - pip:", *(f"      - {_quoted(one)}" for one in [*_indices(pip), *map(_requirement, pip)])]
    return "\n".join(lines) + "\n"


def _requirement(one: Package) -> str:
    """The line of a package.

    A package that no index has becomes a comment, so that the rest can be installed on another machine.
    """
    if not (_PLAIN.fullmatch(one.name) and _PLAIN.fullmatch(one.version)):
        return f"# {canonical(one.name)}: its metadata is not valid"
    url = _url(one.url)
    if one.editable or _FILE.match(url):
        return f"# {one.name}=={one.version} is installed from {url}"
    return f"{one.name} @ {url}" if url else f"{one.name}=={one.version}"


def _url(url: str) -> str:
    """The URL without secrets. A commit hash in the URL is kept, although it looks like a secret."""
    commit = _COMMIT.search(url) if "+" in url.partition(":")[0] else None
    end = commit.start() if commit else len(url)
    return _SSH.join(map(without_secrets, url[:end].split(_SSH))) + url[end:]


def _quoted(line: str) -> str:
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"' if line.startswith("#") or " " in line else line
