"""Lines of code from the folded stacks of py-spy."""

from __future__ import annotations

from iotop_ai.model.process.stack import CodeLine, StackFrame, own_frame_index, parse_folded, with_source

LIB = "/l/lib/python3.11"
MAIN = "thread (81): MainThread;<module> (/r/train.py:9)"
FOLDED = f"""\
{MAIN};main (/r/train.py:7);get ({LIB}/queue.py:171);wait ({LIB}/threading.py:320) 70
{MAIN};main (/r/train.py:8);step (/v/lib/python3.12/site-packages/t/nn.py:4) 28
thread (81): MainThread;<module> (/r/train.py:9);main (/r/train.py:8) 2
thread (90): loader;run ({LIB}/threading.py:975);load (/r/data.py:4) 99
thread (0x7F12): ;spin (<string>:3) 5
junk
thread (81): MainThread 3
"""


def test_samples_are_summed_by_the_programs_own_line() -> None:
    code = parse_folded(FOLDED, 81, 5.0)
    main, loader, nameless = code.threads
    assert (code.samples, code.seconds) == (100, 5.0)
    assert (main.tid, main.name, main.samples) == (81, "MainThread", 100)
    assert main.lines == (
        CodeLine(
            StackFrame("main", "/r/train.py", 7), 70, ("get", "wait"), StackFrame("wait", f"{LIB}/threading.py", 320)
        ),
        CodeLine(
            StackFrame("main", "/r/train.py", 8),
            30,
            ("step",),
            StackFrame("step", "/v/lib/python3.12/site-packages/t/nn.py", 4),
        ),
    )
    assert loader.lines == (CodeLine(StackFrame("load", "/r/data.py", 4), 99),)
    assert (nameless.tid, nameless.name, nameless.samples) == (0, "", 5)


def test_the_main_thread_comes_first_however_often_it_was_sampled() -> None:
    code = parse_folded("thread (5): a;f (/x.py:1) 9\nthread (4): MainThread;g (/x.py:2) 1\n", 4, 1.0)
    assert [thread.tid for thread in code.threads] == [4, 5]


def test_a_stack_of_only_libraries_counts_by_its_innermost_call() -> None:
    frames = (StackFrame("run", f"{LIB}/threading.py", 1), StackFrame("wait", f"{LIB}/threading.py", 2))
    assert own_frame_index(frames) == 1
    assert own_frame_index((StackFrame("f", "/r/a.py", 1), *frames)) == 0


def test_names_from_the_process_are_cleaned() -> None:
    code = parse_folded("thread (4): \x1b[2J;f\x1b (/x\x07.py:1) 1\n", 4, 1.0)
    (thread,) = code.threads
    assert "\x1b" not in thread.name + thread.lines[0].frame.function
    assert thread.lines[0].frame.file == "/x\N{REPLACEMENT CHARACTER}.py"


def test_an_empty_text_has_no_lines_of_code() -> None:
    assert parse_folded("", 1, 5.0).threads == ()
    assert parse_folded("", 1, 5.0).samples == 0


def test_the_source_is_added_to_its_lines() -> None:
    code = with_source(parse_folded(FOLDED, 81, 5.0), [(StackFrame("main", "/r/train.py", 7), "next(iter(loader))")])
    assert [line.text for line in code.threads[0].lines] == ["next(iter(loader))", ""]
