"""Reads a training script or notebook and finds what its processes need, without running it."""

from __future__ import annotations

import ast
import json
import os
import re
import warnings
from collections.abc import Iterator

from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.environment.script import ScriptFacts

LARGEST = 4 << 20
STARTS = ("Process", "Pool", "ProcessPoolExecutor", "spawn", "start_processes")
"""Calls that start processes, by the last part of their name."""
METHODS = ("fork", "spawn", "forkserver")
_ITEMS = ("__getitem__", "__getitems__", "__iter__")
_MAGIC = re.compile(r"^\s*[%!?].*$", re.MULTILINE)


def read_script(path: str) -> ScriptFacts:
    """The facts of a .py or .ipynb file. Never raises: ``error`` has the reason."""

    def read() -> bytes:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(LARGEST + 1) or b""

    name = clean(path)
    try:
        raw = call_with_timeout(10 * HOME_TIMEOUT_S, path, read)
    except OSError as error:
        return ScriptFacts(name, clean(error.strerror or str(error)))
    if len(raw) > LARGEST:
        return ScriptFacts(name, "larger than 4 MiB")
    text = raw.decode("utf-8", "replace")
    notebook = path.endswith(".ipynb")
    try:
        return parse_script(cells_text(text) if notebook else text, name, notebook=notebook)
    except SyntaxError as error:
        return ScriptFacts(name, f"line {error.lineno or 1}: not Python {clean(error.msg)}".rstrip())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError):
        return ScriptFacts(name, "not a notebook" if notebook else "not Python")


def cells_text(text: str) -> str:
    """The code of a notebook's cells, without magics."""
    out = []
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            if not source.lstrip().startswith("%%"):
                out.append(_MAGIC.sub("", source))
    return "\n".join(out)


def parse_script(source: str, path: str, *, notebook: bool = False) -> ScriptFacts:
    """The facts of a source text. Raises SyntaxError, ValueError or RecursionError where it is not Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    found = _Module(tree)
    return ScriptFacts(
        path,
        notebook=notebook,
        unguarded=clean(found.unguarded()),
        workers=any(found.starts(call) for call in _calls(tree)),
        method=found.method(),
        cuda=clean(found.cuda()),
        datasets=tuple(clean(one.name) for one in found.datasets),
    )


class _Module:
    """A parsed module."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.functions = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
        self.datasets = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and _is_dataset(one)]
        self.numbers = {
            target.id: one.value.value
            for one in tree.body
            if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
            for target in one.targets
            if isinstance(target, ast.Name)
        }

    def starts(self, call: ast.Call) -> bool:
        """Whether a call starts processes, now or when it is iterated."""
        name = _last_name(call.func)
        if name in STARTS:
            return True
        if not name.endswith("DataLoader"):
            return False
        workers = next((one.value for one in call.keywords if one.arg == "num_workers"), None)
        if isinstance(workers, ast.Name):
            return self.numbers.get(workers.id, 1) != 0
        return workers is not None and not (isinstance(workers, ast.Constant) and not workers.value)

    def unguarded(self) -> str:
        """The first call that starts processes when a worker imports the module; "" without one."""
        for part in self.tree.body:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or _is_guard(part):
                continue
            for call in _calls(part):
                inside = self._started_by(call, set())
                if inside is not None:
                    return f"{_last_name(inside.func)}() in line {inside.lineno}"
        return ""

    def _started_by(self, call: ast.Call, seen: set[str]) -> ast.Call | None:
        """The call that starts processes: this one, or one in the module's function that it calls."""
        if self.starts(call):
            return call
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name not in self.functions or name in seen:
            return None
        seen.add(name)
        found = (self._started_by(one, seen) for one in _calls(self.functions[name]))
        return next((one for one in found if one is not None), None)

    def method(self) -> str:
        """The start method that the script sets, the last one; "" without one."""
        out = ""
        for call in _calls(self.tree):
            given = [one.value for one in call.keywords if one.arg == "multiprocessing_context"]
            if _last_name(call.func) in ("set_start_method", "get_context"):
                given += call.args[:1] + [one.value for one in call.keywords if one.arg == "method"]
            out = next((one.value for one in given if isinstance(one, ast.Constant) and one.value in METHODS), out)
        return out

    def cuda(self) -> str:
        """What in a Dataset uses CUDA, and so in each worker; "" nothing."""
        for dataset in self.datasets:
            for part in dataset.body:
                if isinstance(part, ast.FunctionDef) and part.name in _ITEMS:
                    found = next((call for call in _calls(part) if _uses_cuda(call)), None)
                    if found is not None:
                        return f"{dataset.name}.{part.name} uses CUDA in line {found.lineno}"
        return ""


def _calls(part: ast.AST) -> Iterator[ast.Call]:
    return (one for one in ast.walk(part) if isinstance(one, ast.Call))


def _last_name(part: ast.expr) -> str:
    return part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""


def _is_dataset(one: ast.ClassDef) -> bool:
    return any(_last_name(base).endswith("Dataset") for base in one.bases)


def _is_guard(part: ast.stmt) -> bool:
    """``if __name__ == "__main__":``, in either order."""
    if not (isinstance(part, ast.If) and isinstance(part.test, ast.Compare)):
        return False
    sides = (part.test.left, *part.test.comparators)
    names = {one.id for one in sides if isinstance(one, ast.Name)}
    return "__name__" in names and any(isinstance(one, ast.Constant) and one.value == "__main__" for one in sides)


def _uses_cuda(call: ast.Call) -> bool:
    name = _last_name(call.func)
    given = [*call.args, *(one.value for one in call.keywords if one.arg == "device")]
    to_device = name == "to" or any(one.arg == "device" for one in call.keywords)
    named = any(isinstance(one, ast.Constant) and str(one.value).startswith("cuda") for one in given)
    return name == "cuda" or (to_device and named)
