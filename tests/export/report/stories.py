"""Stories of real recordings, for tests of reports."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from iotop_ai.export.report.builder import StoryBuilder
from iotop_ai.export.report.story import Story
from iotop_ai.playback.run_reader import RunReader
from iotop_ai.playback.selection import RecordedFrames
from tests.job_times import SLOW_DISK


def read(
    path: Path | str, begin: str | None = None, end: str | None = None, *, every: bool | None = None, most: int = 480
) -> Story:
    """Read the Story of a recording."""
    played = RecordedFrames(str(path), begin, end, allow_root=True)
    reader = RunReader(played, every=every, most=most)
    first_ns, last_ns = played.source.span()
    builder = StoryBuilder(played.begin_ns and max(played.begin_ns, first_ns), played.end_ns or last_ns)
    for item in reader:
        builder.add(item)
    return builder.story(Path(path).name, played.about(), reader.spacing_s)


@cache
def slow_story() -> Story:
    """The Story of a trainer's run of 44 s on a slow disk."""
    return read(SLOW_DISK)
