"""The lines of code that a process runs, in words and on the process's screen."""

from __future__ import annotations

from iotop_ai.model.process.stack import CodeLine, PythonCode, StackFrame, ThreadCode
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.process.code import code_rows, code_text

WAIT = CodeLine(
    StackFrame("main", "/home/a/train.py", 88),
    78,
    ("_next_data", "Queue.get"),
    StackFrame("Queue.get", "/usr/lib/python3.11/queue.py", 171),
    "next(iter(loader))",
)
STEP = CodeLine(StackFrame("main", "/home/a/train.py", 91), 22, text="loss.backward(token='hf_abcdefGHIJKLMN12345')")
MAIN = ThreadCode(81, "MainThread", 100, (WAIT, STEP))


def test_the_sentence_has_the_share_the_line_and_the_calls() -> None:
    assert code_text(PythonCode((MAIN,), 100, 5.0)) == (
        "78 % of 100 samples in train.py:88, next(iter(loader)); there in _next_data > Queue.get (queue.py:171)"
    )
    assert code_text(PythonCode((), 0, 5.0)) == ""


def known(code: PythonCode) -> Reading[PythonCode]:
    return Reading(code, Status.OK, "", "", 1, 1)


def test_the_rows_have_each_line_with_its_share_and_hide_secrets() -> None:
    rows = [
        row.text for row in code_rows(known(PythonCode((MAIN,), 100, 5.0)), 100, sampling=False, blocked=frozenset())
    ]
    assert "100 samples in 5 s by py-spy" in rows[0]
    assert rows[1].split() == ["MainThread", "78", "%", "train.py:88", "next(iter(loader))"]
    assert rows[2].strip() == "in _next_data > Queue.get (queue.py:171)"
    assert rows[3].split()[:3] == ["22", "%", "train.py:91"]
    assert "hf_abc" not in "".join(rows)


def test_blocked_threads_are_listed_after_the_main_thread() -> None:
    others = tuple(ThreadCode(100 + n, f"w{n}", 50 - n, (STEP,)) for n in range(9))
    rows = code_rows(known(PythonCode((MAIN, *others), 100, 5.0)), 100, sampling=False, blocked=frozenset((107,)))
    names = [row.text.split()[0] for row in rows if " w" in row.text]
    assert names == ["w7", "w0", "w1", "w2", "w3"]
    assert rows[-1].text.strip() == "4 more threads"


def test_the_rows_show_a_running_py_spy_and_a_missing_permission() -> None:
    sampling = code_rows(None, 80, sampling=True, blocked=frozenset())
    assert "py-spy samples" in sampling[1].text
    assert code_rows(None, 80, sampling=False, blocked=frozenset()) == []
    lack: Reading[PythonCode] = Reading(None, Status.DENIED, "py-spy needs CAP_SYS_PTRACE", "sudo", 1, 1)
    denied = code_rows(lack, 80, sampling=False, blocked=frozenset())
    assert "py-spy needs CAP_SYS_PTRACE (sudo)" in denied[1].text
