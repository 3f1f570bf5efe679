"""A sentence is shortened to a width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.present.text.fit import fit
from iotop_ai.present.text.line import Span, spans_cells
from iotop_ai.present.verdict.headline import text_of

SPANS = st.lists(
    st.sampled_from([Span("; "), Span(", "), Span("disk"), Span(" sda 87 ms "), Span("ディスク x")]), max_size=9
)


@given(SPANS, st.integers(0, 40))
def test_a_fitted_sentence_is_never_too_wide_and_has_no_new_words(spans: list[Span], width: int) -> None:
    cut = fit(spans, width)
    assert text_of(spans).startswith(text_of(cut).removesuffix("…"))
    assert spans_cells(cut) <= width
    if spans_cells(spans) <= width:
        assert cut == spans


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        ("renice -n 19 -p 4242 (make), or keep it off these cores", " (taskset, cpuset)"),
        ("cool GPU 2 (88 C, 655 of 700 W): fans, airflow, room", "; or nvidia-smi -pl for a steady clock"),
    ],
)
def test_a_sentence_that_does_not_fit_ends_at_a_clause(begin: str, rest: str) -> None:
    assert text_of(fit([Span(begin + rest)], 66)) == begin


@pytest.mark.parametrize(
    ("parts", "width", "begin"),
    [
        (["the GPU waits for data ", "57 %", " of the time"], 30, "the GPU waits for data 57 %…"),
        (["the GPU waits for data ", "57 %", " of the time"], 20, "the GPU waits…"),
        (
            ["copy /data (at most 64 MB", ", ", "~16 s) to /dev/shm (memory)", ", ", "then"],
            40,
            "copy /data to /dev/shm, then",
        ),
        (
            ["copy /data (at most 64 MB", ", ", "~16 s) to /dev/shm (memory)", ", ", "then"],
            24,
            "copy /data to /dev/shm",
        ),
        (["cool GPU 2 (88 C", ", ", "655 W)", ": ", "fans", ", ", "room"], 30, "cool GPU 2 (88 C, 655 W): fans"),
    ],
)
def test_a_cut_sentence_has_no_open_bracket_or_preposition_at_its_end(parts: list[str], width: int, begin: str) -> None:
    assert text_of(fit([Span(text) for text in parts], width)) == begin


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (80, "copy /data (at most 160 MB and ~26 s) to /dev/shm (memory, 20 GB of room)"),
        (60, "copy /data (at most 160 MB and ~26 s) to /dev/shm"),
        (40, "copy /data to /dev/shm"),
        (18, "copy /data…"),
    ],
)
def test_text_in_brackets_is_dropped_first(width: int, text: str) -> None:
    spans = [Span("copy /data (at most 160 MB and ~26 s) to "), Span("/dev/shm"), Span(" (memory, 20 GB of room)")]
    assert text_of(fit(spans, width)) == text


DATASET = "/tmp/iotop-scenario-17838-1ysny6rv/data"


@pytest.mark.parametrize(
    ("parts", "width", "text"),
    [
        (
            [f"copy its dataset on {DATASET} to /dev/shm (memory, 20 GB of room)", "; ", "pack files"],
            60,
            "copy its dataset on /tmp/iotop-sc…-1ysny6rv/data to /dev/shm",
        ),
        (
            [f"read its dataset on {DATASET} once: it then stays in memory (20 GB free)", "; ", "pack files"],
            69,
            "read its dataset on /tmp/ioto…y6rv/data once: it then stays in memory",
        ),
        (
            ["limit 5.0 MB/s", f" in {DATASET}/blkio.throttle.read_bps_device", ", ", "it reads 5.0 MB/s"],
            60,
            "limit 5.0 MB/s in /tmp/iotop-scenario-…ottle.read_bps_device",
        ),
        ([f"copy {DATASET} to {DATASET}2, which is on another disk"], 36, "copy /tmp/io…6rv/data…"),
        (["copy /data to /dev/shm", ": ", f"iotop-ai stage /data {DATASET}"], 50, "copy /data to /dev/shm"),
    ],
)
def test_a_long_path_is_shortened_in_its_middle_before_words_are_dropped(
    parts: list[str], width: int, text: str
) -> None:
    assert text_of(fit([Span(part) for part in parts], width)) == text


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        (
            "one long sentence that has no place at all at which it could be ended",
            "one long sentence that has no place at all at which it could be…",
        ),
        (
            "raise the memory limit of 121 MB, or use fewer workers or a lower prefetch_factor; store less",
            "raise the memory limit of 121 MB, or use fewer workers…",
        ),
        (
            "a faster disk will not help; batch size, bf16, compiling the model may",
            "a faster disk will not help; batch size, bf16…",
        ),
        (
            "use DataLoader(persistent_workers=True): it saves ~1.5 s of each 9.0 s",
            "use DataLoader(persistent_workers=True)…",
        ),
        (
            "stop other programs (pid 10256), limit them (io.max), or give it a disk other than loop0",
            "stop other programs (pid 10256), limit them (io.max)…",
        ),
        (
            "reset GPU 0 of the job (nvidia-smi -i 0 --gpu-reset); run dmesg | grep -i xid",
            "reset GPU 0 of the job (nvidia-smi -i 0 --gpu-reset)",
        ),
    ],
)
def test_words_cut_inside_a_clause_end_with_an_ellipsis(sentence: str, text: str) -> None:
    assert text_of(fit([Span(sentence)], 66)) == text


def test_brackets_of_code_are_not_dropped() -> None:
    sentence = "run python -c 'print(torch.cuda.is_available())' and check it (now)"
    assert text_of(fit([Span(sentence)], len(sentence) - 1)) == sentence.removesuffix(" (now)")
