"""Reads a training script or notebook without running it, and finds how it starts processes."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator

from iotop_ai.collectors.io.input_file import open_input
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.environment.script import ScriptFacts

LARGEST_BYTES = 4 << 20
STARTS = ("Process", "Pool", "ProcessPoolExecutor", "spawn", "start_processes")
"""The calls that start processes, by the last part of their name."""
MODULES = ("multiprocessing.", "torch.multiprocessing.", "concurrent.futures.", "multiprocess.")
"""The modules that have the calls in STARTS. psutil is not among them: its class Process starts no process."""
THREADS = "multiprocessing.dummy."
"""A module with the same calls, which start threads instead of processes."""
ITERATING_CALLS = ("iter", "list", "tuple", "fit", "validate", "test", "predict", "evaluate")
"""The calls that iterate over a loader that is passed to them."""
OTHER_CALLS = ("len", "range", "print", "type", "isinstance", "repr", "str", "id")
"""The calls that do not iterate over their arguments."""
METHODS = ("fork", "spawn", "forkserver")
MOST_MAGICS, LARGEST_CELL = 20, 64 << 10
"""A cell is parsed again after each magic in it that was replaced: at most MOST_MAGICS times, and never if the cell has
more than LARGEST_CELL characters.
"""
_ITEM_METHODS = ("__getitem__", "__getitems__", "__iter__")
_MAGIC = re.compile(r"\s*([%!?]|[\w*][\w\s.,*\[\]]*=\s*[%!]|[\w.*\[\]]+\?{1,2}\s*$)")
"""The beginning of a magic: ``%time``, ``!ls`` or ``?print``, ``files = !ls`` or ``here = %pwd``, or ``torch.nn?``."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def read_script(path: str) -> ScriptFacts:
    """Return the facts of a .py or .ipynb file. Never raises: ``error`` of the facts holds the reason for a failure."""

    def read() -> bytes:
        with open_input(path) as file:
            return file.read(LARGEST_BYTES + 1) or b""

    name = clean(path)
    try:
        raw = call_with_timeout(10 * HOME_TIMEOUT_S, path, read)
    except OSError as error:
        return ScriptFacts(name, clean(error.strerror or str(error)))
    if len(raw) > LARGEST_BYTES:
        return ScriptFacts(name, "larger than 4 MiB")
    text = raw.decode("utf-8-sig", "replace")
    notebook = path.endswith(".ipynb")
    try:
        return parse_script(cells_text(text) if notebook else text, name, notebook=notebook)
    except SyntaxError as error:
        return ScriptFacts(name, f"line {error.lineno or 1}: not Python: {clean(error.msg)}".rstrip(": "))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError):
        return ScriptFacts(name, "not a notebook" if notebook else "not Python")


def cells_text(text: str) -> str:
    """Return the code of the cells of a notebook, without magics such as %time or !pip. text: the notebook's JSON.

    A cell that begins with a cell magic, such as %%bash, is left out.
    """
    out = []
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            if not source.lstrip().startswith("%%"):
                out.append(_without_magics(source))
    return "\n".join(out)


def _without_magics(source: str) -> str:
    """Return the cell with ``pass`` in place of each magic.

    A line counts as a magic only if the cell with that line is not valid Python, because ``% (a, b)`` may continue an
    expression. In a cell that is very large or not valid for another reason, every line that looks like a magic counts.
    """
    lines = source.splitlines()
    for _ in range(MOST_MAGICS if len(source) <= LARGEST_CELL else 0):
        try:
            _parse("\n".join(lines))
        except SyntaxError as error:
            at = (error.lineno or 0) - 1
            if not (0 <= at < len(lines) and _MAGIC.match(lines[at])):
                break
            _blank_magic(lines, at)
        else:
            return "\n".join(lines)
    for at in range(len(lines)):
        if _MAGIC.match(lines[at]):
            _blank_magic(lines, at)
    return "\n".join(lines)


def _blank_magic(lines: list[str], at: int) -> None:
    """Replace a magic with ``pass``, and remove the lines that continue it."""
    indent, more = lines[at][: len(lines[at]) - len(lines[at].lstrip())], lines[at].endswith("\\")
    lines[at] = f"{indent}pass"
    while more and (at := at + 1) < len(lines):
        more, lines[at] = lines[at].endswith("\\"), ""


def _parse(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def parse_script(source: str, path: str, *, notebook: bool = False) -> ScriptFacts:
    """Return the facts of a source text. Raises SyntaxError, ValueError or RecursionError if it is not Python."""
    tree = _parse(source)
    module = _Module(tree)
    return ScriptFacts(
        path,
        notebook=notebook,
        unguarded=clean(module.unguarded_start()),
        workers=any(module.starts_processes(call) or module.makes_loader(call) for call in _calls(tree)),
        method=module.start_method(),
        cuda=clean(module.cuda_use()),
        datasets=tuple(clean(dataset.name) for dataset in module.datasets),
    )


class _Module:
    """A parsed module, and the data loaders that it makes."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self.datasets = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and _is_dataset(node)]
        # The constants of the module, some of which are numbers of workers.
        self.constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self.imports = dict(_imports(tree))
        self.loaders: dict[str, str] = {}
        """The class of the loader, by the name of a variable, a parameter, or a function that returns a loader."""
        for _ in range(2):  # a function may return the result of another function
            self._collect_loaders()

    def _collect_loaders(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and (
                loader := self._loader_made_by(node.value)
            ):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = (name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
                self.loaders |= {name.id: loader for name in names}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.functions:
                self._note_parameters(node, self.functions[node.func.id].args)
        for name, function in self.functions.items():
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and (
                    loader := self._loader_made_by(node.value) or self._loader_read_by(node.value)
                ):
                    self.loaders[name] = loader

    def _note_parameters(self, call: ast.Call, parameters: ast.arguments) -> None:
        """Add to ``loaders`` the parameters to which this call passes a loader."""
        names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
        passed = [
            *zip(names, call.args, strict=False),
            *((keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg),
        ]
        self.loaders |= {name: loader for name, value in passed if (loader := self._loader_read_by(value))}

    def _loader_made_by(self, part: ast.AST | None) -> str:
        """Return the class of the loader that an expression makes; "" without one."""
        calls = list(_calls(part)) if part is not None else []
        loaders = (
            _last_name(call.func) if self.makes_loader(call) else self._loader_from_function(call) for call in calls
        )
        return next(filter(None, loaders), "")

    def _loader_from_function(self, call: ast.Call) -> str:
        """Return the class of the loader that a called function of this module returns; "" without one."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        return self.loaders.get(name, "") if name in self.functions else ""

    def starts_processes(self, call: ast.Call) -> bool:
        """Whether a call starts processes, such as ``mp.Pool(4)``."""
        name = self._full_name(call.func)
        return name.rpartition(".")[2] in STARTS and name.startswith(MODULES) and not name.startswith(THREADS)

    def _full_name(self, part: ast.expr) -> str:
        """Return the full name of a call, such as "multiprocessing.Pool" for ``mp.Pool``.

        The imports give the full names. A call of ``get_context()`` stands for the module multiprocessing.
        """
        words: list[str] = []
        while isinstance(part, ast.Attribute):
            words.append(part.attr)
            part = part.value
        if _is_context(part):
            words.append("multiprocessing")
        elif isinstance(part, ast.Name):
            words.append(self.imports.get(part.id) or self.imports.get("*", "") + part.id)
        return ".".join(reversed(words))

    def makes_loader(self, call: ast.Call) -> bool:
        """Whether a call makes a loader that starts processes when it is iterated."""
        if not _last_name(call.func).endswith("DataLoader"):
            return False
        sixth = call.args[5] if len(call.args) > 5 else None
        workers = next((keyword.value for keyword in call.keywords if keyword.arg == "num_workers"), sixth)
        if isinstance(workers, ast.Name):
            return self.constants.get(workers.id, 1) != 0
        return workers is not None and not (isinstance(workers, ast.Constant) and not workers.value)

    def unguarded_start(self) -> str:
        """Return the first call or loop that starts processes when a worker imports the module; "" if none does."""
        return self._process_start_in(self.tree, set())

    def _process_start_in(self, part: ast.AST, visited: set[str]) -> str:
        """Return the call or loop that starts processes in this part, or in functions that it calls; "" if none."""
        for node in _nodes_run_by(part):
            iterated = [node.iter] if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) else []
            if isinstance(node, ast.Call):
                if self.starts_processes(node):
                    return f"{_last_name(node.func)}() on line {node.lineno}"
                iterated = _arguments(node) if _last_name(node.func) in ITERATING_CALLS else []
            for value in iterated:
                if loader := self._loader_read_by(value):
                    return f"iteration over {loader} on line {value.lineno}"
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if name in self.functions and name not in visited:
                visited.add(name)
                if inside := self._process_start_in(self.functions[name], visited):
                    return inside
        return ""

    def _loader_read_by(self, part: ast.expr | None) -> str:
        """Return the class of the loader that is read when an expression is iterated over; "" without a loader."""
        while isinstance(part, ast.Subscript | ast.Starred | ast.NamedExpr):
            part = part.value
        if isinstance(part, ast.Name):
            return "" if part.id in self.functions else self.loaders.get(part.id, "")
        if not isinstance(part, ast.Call) or _last_name(part.func) in OTHER_CALLS:
            return ""
        if self.makes_loader(part):
            return _last_name(part.func)
        return self._loader_from_function(part) or next(filter(None, map(self._loader_read_by, _arguments(part))), "")

    def start_method(self) -> str:
        """Return the start method that the script sets; of several, the most deeply nested one; "" without one."""
        out = ""
        for call in _calls(self.tree):
            values = [keyword.value for keyword in call.keywords if keyword.arg == "multiprocessing_context"]
            if _last_name(call.func) in ("set_start_method", "get_context"):
                values += call.args[:1] + [keyword.value for keyword in call.keywords if keyword.arg == "method"]
            names = (value.value for value in values if isinstance(value, ast.Constant))
            out = next((name for name in names if name in METHODS), out)
        return out

    def cuda_use(self) -> str:
        """Return the first use of CUDA in a Dataset, and so in a worker: "Images.__getitem__ uses CUDA on line 7".

        Returns "" if no Dataset uses CUDA.
        """
        for dataset in self.datasets:
            for part in dataset.body:
                if isinstance(part, ast.FunctionDef) and part.name in _ITEM_METHODS:
                    line = min((call.lineno for call in _calls(part) if _uses_cuda(call)), default=None)
                    if line is not None:
                        return f"{dataset.name}.{part.name} uses CUDA on line {line}"
        return ""


def _calls(part: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in this part, the more deeply nested ones later."""
    return (node for node in ast.walk(part) if isinstance(node, ast.Call))


def _last_name(part: ast.expr) -> str:
    return part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""


def _is_dataset(node: ast.ClassDef) -> bool:
    return any(_last_name(base).endswith("Dataset") for base in node.bases)


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each imported name and its full name, such as ("mp", "torch.multiprocessing").

    "*" stands for all names of a module. A variable that holds the result of ``get_context()`` stands for the module
    multiprocessing.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield (name.asname, name.name) if name.asname else (name.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                full_name = f"{node.module}.{name.name}"
                if name.name != "*":
                    yield name.asname or name.name, full_name
                elif full_name.startswith(MODULES):
                    yield "*", full_name.removesuffix("*")
        elif isinstance(node, ast.Assign) and _is_context(node.value):
            yield from ((name.id, "multiprocessing") for name in node.targets if isinstance(name, ast.Name))


def _is_context(part: ast.expr) -> bool:
    return isinstance(part, ast.Call) and _last_name(part.func) == "get_context"


def _nodes_run_by(part: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when ``part`` runs, in order, without the bodies of functions and main guards in it."""
    todo: list[ast.AST] = [part]
    while todo:
        node = todo.pop()
        yield node
        if node is not part and isinstance(node, _FUNCTIONS):
            continue
        guard = isinstance(node, ast.If) and _is_guard(node.test)
        todo += reversed(node.orelse if guard else list(ast.iter_child_nodes(node)))  # type: ignore[attr-defined]


def _is_guard(test: ast.expr) -> bool:
    """Whether a test is ``__name__ == "__main__"``, in either order, alone or joined by ``and``."""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and any(map(_is_guard, test.values))
    if not (isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)):
        return False
    sides = (test.left, *test.comparators)
    names = {side.id for side in sides if isinstance(side, ast.Name)}
    return "__name__" in names and any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)


def _uses_cuda(call: ast.Call) -> bool:
    name = _last_name(call.func)
    values = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "device")]
    to_device = name == "to" or any(keyword.arg == "device" for keyword in call.keywords)
    names_cuda = any(isinstance(value, ast.Constant) and str(value.value).startswith("cuda") for value in values)
    return name == "cuda" or (to_device and names_cuda)
