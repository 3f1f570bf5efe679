"""The lines of Python code that the threads of a process execute, counted over many samples of their stacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.clean import clean

MOST_THREADS, MOST_LINES, MOST_CALLS = 64, 5, 4
"""The largest numbers of threads, of lines for each thread, and of calls for each line that are kept."""
_THREAD = pattern(r"thread \((?:0x[0-9a-fA-F]+|(\d+))\)(?:: (.*))?")
_FRAME = pattern(r"(.*) \((.*?)(?::(\d+))?\)")
_LIBRARY = pattern(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<|^[^/]*$")
"""Matches the paths of the standard library and of installed packages, and the names of built-in modules."""


class StackFrame(NamedTuple):
    """One call in a stack; ``file`` is a path or a name such as "<frozen importlib>"; ``line`` is 0 if unknown."""

    function: str
    file: str
    line: int


class CodeLine(NamedTuple):
    """A line of the program, and how often its thread was at this line.

    samples: the number of samples at this line
    calls: the functions in the most frequent chain of calls from this line, outermost first; at most the innermost four
    inner: the innermost of these calls; None without one
    text: the source of the line; "" if unknown
    """

    frame: StackFrame
    samples: int
    calls: tuple[str, ...] = ()
    inner: StackFrame | None = None
    text: str = ""


class ThreadCode(NamedTuple):
    """A thread's lines, the most frequent first. tid: 0 if unknown. name: Python's name for the thread."""

    tid: int
    name: str
    samples: int
    lines: tuple[CodeLine, ...]


class PythonCode(NamedTuple):
    """The lines of Python code that a process's threads execute.

    threads: the main thread first, then the threads with the most samples
    samples: the largest number of samples of one thread
    seconds: how long the stacks were sampled
    """

    threads: tuple[ThreadCode, ...]
    samples: int
    seconds: float


def parse_folded(text: str, pid: int, seconds: float) -> PythonCode:
    """Parse py-spy's raw format: each line has the frames of a stack, outermost first, and its number of samples.

    ``thread (81): MainThread;<module> (/r/train.py:9);main (/r/train.py:7);get (/usr/lib/python3.11/queue.py:171) 70``
    """
    threads: dict[tuple[int, str], Counter[tuple[StackFrame, ...]]] = {}
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        head, *calls = stack.split(";")
        thread_head = _THREAD.fullmatch(head)
        frames = tuple(frame for frame in map(_parse_frame, calls) if frame is not None)
        if thread_head is None or not frames or not count.isdecimal():
            continue
        thread = (int(thread_head[1] or 0), clean(thread_head[2] or "", 64))
        if thread in threads or len(threads) < MOST_THREADS:
            threads.setdefault(thread, Counter())[frames] += int(count)
    out = [_thread_code(tid, name, stacks) for (tid, name), stacks in threads.items()]
    out.sort(key=lambda thread: (thread.tid != pid, thread.name != "MainThread", -thread.samples, thread.tid))
    return PythonCode(tuple(out), max((thread.samples for thread in out), default=0), seconds)


def _parse_frame(text: str) -> StackFrame | None:
    match = _FRAME.fullmatch(text)
    if match is None:
        return None
    return StackFrame(clean(match[1], 128), clean(match[2], 4096), int(match[3] or 0))


def _thread_code(tid: int, name: str, stacks: Counter[tuple[StackFrame, ...]]) -> ThreadCode:
    """The code of one thread: its samples summed by the line of the program that each stack contains."""
    counts: Counter[StackFrame] = Counter()
    calls_below: dict[StackFrame, Counter[tuple[StackFrame, ...]]] = {}
    for frames, count in stacks.items():
        own_index = own_frame_index(frames)
        own_frame = frames[own_index]
        counts[own_frame] += count
        calls_below.setdefault(own_frame, Counter())[frames[own_index + 1 :]] += count
    lines = []
    for frame, count in counts.most_common(MOST_LINES):
        calls = calls_below[frame].most_common(1)[0][0]
        names = tuple(call.function for call in calls[-MOST_CALLS:])
        lines.append(CodeLine(frame, count, names, calls[-1] if calls else None))
    return ThreadCode(tid, name, counts.total(), tuple(lines))


def own_frame_index(frames: tuple[StackFrame, ...]) -> int:
    """The index of the innermost frame outside libraries; if all frames are in libraries, of the innermost frame."""
    own = [i for i, frame in enumerate(frames) if not _LIBRARY.search(frame.file)]
    return own[-1] if own else len(frames) - 1


def with_source(code: PythonCode, lines: Iterable[tuple[StackFrame, str]]) -> PythonCode:
    """The code with ``text`` filled in from these lines."""
    known = dict(lines)
    threads = tuple(
        thread._replace(lines=tuple(line._replace(text=known.get(line.frame, "")) for line in thread.lines))
        for thread in code.threads
    )
    return code._replace(threads=threads)
