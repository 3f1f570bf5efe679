"""The shape of the package: no import cycles, limits of files, functions and folders, mirrored tests."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TOP = Path(__file__).parent.parent
PACKAGE = TOP / "iotop_ai"
FILES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = sorted({path.parent for path in FILES})

pytestmark = pytest.mark.xdist_group("structure")  # the tests share the parsed package, so one worker runs them all

FILES_IN_A_FOLDER = 20
LINES_IN_A_FILE = 500
LINES_IN_A_FUNCTION = 65
NOT_MIRRORED = {Path("bench"), Path("rigs"), Path("scenarios"), Path("tui/terminal")}
"""The folders in tests/ without a counterpart in the package: measurements, rigs, scenarios, real terminals."""

ONE_IMPORTER = {
    "pynvml": "collectors.gpu.nvml.library",
    "pySMART": "collectors.health.helper",
    "plotext": "export.text.charts",
    "psutil": "collectors.io.psutil_calls",
    "pyarrow": "export.tables.parquet",
    "apprise": "alerts.deliveries.service",
    "amdsmi": "collectors.gpu.amd",
    "jinja2": "tui.web.server",
}


def module(path: Path) -> str:
    return ".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in FILES}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node, including those in functions and classes. Expressions contain no statements."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, part, ()):
            yield child
            yield from statements(child)


def imports_of(source: ast.AST) -> set[str]:
    """The names that this source imports, on load, in a function, or for a type checker."""
    names: set[str] = set()
    for node in statements(source):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def cycles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected groups of two or more nodes."""
    reached = {node: reachable(graph, node) for node in graph}
    groups = {frozenset(other for other in reached[node] if node in reached[other]) for node in graph}
    return {group for group in groups if len(group) > 1}


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting.extend(new)
    return found


class Shape(NamedTuple):
    """The names that a module imports, and the name and the number of lines of each of its functions."""

    imports: set[str]
    functions: list[tuple[str, int]]


@cache
def shape(path: Path) -> Shape:
    source = ast.parse(path.read_text())
    functions = [node for node in statements(source) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return Shape(imports_of(source), [(one.name, (one.end_lineno or 0) - one.lineno + 1) for one in functions])


def imports() -> dict[str, set[str]]:
    """The names that each module imports, by the name of the module."""
    return {name: shape(path).imports for name, path in MODULES.items()}


def import_graph() -> dict[str, set[str]]:
    return {name: names & MODULES.keys() for name, names in imports().items()}


def test_an_import_cycle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert cycles(graph) == {frozenset({"b", "c"})}


def test_imports_in_functions_count() -> None:
    source = "import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    from c import d\n"
    assert imports_of(ast.parse(source)) == {"a", "b", "c", "c.d"}


def test_there_is_no_import_cycle() -> None:
    assert [sorted(cycle) for cycle in cycles(import_graph())] == []


def test_folders_have_few_files() -> None:
    counts = {str(folder.relative_to(TOP)): len(list(folder.glob("*.py"))) for folder in FOLDERS}
    assert {folder: count for folder, count in counts.items() if count > FILES_IN_A_FOLDER} == {}


@pytest.mark.parametrize("root", ["iotop_ai", "tests"])
def test_files_are_short(root: str) -> None:
    counts = {str(path.relative_to(TOP)): path.read_text().count("\n") for path in (TOP / root).rglob("*.py")}
    assert {path: count for path, count in counts.items() if count > LINES_IN_A_FILE} == {}


def test_functions_are_short() -> None:
    long = {}
    for path in FILES:
        for name, lines in shape(path).functions:
            if lines > LINES_IN_A_FUNCTION:
                long[f"{path.relative_to(TOP)}:{name}"] = lines
    assert long == {}, f"longer than {LINES_IN_A_FUNCTION} lines; move a part into a function of its own"


def test_each_folder_of_tests_mirrors_a_folder_of_the_package() -> None:
    tests = TOP / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    mirrors = {folder for folder in folders if not {folder, *folder.parents} & NOT_MIRRORED}
    assert {str(folder) for folder in mirrors if not (PACKAGE / folder).is_dir()} == set()


@pytest.mark.parametrize(("library", "importer"), ONE_IMPORTER.items())
def test_each_library_is_imported_in_one_place(library: str, importer: str) -> None:
    importers = [name for name, names in imports().items() if library in {other.split(".")[0] for other in names}]
    assert importers == [f"iotop_ai.{importer}"]


def test_layers_are_checked_without_an_exception() -> None:
    linter = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert [c["name"] for c in linter["contracts"] if c["type"] == "layers"] == ["Layers"]
    assert not [c["name"] for c in linter["contracts"] if c.get("ignore_imports")]
