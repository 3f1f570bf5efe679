"""The project's files agree with each other."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import iotop_ai
from iotop_ai.cli.subcommands import COMMANDS
from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from tests import metrics_doc
from tests.cli.program import TOP
from tests.run import DEBIAN_PACKAGES, requirements

PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())


def test_there_is_one_version() -> None:
    assert PROJECT["project"]["version"] == iotop_ai.__version__


def test_the_console_script_calls_main() -> None:
    (script,) = [point for point in entry_points(group="console_scripts") if point.name == "iotop-ai"]
    assert script.value == PROJECT["project"]["scripts"]["iotop-ai"] == "iotop_ai.cli.main:main"
    assert callable(script.load())


def test_every_dependency_has_its_reason() -> None:
    words = (TOP / "docs" / "dependencies.md").read_text()
    for line in requirements():
        assert re.split(r"[<>=!~\[ ]", line)[0] in words, line
    for package in DEBIAN_PACKAGES:
        assert package in words, package


def test_every_dependency_is_imported() -> None:
    module = {"nvidia-ml-py": "pynvml"}
    imported: Counter[str] = Counter()
    for path in TOP.glob("iotop_ai/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported[node.module.split(".")[0]] += 1
    for line in PROJECT["project"]["dependencies"]:
        name = re.split(r"[<>=!~\[ ]", line)[0]
        assert imported[module.get(name, name)], name


def test_the_page_of_commands_names_every_command() -> None:
    page = (TOP / "docs" / "commands.md").read_text()
    for command in COMMANDS:
        assert f"iotop-ai {command.name}" in page, f"docs/commands.md lacks iotop-ai {command.name}"


def test_the_readme_is_short_and_names_what_exists() -> None:
    readme = (TOP / "README.md").read_text()
    assert len(readme.split()) <= 600
    assert "python3 tests/run.py" in readme
    for link in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (TOP / link).exists(), link


def test_links_between_pages_are_valid() -> None:
    for page in [*TOP.glob("docs/*.md"), TOP / "CONTRIBUTING.md", TOP / "CHANGELOG.md"]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_page_of_metrics_is_up_to_date() -> None:
    assert metrics_doc.PAGE.read_text() == metrics_doc.page(), "run python -m tests.metrics_doc"


def test_the_package_is_typed_and_ships_its_licence() -> None:
    assert (TOP / "iotop_ai" / "py.typed").exists()
    assert "MIT" in (TOP / "LICENSE").read_text()


def test_the_source_archive_has_every_page() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {page.name for page in TOP.glob("*.md")} <= set(included)


def test_the_example_collector_in_contributing_works(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (TOP / "CONTRIBUTING.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {"Root": Root, "Clock": Clock, "EntropyState": lambda bits: ("bits", bits)}
    exec(code, names)
    file = tmp_path / "proc" / "sys" / "kernel" / "random" / "entropy_avail"
    file.parent.mkdir(parents=True)
    file.write_text("256\n")
    collector = names["EntropyCollector"](Root(str(tmp_path)), Clock())
    assert take_reading(collector, Clock()).value == ("bits", 256)
    collector.close()
