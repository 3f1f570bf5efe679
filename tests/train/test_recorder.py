"""The pipes of a training process to its recorder: whose descriptors they are, and which answers are awaited."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from iotop_ai.train.recorder import Recorder
from tests.waiting import until


def test_files_that_get_the_numbers_of_the_pipes_are_not_touched(tmp_path: Path) -> None:
    # A grandchild has the outputs open after the recorder's end.
    recorder = Recorder(["/bin/sh", "-c", "sleep 3 &"])
    numbers = {recorder._in, recorder._out, recorder._messages}
    assert recorder.end(0.2) == 0
    opened: list[int] = []
    try:
        while not numbers <= {*opened}:
            opened.append(os.open(tmp_path / str(len(opened)), os.O_RDWR | os.O_CREAT))
            os.pwrite(opened[-1], b"mine\n", 0)
        recorder.send({"kind": "mark", "text": "epoch 1"})
        recorder.poll()
        assert {(os.lseek(one, 0, os.SEEK_CUR), os.pread(one, 99, 0)) for one in opened} == {(0, b"mine\n")}
    finally:
        for one in opened:
            os.close(one)


INCOMPLETE = """
import sys
print('{"kind":"ready"}', flush=True)
sys.stdin.readline()
sys.stdin.readline()
print('{"kind":"stat')
print('{"kind":"status","number":2}', flush=True)
for number, _ in enumerate(sys.stdin, 3):
    print('{"kind":"status","number":%d}' % number, flush=True)
"""


def test_after_an_incomplete_answer_to_one_of_two_questions_more_are_asked() -> None:
    recorder = Recorder([sys.executable, "-c", INCOMPLETE])

    def polled(number: int) -> bool:
        recorder.poll()
        return recorder.ready if number == 0 else bool(recorder.status.get("number", 0) >= number)

    try:
        until(lambda: polled(0), "the first question")
        recorder.ask(0)
        until(lambda: polled(4), "an answer to the fourth question", 10)
    finally:
        recorder.end(5)
