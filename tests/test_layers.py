"""Neither an import nor a run loads a module that is not needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.bench.start import FRAME_IMPORTS, SWEEP_CODE
from tests.cli.program import PLAIN, TOP

HEAVY = ("textual", "rich", "pySMART", "plotext", "psutil", "pynvml")
LOADED = "import sys; print(' '.join(sorted({m.split('.')[0] for m in sys.modules})))"
RUN = "import sys; from iotop_ai.cli.main import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"


def loaded(code: str, *arguments: str) -> set[str]:
    """The names of the top-level modules that are loaded in a new interpreter after ``code``."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{LOADED}", *arguments],
        cwd=TOP,
        env=PLAIN,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_no_library() -> None:
    assert not loaded("import iotop_ai") & set(HEAVY)


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("-d", "0.001")])
def test_the_parser_of_arguments_loads_no_library(arguments: tuple[str, ...]) -> None:
    code = RUN if arguments[0] != "-d" else f"{RUN}sys.stderr.flush()"
    assert not loaded(code, *arguments) & set(HEAVY)


@pytest.mark.parametrize("arguments", [("snapshot", "--json", "-d", "0.1"), ("-b", "-n", "1", "-d", "0.1")])
def test_text_and_json_load_no_module_of_screen_charts_or_smart(arguments: tuple[str, ...]) -> None:
    assert not loaded(RUN, *arguments) & {"textual", "rich", "pySMART", "plotext"}


def test_a_refusal_without_a_terminal_loads_no_module_of_the_screen() -> None:
    assert not loaded(RUN) & {"textual", "rich", "pySMART", "plotext"}


def test_the_first_frame_loads_no_slow_module() -> None:
    code = (
        "import sys\nfrom iotop_ai.cli.main import plain_flags, main\nassert plain_flags([]) == {}\n"
        "import iotop_ai.cli.commands.monitor.command, iotop_ai.sources.live.source"
    )
    slow = {"argparse", "ctypes", "pathlib", "socket", "statistics", "subprocess"}
    slow |= {"urllib", "hashlib", "tempfile", "asyncio", "dataclasses", "inspect", "datetime", "signal"}
    assert not loaded(code) & {*HEAVY, *slow}


def test_the_first_picture_loads_no_rules_store_or_gpu_modules() -> None:
    unused = ("diagnosis", "store", "collectors.gpu.nvml", "present.gpu.table")
    print_loaded = f"print([m for m in {unused} if 'iotop_ai.' + m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{FRAME_IMPORTS}\n{SWEEP_CODE}\nassert len(rows) == 40\n{print_loaded}"],
        cwd=TOP,
        env=PLAIN,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("layer", ["model", "diagnosis", "pipeline", "present"])
def test_the_pure_layers_load_no_library(layer: str) -> None:
    walk = (
        "import importlib, pkgutil\n"
        f"top = importlib.import_module('iotop_ai.{layer}')\n"
        "for m in pkgutil.walk_packages(getattr(top, '__path__', []), top.__name__ + '.'): "
        "importlib.import_module(m.name)"
    )
    assert not loaded(walk) & set(HEAVY)
