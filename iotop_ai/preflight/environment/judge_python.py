"""Checks of the user's Python, and of the variables that affect training.

Sources: https://docs.pytorch.org/docs/stable/cuda_environment_variables.html, https://numpy.org/doc/stable/numpy_2_0_migration_guide.html
(programs compiled for NumPy 1 do not run with NumPy 2).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence

from iotop_ai.model.clean import LONGEST, REPLACEMENT
from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts, release
from iotop_ai.preflight.environment.judge_packages import judge_packages, path_remedy
from iotop_ai.present.text.units import plural

OK, WARN, FAIL, UNKNOWN = State
SLOWING_VARIABLES = {
    "CUDA_LAUNCH_BLOCKING": "the CPU waits for each kernel, so CPU and GPU never work at the same time",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "each tensor allocation calls cudaMalloc, which waits for the GPU",
    "PYTHONDEVMODE": "Python's checks are on",
    "PYTHONTRACEMALLOC": "each allocation is traced",
    "TORCHDYNAMO_DISABLE": "torch.compile does nothing",
    "TORCH_COMPILE_DISABLE": "torch.compile does nothing",
    "NCCL_P2P_DISABLE": "GPUs exchange gradients through the CPU's memory",
    "NCCL_SHM_DISABLE": "GPUs of one machine exchange gradients through the network",
    "MALLOC_CHECK_": "each allocation is checked",
    "MALLOC_PERTURB_": "each allocation is overwritten",
    "PYTHONPROFILEIMPORTTIME": "each import is timed and printed",
}
"""Variables that slow training when they are set, each with the reason. The value 0 turns most of them off."""
ON_IF_NOT_EMPTY = ("PYTHONDEVMODE", "PYTHONPROFILEIMPORTTIME")
"""Any value except an empty string turns these variables on, even 0."""
ON_IF_SET = "PYTORCH_NO_CUDA_MEMORY_CACHING"
"""This variable takes effect as soon as it is set, even to an empty string."""
SLOWING_VALUES = {
    "TORCH_DISTRIBUTED_DEBUG": (("DETAIL",), "an additional collective checks each collective"),
    "NCCL_DEBUG": (("TRACE",), "each call is printed"),
    "PYTHONMALLOC": (("debug", "malloc", "malloc_debug", "pymalloc_debug"), "Python's own allocator is off"),
    "NVIDIA_TF32_OVERRIDE": (("0",), "TF32 is off: float32 products take several times as long"),
    "PYTORCH_JIT": (("0",), "TorchScript runs as plain Python"),
    "XLA_PYTHON_CLIENT_ALLOCATOR": (("platform",), "each array allocation calls cudaMalloc, which waits for the GPU"),
}
"""The values with which a variable slows training, and the reason."""
OLD_LOCKS = {
    "torch": "an old lock of an extension's build: the next build waits for it forever",
    "matplotlib": "an old lock of Matplotlib's list of fonts: each import waits for it",
    "conda": "an old lock of conda: each command waits for it",
}
"""The sentence about an old lock, by the program that waits for the lock."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
TOO_MANY_PER_CORE = 2
"""A library starts too many threads if it starts at least this many for each core that the cgroup's quota grants."""


def judge_python(facts: PythonFacts, host: HostFacts) -> list[Check]:
    """Return the checks of the interpreter, its packages, the variables and the threads."""
    if facts.error:
        remedy = "iotop-ai doctor --python /path/to/env/bin/python"
        return [Check("python", "interpreter", UNKNOWN, f"{facts.executable or 'python3'}: {facts.error}", remedy),
                *judge_variables(host), *judge_threads(host)]  # fmt: skip
    kind = "conda" if facts.conda else "venv" if facts.prefix != facts.base_prefix else "system"
    text = f"{facts.implementation} {facts.version} ({kind}), {facts.executable}"
    return [
        Check("python", "interpreter", OK, text),
        *judge_packages(facts),
        *_torch(facts),
        *_path_checks(facts),
        *judge_variables(host),
        *judge_threads(host),
    ]


def judge_variables(host: HostFacts) -> Iterator[Check]:
    """Yield checks of variables that were set for debugging and now slow training."""
    for name, effect in SLOWING_VARIABLES.items():
        value = host.variables.get(name, "")
        off = ("",) if name in ON_IF_NOT_EMPTY else ("", "0", "False", "false")
        if (name == ON_IF_SET and name in host.variables) or value not in off:
            yield Check("python", name, WARN, f"{value or 'set'}: {effect}", f"unset {name}")
    for name, (values, effect) in SLOWING_VALUES.items():
        value = host.variables.get(name, "")
        if value in values:
            yield Check("python", name, WARN, f"{value}: {effect}", f"unset {name}")
    if host.variables.get("PYTHONHOME"):
        text = f"{host.variables['PYTHONHOME']}: every Python takes its modules from there"
        yield Check("python", "PYTHONHOME", WARN, text, "unset PYTHONHOME")
    if host.variables.get("KMP_DUPLICATE_LIB_OK", "").lower() in ("true", "1"):
        text = "two OpenMP libraries may be loaded: results may be wrong, and too many threads may start"
        yield Check(
            "python", "KMP_DUPLICATE_LIB_OK", WARN, text, "install numpy and torch from one source, then unset it"
        )


def judge_threads(host: HostFacts) -> Iterator[Check]:
    """Yield checks of the threads that OpenMP, MKL and OpenBLAS start, against the cores that this process gets."""
    if host.cores is None:
        return
    granted_cores = host.cores if host.quota_cores is None else max(1, min(host.cores, int(host.quota_cores)))
    for name in THREADS:
        value = host.variables.get(name, "").split(",")[0]
        if value.isdecimal() and int(value) > granted_cores:
            text = f"{value} threads on {plural(granted_cores, 'core')}: they wait for each other"
            yield Check("python", name, WARN, text, f"export {name}={granted_cores}")
    if host.cores >= TOO_MANY_PER_CORE * granted_cores and not host.variables.get("OMP_NUM_THREADS"):
        text = f"OpenMP and MKL start {host.cores} threads, but the cgroup's quota is {host.quota_cores:g} cores"
        yield Check(
            "python", "threads", WARN, text, f"export OMP_NUM_THREADS={granted_cores} MKL_NUM_THREADS={granted_cores}"
        )


def _torch(facts: PythonFacts) -> Iterator[Check]:
    torches = facts.torches
    if not torches:
        yield Check("python", "torch", OK, "not installed")
        return
    first = torches[0]
    own = [torch for torch in torches if torch.folder.startswith(f"{facts.prefix}/")]
    # The torch of an environment hides the system's torch on purpose (venv --system-site-packages).
    if len(torches) > 1 and (facts.prefix == facts.base_prefix or own != [first]):
        others = "; ".join(f"{torch.version or '?'} in {torch.folder}" for torch in torches[1:])
        text = f"{len(torches)} on the path: {first.version or '?'} in {first.folder} hides {others}"
        remedy = f"{facts.pip_uninstall} torch" if first in own else path_remedy(first.folder)
        yield Check("python", "torch", FAIL, text, remedy)
        return
    recorded = facts.imported_package("torch") or facts.imported_package("pytorch")
    plain = first.version.split("+")[0]
    if recorded is not None and plain and recorded.version.split("+")[0] != plain:
        text = (
            f"its metadata names {recorded.version}, but its files belong to {first.version}: "
            "two installations are mixed"
        )
        remedy = f"{facts.pip_install} --force-reinstall {shlex.quote(f'torch=={plain}')}"
        yield Check("python", "torch", FAIL, text, remedy)
        return
    numpy = facts.imported_package("numpy")
    if numpy is not None and plain and release(plain)[:2] < (2, 3) and release(numpy.version)[:1] >= (2,):
        text = (
            f"torch {first.version} is compiled for NumPy 1, but NumPy {numpy.version} is installed: conversions fail"
        )
        yield Check("python", "torch", FAIL, text, f"{facts.pip_install} 'numpy<2'")
        return
    build = f"CUDA {first.cuda}" if first.cuda else f"ROCm {first.hip}" if first.hip else ""
    build = build or ("XPU" if "+xpu" in first.version else "CPU only")
    yield Check("python", "torch", OK, f"{first.version or 'version unknown'}, {build}")


def _path_checks(facts: PythonFacts) -> Iterator[Check]:
    """Yield checks of the libstdc++ in LD_LIBRARY_PATH, of the script's folder and of lock files."""
    if len(facts.libstdcxx) == 2:
        (folder, user_n), (_, system_n) = facts.libstdcxx
        if user_n < system_n:
            text = (
                f"LD_LIBRARY_PATH puts {folder} (up to GLIBCXX_3.4.{user_n}) before the system's (3.4.{system_n}): "
                "a newer package does not load"
            )
            yield Check("python", "libstdc++", WARN, text, "unset LD_LIBRARY_PATH")
    if facts.shadows:
        yield _shadows(facts.shadows)
    for program, path in facts.locks[:3]:
        folder, name = path.split("/")[-2:]
        label = folder if program == "torch" else name
        remedy = f"rm -r -- {shlex.quote(path)}" if _is_whole(path) else ""
        yield Check("python", f"lock {label}", WARN, OLD_LOCKS[program], remedy)


def _shadows(paths: Sequence[str]) -> Check:
    """Return the check of the modules in the script's folder that hide others."""
    first = paths[0]
    folder, name = os.path.split(first)
    names = ", ".join(map(os.path.basename, paths[:5]))
    hides = "hides the module of that name" if len(paths) == 1 else "hide the modules of these names"
    text = f"{names} in {folder or 'the current folder'} {hides}"
    remedy = f"mv {shlex.quote(first)} {shlex.quote(os.path.join(folder, f'my_{name}'))}" if _is_whole(first) else ""
    return Check("python", "script folder" if folder else "current folder", FAIL, text, remedy)


def _is_whole(path: str) -> bool:
    """Whether ``clean`` left this path as it is in the filesystem. A changed path would name another file."""
    return len(path) < LONGEST and REPLACEMENT not in path
