"""Describes the Python that runs this file (3.8 or newer) from the files of its environment; imports no framework.

Run it as ``python -c SOURCE FOLDER SCRIPT``, where FOLDER is the folder in which training starts, and SCRIPT the path
of the training script, "" if it is unknown. The last line that it writes to standard output is a JSON object.
"""

from __future__ import annotations

import os
import sys

STARTED = dict(sys.modules)
"""The modules that Python imports when it starts, before the script's folder is on the path."""
PATH = [place for place in sys.path if place]
"""The import path that the training script will have."""
STANDARD = os.path.dirname(os.__file__)
# The standard library comes first, because a user's file with the name of a module must be reported, not imported.
sys.path[:] = sorted(PATH, key=lambda place: not place.startswith(STANDARD) or "-packages" in place)

import contextlib  # noqa: E402
import glob  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import re  # noqa: E402
from typing import Any  # noqa: E402

MOST_ENTRIES = 5000
"""The largest number of distributions, and of files that match one pattern, that are described."""
LIBRARY = "libstdc++.so.6"
SYSTEM_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
FRAMEWORKS = ("torch", "numpy", "tensorflow", "jax", "transformers", "datasets", "PIL", "torchvision", "lightning")
"""The packages that a file in the training script's folder must not hide."""


def text_of(path: str, limit: int = 1 << 20) -> str:
    """Return the beginning of a text file; "" when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""


def url_of(direct: dict[str, Any]) -> str:
    """Return the URL of a direct_url.json in pip's form: "git+https://host/name.git@COMMIT#subdirectory=part"."""
    url, vcs, part = str(direct.get("url", "")), direct.get("vcs_info"), direct.get("subdirectory")
    if isinstance(vcs, dict) and vcs.get("commit_id"):
        url = f"{vcs.get('vcs')}+{url}@{vcs['commit_id']}"
    return f"{url}#subdirectory={part}" if part else url


def distributions() -> list[tuple[dict[str, Any], Any]]:
    """Return the description of every installed distribution, and its object, in the order of the import path."""
    from importlib.metadata import distributions as find

    entries: list[tuple[dict[str, Any], Any]] = []
    for distribution in find(path=PATH):
        try:
            name = distribution.metadata["Name"]
            if not name or len(entries) >= MOST_ENTRIES:
                continue
            wheel = distribution.read_text("WHEEL") or ""
            direct = json.loads(distribution.read_text("direct_url.json") or "{}")
            if not isinstance(direct, dict):
                direct = {}
            entry = {
                "name": name,
                "version": distribution.version or "",
                "installer": (distribution.read_text("INSTALLER") or "").strip(),
                "folder": str(distribution.locate_file("")),
                "tags": re.findall(r"^Tag: (\S+)", wheel, re.MULTILINE),
                "url": url_of(direct),
                "editable": bool((direct.get("dir_info") or {}).get("editable")),
            }
        except Exception:  # the metadata is damaged
            continue
        entries.append((entry, distribution))
    return entries


def requirement_class() -> Any:
    """Return the class Requirement of packaging, which is installed or bundled with pip; None without either."""
    from importlib import import_module

    wheels = glob.glob("/usr/share/python-wheels/pip-*.whl")
    with contextlib.suppress(Exception):
        bundled = os.path.dirname(import_module("ensurepip").__file__ or "")
        wheels += glob.glob(os.path.join(bundled, "_bundled", "pip-*.whl"))
    for place in ["", *wheels]:  # first without a wheel
        if place:
            sys.path.append(place)
        for module in ("packaging.requirements", "pip._vendor.packaging.requirements"):
            try:
                return import_module(module).Requirement
            except Exception:  # an installation may raise any error
                sys.modules.pop("pip", None)
    return None


def requirements_of(distribution: Any) -> list[str]:
    """Return the requirements of a distribution, as text; [] if its metadata is damaged."""
    try:
        return list(distribution.requires or ())
    except Exception:  # such as bytes that are not UTF-8
        return []


def unmet_requirements(entries: list[tuple[dict[str, Any], Any]]) -> list[list[str]] | None:
    """Return the unmet requirements, as ``pip check`` finds them; None if they cannot be determined.

    Each is [package, requirement, installed version or ""].
    """
    versions: dict[str, str] = {}
    first_on_path = []
    for entry, distribution in entries:
        name = re.sub(r"[-_.]+", "-", entry["name"]).lower()
        if name not in versions:
            versions[name] = entry["version"]
            first_on_path.append((entry, distribution))
    lines = [(entry["name"], line) for entry, distribution in first_on_path for line in requirements_of(distribution)]
    if not lines:  # the import of the class is slow, because Python may first have to compile it from pip's wheel
        return []
    parse_requirement = requirement_class()
    if parse_requirement is None:
        return None
    out = []
    for name, line in lines:
        try:
            need = parse_requirement(line)
            if need.marker is not None and not need.marker.evaluate({"extra": ""}):
                continue
            have = versions.get(re.sub(r"[-_.]+", "-", need.name).lower())
            if have is None or not need.specifier.contains(have, prereleases=True):
                out.append([name, need.name + str(need.specifier), have or ""])
        except Exception:  # the requirement or version is invalid
            continue
    return out


def torches() -> list[dict[str, str]]:
    """Return the folder of each torch on the import path, and the versions in its version.py; "" for a missing one."""
    out: list[dict[str, str]] = []
    for folder in module_folders("torch"):
        source = text_of(os.path.join(folder, "version.py"))
        entry = {"folder": folder}
        for key, name in (("version", "__version__"), ("cuda", "cuda"), ("hip", "hip")):
            match = re.search(r"^" + name + r"\s*(?::[^=\n]*)?=\s*['\"]([^'\"]+)['\"]", source, re.MULTILINE)
            entry[key] = match.group(1) if match else ""
        out.append(entry)
    return out


def module_folders(name: str) -> list[str]:
    """Return the folders of a package on the import path, each folder once."""
    out: list[str] = []
    for place in PATH:
        folder = os.path.join(place, name)
        real = os.path.realpath(folder)
        if os.path.isfile(os.path.join(folder, "__init__.py")) and real not in [os.path.realpath(path) for path in out]:
            out.append(folder)
    return out


def conda_packages() -> list[list[str]]:
    """Return the name, version and channel of each package that conda-meta lists."""
    out = []
    for path in sorted(glob.glob(os.path.join(glob.escape(sys.prefix), "conda-meta", "*.json")))[:MOST_ENTRIES]:
        try:
            package = json.loads(text_of(path, 1 << 24))
            channel = str(package.get("channel", "")).rstrip("/")
            channel = re.sub(r"/(linux-\w+|noarch)$", "", channel)
            out.append([str(package["name"]), str(package["version"]), channel.rsplit("://", 1)[-1]])
        except Exception:  # the entry is damaged
            continue
    return out


def can_be_hidden(name: str, folder: str) -> bool:
    """Whether a file in a folder can hide a standard module from a script there. folder: the folder's real path.

    A module that is compiled in or frozen cannot be hidden. A module that Python imports when it starts is hidden only
    if PYTHONPATH names the folder, because Python has then imported the file instead.
    """
    from importlib.machinery import FrozenImporter

    if name in STARTED:
        file = getattr(STARTED[name], "__file__", None)
        return file is not None and os.path.dirname(os.path.realpath(file)) == folder
    return name not in sys.builtin_module_names and FrozenImporter.find_spec(name) is None


def shadows(folder: str, script: str) -> list[str]:
    """Return the modules in the training script's folder that hide a standard module or an installed framework.

    Each is a path, or only a name if the script is unknown ("") or is in ``folder``, in which training starts.
    """
    import sysconfig
    from importlib.machinery import PathFinder

    start = os.path.realpath(folder)
    own = os.path.dirname(os.path.realpath(os.path.join(folder, script))) if script else start
    installed = [place for place in (*sysconfig.get_paths().values(), *PATH) if "-packages" in os.path.basename(place)]
    if own in map(os.path.realpath, [STANDARD, *installed]):
        return []
    # Python 3.10 and newer know the names of all standard modules.
    protected = {name for name in getattr(sys, "stdlib_module_names", ()) if can_be_hidden(name, own)}
    others = [place for place in PATH if os.path.realpath(place) != own]
    for name in FRAMEWORKS:
        spec = PathFinder.find_spec(name, others)
        if spec is not None and spec.origin:
            protected.add(name)
    try:
        names = sorted(os.listdir(own))
    except OSError:
        return []
    out = []
    for name in names:
        stem, ending = os.path.splitext(name)
        package = os.path.isfile(os.path.join(own, name, "__init__.py"))
        if (ending == ".py" and stem in protected) or (package and name in protected):
            out.append(name if own == start else os.path.join(own, name))
    return out


def cache_folder(*parts: str) -> str:
    """Return the path of a folder in the user's cache."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), *parts)


def locks() -> list[list[Any]]:
    """Return the program, path and mtime of lock files. A program that finds such a file waits until it is removed."""
    torch = glob.escape(os.environ.get("TORCH_EXTENSIONS_DIR") or cache_folder("torch_extensions"))
    plots = glob.escape(os.environ.get("MPLCONFIGDIR") or cache_folder("matplotlib"))
    prefix = glob.escape(sys.prefix)
    patterns = [("torch", os.path.join(torch, depth, "lock")) for depth in ("*", "*/*")]
    patterns.append(("matplotlib", os.path.join(plots, "*.matplotlib-lock")))
    patterns += [("conda", os.path.join(prefix, folder, ".conda_lock*")) for folder in ("", "pkgs")]
    out = []
    for program, pattern in patterns:
        for path in glob.glob(pattern)[:MOST_ENTRIES]:
            try:
                out.append([program, path, os.stat(path).st_mtime])
            except OSError:
                continue
    return sorted(out)


def held_locks() -> list[list[Any]]:
    """Return the path and inode of lock files that stay after use. They lock only while a process holds them."""
    home = os.environ.get("HF_HOME") or cache_folder("huggingface")
    patterns = [
        os.path.join(glob.escape(os.environ.get("HF_DATASETS_CACHE") or os.path.join(home, "datasets")), "*.lock"),
        os.path.join(glob.escape(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")), ".locks/*/*.lock"),
        os.path.join(glob.escape(sys.prefix), "pkgs/pkgs.lock"),
        os.path.join(glob.escape(cache_folder("pip")), "*/*.lock"),
        os.path.join(glob.escape(cache_folder("uv")), ".lock"),
    ]
    out = []
    for pattern in patterns:
        for path in glob.glob(pattern)[:MOST_ENTRIES]:
            try:
                out.append([os.path.realpath(path), os.stat(path).st_ino])
            except OSError:
                continue
    return out


def start_method() -> str:
    """Return the method by which multiprocessing starts processes by default: "fork", "spawn" or "forkserver"."""
    import multiprocessing

    return multiprocessing.get_context().get_start_method()


def lost_kernels() -> list[list[str]]:
    """Return the name and program of each Jupyter kernel whose program does not exist."""
    tops = [folder for folder in os.environ.get("JUPYTER_PATH", "").split(":") if folder]
    tops += [os.environ.get("JUPYTER_DATA_DIR") or os.path.expanduser("~/.local/share/jupyter")]
    tops += [os.path.join(sys.prefix, "share/jupyter")]
    out = []
    for top in tops:
        for path in sorted(glob.glob(os.path.join(glob.escape(top), "kernels/*/kernel.json")))[:MOST_ENTRIES]:
            try:
                program = str(json.loads(text_of(path))["argv"][0])
            except Exception:  # the file is damaged
                continue
            if os.path.isabs(program) and not os.path.exists(program):
                out.append([os.path.basename(os.path.dirname(path)), program])
    return out


def newest_symbol(path: str) -> int:
    """Return the N of the newest GLIBCXX_3.4.N that a C++ library has; -1 if it cannot be read or has none."""
    try:
        with open(path, "rb") as file:
            numbers = re.findall(rb"GLIBCXX_3\.4\.(\d{1,4})\b", file.read(1 << 26))
    except OSError:
        return -1
    return max([int(number) for number in numbers] or [-1])


def libstdcxx() -> list[list[Any]]:
    """Return the folder and newest N of the libstdc++ in LD_LIBRARY_PATH and of the system's; [] unless both exist."""
    user_folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/")]
    out: list[list[Any]] = []
    for folders in (user_folders, SYSTEM_FOLDERS):
        for folder in folders:
            newest = newest_symbol(os.path.join(folder, LIBRARY))
            if newest >= 0:
                out.append([folder, newest])
                break
    return out if len(out) == 2 else []


def main() -> None:
    """Write the facts to standard output as a JSON object in a line of its own."""
    folder, script = sys.argv[1:]
    entries = distributions()
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        libc = ""
    out = {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "libc": libc,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "conda": os.path.isdir(os.path.join(sys.prefix, "conda-meta")),
        "managed": sys.prefix == sys.base_prefix and os.path.isfile(os.path.join(STANDARD, "EXTERNALLY-MANAGED")),
        "packages": [entry for entry, _ in entries],
        "pip": any(entry["name"].lower() == "pip" for entry, _ in entries),
        "uv": re.search(r"^uv\s*=", text_of(os.path.join(sys.prefix, "pyvenv.cfg")), re.MULTILINE) is not None,
        "conda_packages": conda_packages(),
        "torches": torches(),
        "numpies": module_folders("numpy"),
        "shadows": shadows(folder, script),
        "locks": locks(),
        "held_locks": held_locks(),
        "start_method": start_method(),
        "lost_kernels": lost_kernels(),
        "libstdcxx": libstdcxx(),
        "unmet": unmet_requirements(entries),
    }
    sys.stdout.write("\n" + json.dumps(out))  # a sitecustomize may have printed an incomplete line


if __name__ == "__main__":
    main()
