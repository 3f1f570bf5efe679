"""Checks of an environment's packages against each other and against the Python. Pure: takes facts, returns checks.

Sources: https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/ (manylinux_2_28 needs glibc
2.28), https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html (pip in conda).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.python import Package, PythonFacts, Unmet, canonical, release
from iotop_ai.present.text.units import plural

OK, WARN, FAIL, UNKNOWN = State
CORE = ("torch", "torchvision", "torchaudio", "numpy", "tensorflow", "jax", "jaxlib", "triton")
"""A fault in one of these packages stops training. A fault in another package may not matter."""
CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "numpy-base": "numpy"}
"""The names on PyPI of packages that have another name in conda, by that name."""
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
"""The version of glibc that each of the old tags needs."""
_MOST_NAMED = 3
"""The largest number of faults that a check names."""


def judge_packages(facts: PythonFacts) -> Iterator[Check]:
    """Yield checks of requirements, wheels, duplicates, and the use of pip in conda."""
    yield _requirements(facts)
    yield from _wheels(facts)
    yield from _duplicates(facts)
    yield from _cuda_families(facts)
    if facts.conda:
        yield from _conda(facts)


def _requirements(facts: PythonFacts) -> Check:
    if facts.unmet is None:
        text = "requirements were not compared: neither packaging nor pip is in this Python"
        module = "venv .venv" if facts.managed else "ensurepip"
        return Check("python", "requirements", UNKNOWN, text, f"{facts.command} -m {module}")
    if not facts.unmet:
        return Check("python", "requirements", OK, f"{plural(len(facts.imported), 'package')} without a conflict")
    unmet = sorted(facts.unmet, key=lambda requirement: not _is_core(requirement))
    words = [
        f"{requirement.package} needs {requirement.requirement}, {requirement.found or 'which is missing'}"
        + (" is installed" if requirement.found else "")
        for requirement in unmet
    ]
    more = f"; {len(unmet) - _MOST_NAMED} more" if len(unmet) > _MOST_NAMED else ""
    wanted = " ".join(shlex.quote(requirement.requirement) for requirement in unmet)
    state = FAIL if any(map(_is_core, unmet)) else WARN
    return Check("python", "requirements", state, "; ".join(words[:_MOST_NAMED]) + more,
                 f"{facts.pip_install} {wanted}")  # fmt: skip


def _is_core(requirement: Unmet) -> bool:
    return canonical(requirement.package) in CORE


def _wheels(facts: PythonFacts) -> Iterator[Check]:
    """Yield checks of packages that were built for another Python, machine or C library."""
    this_python = "cp" + "".join(map(str, release(facts.version)[:2]))
    libc = release(facts.libc.removeprefix("glibc ")) if facts.libc.startswith("glibc ") else ()
    wheels = [package for package in facts.imported if package.tags and facts.implementation == "CPython"]
    wrong = [(package, why) for package in wheels if (why := _tag_mismatch(package, this_python, facts.machine, libc))]
    if not wrong:
        return
    words = "; ".join(f"{package.name} is built for {why}" for package, why in wrong[:_MOST_NAMED])
    more = f"; {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    names = " ".join(shlex.quote(f"{package.name}=={package.version}") for package, _ in wrong)
    text = f"{words}{more}; this Python is {this_python} on {facts.machine}" + (f", {facts.libc}" if libc else "")
    yield Check("python", "wheels", FAIL, text, f"{facts.pip_install} --force-reinstall {names}")


def _tag_mismatch(package: Package, this_python: str, machine: str, libc: tuple[int, ...]) -> str:
    """Return the part of the wheel's first tag that this Python does not match, such as "cp310".

    Returns "" if this Python matches one of the tags, or if a tag is not of the usual form.
    """
    why = ""
    for tag in package.tags:
        parts = tag.split("-")
        if len(parts) != 3:
            return ""
        python, abi, platform = parts
        mismatch = _python_mismatch(python, abi, this_python) or _platform_mismatch(platform, machine, libc)
        if not mismatch:
            return ""
        why = why or mismatch
    return why


def _python_mismatch(python: str, abi: str, this_python: str) -> str:
    for tag in python.split("."):
        if not tag.startswith("cp") or tag == this_python or tag == "cp3":
            return ""
        # An extension with the stable ABI works with all later versions of Python.
        if "abi3" in abi and tag[2:3] == "3" and tag[3:].isdecimal() and int(tag[3:]) <= int(this_python[3:]):
            return ""
        if abi == "none":
            return ""
    return python


def _platform_mismatch(platform: str, machine: str, libc: tuple[int, ...]) -> str:
    if platform == "any" or not machine:
        return ""
    for tag in platform.split("."):
        if not tag.endswith(machine):
            continue
        libc_tag = tag.removesuffix("_" + machine)
        if libc_tag.startswith("musllinux_") and libc:  # ``libc`` is known only for glibc
            continue
        need = _LEGACY.get(libc_tag)
        if libc_tag.startswith("manylinux_"):
            numbers = libc_tag.removeprefix("manylinux_").split("_")
            need = tuple(map(int, numbers)) if len(numbers) == 2 and all(map(str.isdecimal, numbers)) else None  # type: ignore[assignment]
        if need is None or not libc or need <= libc[:2]:
            return ""
    return platform


def _duplicates(facts: PythonFacts) -> Iterator[Check]:
    """Yield checks for the metadata of two versions in one folder, and for two copies of numpy."""
    by_name_and_folder: dict[tuple[str, str], list[Package]] = {}
    for package in facts.packages:
        by_name_and_folder.setdefault((canonical(package.name), package.folder), []).append(package)
    for (name, folder), packages in by_name_and_folder.items():
        versions = sorted({package.version for package in packages})
        if len(versions) > 1:
            text = f"metadata of {' and '.join(versions)} in {folder}: an installation was interrupted"
            remedy = f"{facts.pip_install} --force-reinstall {shlex.quote(packages[0].name)}"
            yield Check("python", f"{name} twice", FAIL if name in CORE else WARN, text, remedy)
    # The numpy of an environment hides the system's numpy on purpose (venv --system-site-packages).
    if len(facts.numpies) > 1 and not (facts.prefix and facts.numpies[0].startswith(f"{facts.prefix}/")):
        text = f"numpy of {facts.numpies[0]} hides that of {', '.join(facts.numpies[1:])}"
        yield Check("python", "numpy", WARN, text, path_remedy(facts.numpies[0]))


def path_remedy(folder: str) -> str:
    """Return the command that removes a folder from the import path: the user's site-packages, or one in PYTHONPATH."""
    return "export PYTHONNOUSERSITE=1" if "/.local/lib/python" in folder else "unset PYTHONPATH"


def _cuda_families(facts: PythonFacts) -> Iterator[Check]:
    """Yield a check for CUDA libraries of two major versions, such as nvidia-cudnn-cu11 and nvidia-cudnn-cu12."""
    libraries: dict[str, list[str]] = {}
    for package in facts.imported:
        stem, mark, major = canonical(package.name).rpartition("-cu")
        if mark and stem.startswith("nvidia-") and major.isdecimal():
            libraries.setdefault(stem, []).append(major)
    several = {stem: majors for stem, majors in libraries.items() if len(majors) > 1}
    if several:
        stem, majors = next(iter(several.items()))
        text = f"{stem} is installed for CUDA {' and '.join(sorted(majors))}: the import order decides which loads"
        torch_major = facts.torches[0].cuda.partition(".")[0] if facts.torches else ""
        others = [
            shlex.quote(f"{stem}-cu{major}")
            for stem, majors in several.items()
            for major in majors
            if major != (torch_major if torch_major in majors else max(majors, key=int))
        ]
        yield Check("python", "CUDA libraries", WARN, text, f"{facts.pip_uninstall} {' '.join(others)}")


def _conda(facts: PythonFacts) -> Iterator[Check]:
    """Yield checks for packages that conda and pip both installed, and for mixed installers and channels."""
    by_conda = {CONDA_NAMES.get(package.name, canonical(package.name)): package for package in facts.conda_packages}
    by_pip = {canonical(package.name): package for package in facts.packages if package.installer in ("pip", "uv")}
    uninstall = facts.pip_uninstall
    both = sorted(by_conda.keys() & by_pip.keys(), key=lambda name: (name not in CORE, name))
    if both:
        words = [f"{name} {by_conda[name].version} by conda and {by_pip[name].version} by pip" for name in both]
        more = f"; {len(both) - _MOST_NAMED} more" if len(both) > _MOST_NAMED else ""
        state = FAIL if both[0] in CORE else WARN
        conda_names = " ".join(shlex.quote(by_conda[name].name) for name in both)
        remedy = f"{uninstall} {' '.join(map(shlex.quote, both))}; conda install --force-reinstall {conda_names}"
        yield Check("python", "conda and pip", state, "; ".join(words[:_MOST_NAMED]) + more, remedy)
    elif ("torch" in by_conda) != ("numpy" in by_conda) and {"torch", "numpy"} <= by_conda.keys() | by_pip.keys():
        from_conda, from_pip = ("torch", "numpy") if "torch" in by_conda else ("numpy", "torch")
        text = f"{from_conda} comes from conda, {from_pip} from pip: two OpenMP libraries in one process"
        yield Check(
            "python",
            "conda and pip",
            WARN,
            text,
            f"{uninstall} {from_pip}; conda install {'pytorch' if from_pip == 'torch' else from_pip}",
        )
    yield from _channels(facts)


def _channels(facts: PythonFacts) -> Iterator[Check]:
    """Yield a check for packages of conda-forge mixed with Anaconda's packages."""
    channels = [package.channel for package in facts.conda_packages if package.channel]
    forge_count = sum("conda-forge" in channel for channel in channels)
    defaults = [channel for channel in channels if channel.endswith(("pkgs/main", "pkgs/r", "defaults"))]
    if forge_count and defaults:
        counts = f"{plural(forge_count, 'package')} of conda-forge, {len(defaults)} of {min(defaults)}"
        text = f"{counts}: their libraries may be incompatible"
        remedy = "conda config --set channel_priority strict; create the environment again"
        yield Check("python", "conda channels", WARN, text, remedy)
