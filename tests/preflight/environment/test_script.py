"""Facts that are found in the text of a script, and the checks that follow from them."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.preflight.environment.check import State
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts
from iotop_ai.model.preflight.environment.script import ScriptFacts
from iotop_ai.preflight.environment.judge_nccl import judge_nccl
from iotop_ai.preflight.environment.judge_script import judge_script
from iotop_ai.preflight.environment.locks import HeldLock, parse_locks, read_held_locks
from iotop_ai.preflight.environment.script import cells_text, parse_script, read_script

DATASET = "class Images(Dataset):\n    def __getitem__(self, i):\n        return {}\n"


LOADER = "loader = DataLoader(data, num_workers=2)\n"
POOL = "from multiprocessing import Pool\n"


@pytest.mark.parametrize(
    ("source", "unguarded"),
    [
        ("def main():\n    with Pool(4) as pool: pass\nmain()", "Pool() on line 3"),
        ("def a(): b()\ndef b(): a()\na()", ""),
        ("def main():\n    Pool(4)\nif __name__ == '__main__':\n    main()", ""),
        ("def main():\n    Pool(4)\nif '__main__' == __name__: main()", ""),
        ("if __name__ == '__main__' and True:\n    Pool(4)", ""),
        ("if __name__ == '__main__':\n    pass\nelse:\n    Pool(4)", "Pool() on line 5"),
        ("if __name__ == '__main__' or True:\n    Pool(4)", "Pool() on line 3"),
        ("if __name__ != '__main__':\n    Pool(4)", "Pool() on line 3"),
        ("try:\n    if __name__ == '__main__': Pool(4)\nfinally: pass", ""),
        ("if name == '__main__':\n    Pool(4)", "Pool() on line 3"),
        ("class Run:\n    def go(self): Pool(4)", ""),
        ("class Run:\n    pool = Pool(4)", "Pool() on line 3"),
    ],
)
def test_code_that_starts_processes_on_import_is_found(source: str, unguarded: str) -> None:
    assert parse_script(POOL + source, "t.py").unguarded == unguarded


@pytest.mark.parametrize(
    ("source", "starts"),
    [
        ("import multiprocessing as mp\nmp.Process(target=f)", "Process"),
        ("import torch\ntorch.multiprocessing.spawn(f)", "spawn"),
        ("from torch import multiprocessing as mp\nmp.start_processes(f)", "start_processes"),
        ("import multiprocessing\nctx = multiprocessing.get_context('spawn')\nctx.Pool(2)", "Pool"),
        ("import multiprocessing\nmultiprocessing.get_context().Pool(2)", "Pool"),
        ("import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()", "ProcessPoolExecutor"),
        ("from concurrent.futures import ProcessPoolExecutor as P\nP()", "P"),
        ("from multiprocessing import *\nPool(2)", "Pool"),
        ("import psutil, os\npsutil.Process(os.getpid())", ""),
        ("from psutil import Process\nProcess()", ""),
        ("from multiprocessing.dummy import Pool\nPool(2)", ""),
        ("from multiprocessing.pool import ThreadPool\nThreadPool(2)", ""),
        ("Pool(2)", ""),
    ],
)
def test_calls_that_start_processes_are_found_by_their_module(source: str, starts: str) -> None:
    found = parse_script(source, "t.py")
    assert found.unguarded.partition("(")[0] == starts
    assert found.workers == bool(starts)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("", 0),
        ("def main():\n    for one in loader: pass\nif __name__ == '__main__':\n    main()", 0),
        ("print(len(loader))\nfor i in range(len(loader)): pass", 0),
        ("for one in loader: pass", 2),
        ("for i, one in enumerate(tqdm(loader)): pass", 2),
        ("first = next(iter(loader))", 2),
        ("x = [one for one in loader]", 2),
        ("trainer.fit(model, loader)", 2),
        ("for one in DataLoader(data, num_workers=N): pass", 2),
        ("for one in DataLoader(data): pass", 0),
        ("for one in DataLoader(data, 32, True, None, None, 4): pass", 2),
        ("for one in DataLoader(data, 32, True, None, None, 0): pass", 0),
        ("N = 0\nfor one in DataLoader(data, num_workers=N): pass", 0),
        ("for one in StatefulDataLoader(data, num_workers=args.workers): pass", 2),
        ("def train(it):\n    for one in it: pass\ntrain(loader)", 3),
        ("def make():\n    return loader, 1\n", 0),
        ("def make():\n    it = DataLoader(data, num_workers=2)\n    return it\nl = make()\nfor one in l: pass", 6),
        ("loaders = {'a': DataLoader(data, num_workers=2)}\nfor one in loaders['a']: pass", 3),
    ],
)
def test_a_loader_starts_its_workers_when_it_is_iterated(source: str, line: int) -> None:
    found = parse_script(LOADER + source, "t.py")
    assert found.unguarded.rpartition(" ")[2] == (str(line) if line else "")
    assert found.workers


@pytest.mark.parametrize(
    "cell",
    [
        "if COLAB:\n    !pip install timm\nx = 1",
        "x = ('%d of %d'\n   % (a, b))",
        "x = ('%d of %d'\n   % (a, b))\n%matplotlib inline",
        "!pip install a \\\n    b\nx = 1",
        "?print\n%cd /data/it's\nx = 1",
        "!ls\n" * 1000 + "x = 1",
        "out = !nvidia-smi -q\nx = 1",
        "if COLAB:\n    b[0], a.c=!ls \\\n   it's\nx = 1",
        "here = %pwd\nx = 1",
        "torch.nn.Linear?\nx = 1",
        "%timeit??\ntorch.*Norm?\nx = 1",
        "x = ('a=%d'\n % a)\n?print",
        "out = !ls\n" * 30 + "x = ('a=%d' % a)",
    ],
)
def test_magics_of_a_cell_are_left_out(cell: str) -> None:
    book = json.dumps({"cells": [{"cell_type": "code", "source": cell}]})
    names = {one.id for one in ast.walk(ast.parse(cells_text(book))) if isinstance(one, ast.Name)}
    assert {"x"} <= names <= {"x", "a", "b", "COLAB"}
    assert ("% (a, b)" in cells_text(book)) == ("% (a, b)" in cell)


@pytest.mark.parametrize(
    ("source", "method"),
    [
        ("mp.set_start_method('spawn', force=True)", "spawn"),
        ("multiprocessing.set_start_method(method='forkserver')", "forkserver"),
        ("DataLoader(d, multiprocessing_context='fork')", "fork"),
        ("ctx = get_context('spawn')", "spawn"),
        ("mp.set_start_method(args.method)", ""),
        ("x = 1", ""),
    ],
)
def test_the_start_method_of_a_script_is_found(source: str, method: str) -> None:
    assert parse_script(source, "t.py").method == method


@pytest.mark.parametrize(
    ("value", "cuda"),
    [
        ("x.cuda()", "Images.__getitem__ uses CUDA on line 3"),
        ("x.to('cuda:0')", "Images.__getitem__ uses CUDA on line 3"),
        ("torch.zeros(3, device='cuda')", "Images.__getitem__ uses CUDA on line 3"),
        ("x.to('cpu')", ""),
        ("x.to(torch.float32)", ""),
        ("'cuda'", ""),
    ],
)
def test_cuda_in_a_dataset_is_found(value: str, cuda: str) -> None:
    found = parse_script(DATASET.format(value), "t.py")
    assert (found.cuda, found.datasets) == (cuda, ("Images",))


def test_the_first_use_of_cuda_is_named_even_if_it_is_nested() -> None:
    source = "class A(Dataset):\n def __getitem__(self, i):\n  if i:\n   self.x.cuda()\n  return self.y.cuda()\n"
    assert parse_script(source, "t.py").cuda == "A.__getitem__ uses CUDA on line 4"


def test_notebooks_are_parsed_and_invalid_files_are_an_error(tmp_path: Path) -> None:
    book = tmp_path / "run.ipynb"
    code = ["%matplotlib inline\n", "!pip list\n", "from torch import *\n", "DataLoader(d, num_workers=2)"]
    cells = [{"cell_type": "markdown", "source": "# not code ("}, {"cell_type": "code", "source": code}]
    book.write_text(json.dumps({"cells": cells}))
    assert read_script(str(book)) == ScriptFacts(str(book), notebook=True, workers=True)
    book.write_bytes(b"\xef\xbb\xbf" + book.read_bytes())
    assert read_script(str(book)).workers
    book.write_text("[]")
    assert read_script(str(book)).error == "not a notebook"
    of_windows = tmp_path / "bom.py"
    of_windows.write_bytes(b"\xef\xbb\xbffrom torch import *\r\nDataLoader(d, num_workers=2)\r\n")
    assert read_script(str(of_windows)) == ScriptFacts(str(of_windows), workers=True)
    wrong = tmp_path / "wrong.py"
    wrong.write_text("x = (")
    assert read_script(str(wrong)).error == "line 1: not Python: '(' was never closed"
    wrong.write_bytes(b"\0" * 100)
    assert read_script(str(wrong)).error.endswith(("not Python", "source code string cannot contain null bytes"))
    assert read_script(str(tmp_path / "missing.py")).error == "No such file or directory"
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    assert read_script(str(pipe)) == ScriptFacts(str(pipe))


def test_a_folder_is_an_error_and_is_closed(tmp_path: Path) -> None:
    assert read_script(str(tmp_path)).error == "Is a directory"
    opened = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    assert str(tmp_path) not in opened


def states(script: ScriptFacts | None, default: str = "fork", *, jupyter: bool = False) -> dict[str, State]:
    python = PythonFacts("/p", start_method=default)
    found = judge_script(python, HostFacts(jupyter=jupyter), script)
    return {one.name: one.state for one in found if one.state is not State.OK}


def test_the_start_method_decides_which_problems_are_reported() -> None:
    script = ScriptFacts("t.py", unguarded="Pool() on line 1", workers=True)
    assert states(script) == {}
    assert states(script, "forkserver") == {"main guard": State.FAIL}
    assert states(script._replace(method="fork"), "forkserver") == {}
    cuda = ScriptFacts("t.py", workers=True, cuda="A.__getitem__ uses CUDA on line 3")
    assert states(cuda) == {"CUDA in workers": State.FAIL}
    assert states(cuda, "spawn") == states(cuda._replace(workers=False)) == {}
    assert states(ScriptFacts("t.py", "not Python")) == {"script": State.UNKNOWN}
    assert states(None, "spawn") == states(None, jupyter=True) == states(None, "") == {}
    assert states(None, "spawn", jupyter=True) == {"notebook": State.WARN}
    book = ScriptFacts("t.ipynb", notebook=True, workers=True, datasets=("A",))
    assert states(book, "spawn") == {"notebook": State.FAIL}
    assert states(book) == states(book._replace(datasets=()), "spawn") == {}


LINKS = (("eth0", "up"), ("eth1", "down"), ("lo", "unknown"))


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({"NCCL_SOCKET_IFNAME": "eth"}, []),
        ({"NCCL_SOCKET_IFNAME": "ens,eth0"}, []),
        ({"NCCL_SOCKET_IFNAME": "^ens"}, []),
        ({"NCCL_SOCKET_IFNAME": "=eth"}, ["NCCL_SOCKET_IFNAME"]),
        ({"NCCL_SOCKET_IFNAME": "eth1"}, ["NCCL_SOCKET_IFNAME"]),
        ({"NCCL_SOCKET_IFNAME": "bond0"}, ["NCCL_SOCKET_IFNAME"]),
        ({"GLOO_SOCKET_IFNAME": "eth"}, ["GLOO_SOCKET_IFNAME"]),
        ({"NCCL_DEBUG": "INFO"}, []),
        ({"NCCL_DEBUG": "info", "NCCL_DEBUG_SUBSYS": "init,coll"}, ["NCCL_DEBUG_SUBSYS"]),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "^COLL"}, []),
        ({"NCCL_IB_DISABLE": "1"}, ["NCCL_IB_DISABLE"]),
    ],
)
def test_variables_of_nccl_are_judged(variables: dict[str, str], names: list[str]) -> None:
    host = HostFacts(rdma=1, links=LINKS, variables=variables)
    assert [one.name for one in judge_nccl(host)] == names


def test_nccl_is_judged_only_with_rdma_and_known_interfaces() -> None:
    assert list(judge_nccl(HostFacts(links=LINKS, variables={"NCCL_IB_DISABLE": "1"}))) == []
    assert list(judge_nccl(HostFacts(variables={"NCCL_SOCKET_IFNAME": "eth9"}))) == []


def test_locks_in_proc_are_parsed() -> None:
    lines = [
        "1: FLOCK  ADVISORY  WRITE 812 00:2f:1234 0 EOF",
        "1: -> FLOCK  ADVISORY  WRITE 815 00:2f:1234 0 EOF",
        "2: POSIX  ADVISORY  READ 900 fe:00:77 128 128",
        "3: OFDLCK ADVISORY  WRITE -1 fe:00:78 0 EOF",
        "4: LEASE  ACTIVE    READ 901 fe:00:79 0 EOF",
        "broken",
    ]
    assert list(parse_locks(lines)) == [(1234, 812), (77, 900)]


def test_two_disks_may_have_lock_files_with_the_same_inode_number(tmp_path: Path) -> None:
    process = tmp_path / "proc/812"
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("python\n")
    (process / "fd/3").symlink_to("/data/a.lock")
    (tmp_path / "proc/locks").write_text("1: FLOCK  ADVISORY  WRITE 812 00:2f:1234 0 EOF\n")
    held = read_held_locks(Root(str(tmp_path)), [("/data/a.lock", 1234), ("/home/b.lock", 1234)])
    assert held == (HeldLock("/data/a.lock", 812, "python"),)
