"""The pages: names in docs/architecture.md exist, commands are accepted, and every recorded field is described."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from iotop_ai.cli.main import build_parser, expand_stream, join_times
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Snapshot

TOP = Path(__file__).resolve().parent.parent
PACKAGE = TOP / "iotop_ai"
PAGE = (TOP / "docs" / "architecture.md").read_text()
LAYERS = {path.stem for path in PACKAGE.iterdir() if not path.stem.startswith("_")}
NAMES = sorted({name for name in re.findall(r"`([a-z]\w*(?:\.\w+)+)(?:\(\))?`", PAGE) if name.split(".")[0] in LAYERS})
PATHS = sorted(
    {
        path
        for path in re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", PAGE)
        if path.split("/")[0] in LAYERS | {"tests", "iotop_ai"}
    }
)


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """The classes, functions and variables of a module or class, by name."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.Assign):
            found.update({target.id: node for target in node.targets if isinstance(target, ast.Name)})
    return found


def exists(name: str) -> bool:
    """Whether ``layer.folder.module.Class.function`` exists; the name may also end at a module or a folder."""
    path, parts = PACKAGE, name.split(".")
    while parts and (path / parts[0]).is_dir():
        path /= parts.pop(0)
    if parts and (path / f"{parts[0]}.py").exists():
        path /= f"{parts.pop(0)}.py"
    else:
        path /= "__init__.py"
    if not path.exists():
        return False
    body = ast.parse(path.read_text()).body
    for part in parts:
        node = defined(body).get(part)
        if node is None:
            return False
        body = node.body if isinstance(node, ast.ClassDef) else []
    return True


def test_a_name_without_a_definition_is_noticed() -> None:
    assert exists("model.sample.between")
    assert exists("model.sample")
    assert exists("diagnosis.rules.RULES")
    assert not exists("model.sample.betwixt")
    assert not exists("model.sampling.between")
    assert not exists("model.sample.Sample.between")


def test_the_architecture_page_names_functions_and_paths() -> None:
    assert len(NAMES) > 40
    assert len(PATHS) > 15


@pytest.mark.parametrize("name", NAMES)
def test_each_name_on_the_page_exists(name: str) -> None:
    assert exists(name)


@pytest.mark.parametrize("path", PATHS)
def test_each_path_on_the_page_exists(path: str) -> None:
    assert (TOP / path).exists() or (PACKAGE / path).exists()


def test_the_page_about_the_format_names_each_field_of_a_snapshot() -> None:
    """A new field of model/snapshot.py has to be named in docs/recording-format.md, in the list of Readings."""
    page = (TOP / "docs" / "recording-format.md").read_text()
    readings = [name for name, default in Snapshot._field_defaults.items() if isinstance(default, Reading)]
    assert [name for name in readings if f"`{name}`" not in page] == []


def commands(page: Path) -> list[str]:
    """The arguments of each ``iotop-ai`` in the shell blocks of a page, without comments, pipes and redirections."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            plain = re.sub(r"\s#\s.*", "", line)
            found += re.findall(r"(?:^|[|;&(]\s*|ssh box )iotop-ai\b((?:\"[^\"]*\"|[^|;&>)\"])*)", plain.strip())
    return found


PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md"))]
COMMANDS = sorted({arguments.strip() for page in PAGES for arguments in commands(page)})


def test_the_pages_contain_commands() -> None:
    assert len(COMMANDS) > 30


@pytest.mark.parametrize("arguments", COMMANDS)
def test_each_command_on_the_pages_is_accepted(arguments: str) -> None:
    argv = shlex.split(arguments)
    assert build_parser(argv).parse_args(join_times(expand_stream(argv)))
