from __future__ import annotations

import re

import pytest

from iotop_ai.model.job.records import Job, JobTable, Rank
from iotop_ai.model.machine.page_cache import Cached, Effect, Evicted, Levels
from iotop_ai.model.process.records import ProcessInfo, ProcessKey
from iotop_ai.model.reading import Reading
from iotop_ai.present.machine import caches
from iotop_ai.present.machine.drop_caches_dialog import EVICT, DropView, drop_body
from iotop_ai.present.screen.dialog import dialog_rows, inner_width
from iotop_ai.present.screen.help import help_rows
from iotop_ai.present.screen.key_row import keys_of, keys_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Span, cells
from iotop_ai.present.text.typed_text import TypedText
from tests.present.make import frame
from tests.present.scenes import starved_snapshots

FRAME = frame(starved_snapshots(3, onset=1))
NOW = FRAME.snapshot
GIB = 1 << 30
LEVELS = Levels(2 * GIB, GIB // 16, GIB, 20 * GIB, GIB // 4, 24 * GIB)
AFTER = LEVELS._replace(cached_bytes=45 << 20, free_bytes=3 * GIB)
EFFECT = Effect(1, LEVELS, AFTER, 1.25, 0.3)
SIZES = [(60, 15), (80, 24), (160, 48)]


def text_of(view: DropView, size: tuple[int, int] = (80, 24)) -> str:
    head, tail = drop_body(NOW, view, inner_width(size[0]))
    rows = dialog_rows([], "DROP CACHES", "of the whole host gpu07", head, tail, size)
    assert len(rows) == size[1]
    assert {cells(line.text) for line in rows} == {size[0]}
    return "\n".join(line.text for line in rows)


@pytest.mark.parametrize("size", SIZES)
def test_the_choices_and_the_word_to_type_are_always_visible(size: tuple[int, int]) -> None:
    text = text_of(DropView(how="root", typed=TypedText("dr")), size)
    assert "DROP CACHES" in text
    assert "> 1  page cache" in text
    assert size[1] < 24 or "logged   memory before and after: in the recording" in text
    assert "4  one dataset only" in text
    assert "type drop and press Enter: dr" in text
    assert "Esc:leave" in text


@pytest.mark.parametrize(
    ("choice", "drops"),
    [
        (1, "the page cache, "),
        (2, "dentries and inodes, "),
        (EVICT, "the files of one folder, named below"),
    ],
)
def test_the_question_is_about_the_selected_choice(choice: int, drops: str) -> None:
    text = text_of(DropView(choice, how="root"), (160, 48))
    assert f"drops    {drops}" in text
    assert ("every job on this host is slower" in text) == (choice != EVICT)


def test_without_permission_the_reason_and_the_remedy_are_shown() -> None:
    text = text_of(DropView(EVICT, how="", reason="needs root", remedy="alice ALL=(root) NOPASSWD: /x"), (80, 40))
    assert "denied   needs root" in text
    assert "add with sudo visudo: alice ALL=(root) NOPASSWD: /x" in " ".join(text.replace("│", "").split())
    assert "> 4  one dataset only" in text
    assert "folder or file:" in text
    assert "sudo allows it" in text_of(DropView(how="sudo"), (80, 40))
    assert "again in 41 s" in text_of(DropView(how="root", wait_s=41.2), (80, 40))


def test_progress_and_result_are_shown() -> None:
    assert "writing out what is dirty ... 3 s" in text_of(DropView(doing="writing out what is dirty ...", seconds=3.4))
    text = text_of(DropView(effect=EFFECT))
    assert "page cache, in 0.3 s, after 1.2 s of writing out" in text
    assert re.search(r"2 GB  -> +45 MB", text)
    assert "Enter or Esc:close" in text
    done = Evicted("/data", 3, 300, 200, 0, 0)
    assert "evicted 3 files of /data: 200 B -> 0 B in memory" in text_of(DropView(evicted=done))


def test_the_screen_below_is_muted() -> None:
    behind = keys_rows(FRAME, View(), 80, 1) * 24
    rows = dialog_rows(behind, "T", "", [], [], (80, 24))
    assert {span.token for span in rows[0].spans} == {"behind"}
    assert rows[0].text == behind[0].text
    titled = next(line for line in rows if " T " in line.text)
    assert (titled.spans[0].text, titled.spans[-1].text) == (behind[0].text[:7], behind[0].text[-7:])


@pytest.mark.parametrize("size", [*SIZES, (40, 12)])
def test_the_dialog_has_a_border_so_that_the_screen_below_is_not_read_as_its_text(size: tuple[int, int]) -> None:
    behind = keys_rows(FRAME, View(), size[0], 1) * size[1]
    rows = dialog_rows(behind, "T", "", [[Span("text")]], [], size)
    edge = size[0] // 2 - inner_width(size[0]) // 2 - 1
    number = next(i for i, line in enumerate(rows) if " T " in line.text)
    assert (rows[number].text[edge], rows[number].text[-1 - edge]) == ("│", "│")
    assert rows[number - 1].text[edge : edge + 2] == "┌─"
    assert {len(line.text) for line in rows} == {size[0]}
    full = dialog_rows(behind, "T", "", [[Span("text")]] * size[1], [], size)
    assert all(line.text[edge] == "│" for line in full)


def test_running_jobs_of_others_are_listed_first() -> None:
    assert NOW.jobs.value is None or not NOW.jobs.value.jobs
    table = {}
    for pid, name, user, uid in ((10, "mine.py", "me", 1000), (20, "train.py", "alice", 1001)):
        key = ProcessKey(pid, 5)
        table[key] = Job(key, name, user, uid, (Rank(key), Rank(ProcessKey(pid + 1, 5))), label="slurm 4")
    now = NOW._replace(jobs=Reading(JobTable(jobs=table)))
    assert caches.running_text(now, 1000).startswith(
        "running now: alice train.py x2 (slurm 4), your mine.py x2 (slurm 4)"
    )
    more = {ProcessKey(100 + i, 5): Job(ProcessKey(100 + i, 5), "eval.py", "bob", 1002, ()) for i in range(3)}
    now = NOW._replace(jobs=Reading(JobTable(jobs=table | more)))
    assert "bob eval.py (3 jobs), your mine.py x2" in caches.running_text(now, 1000)


def test_other_users_processes_are_named() -> None:
    table = NOW.processes.value
    assert table is not None
    users = {5: ("root", 0), 6: ("root", 0), 7: ("alice", 1001), 8: ("me", 1000), 9: ("daemon", 2)}
    info = {ProcessKey(pid, 5): ProcessInfo("python", (), user, uid) for pid, (user, uid) in users.items()}
    kernel = {ProcessKey(4, 5): ProcessInfo("kworker", (), "root", 0, kernel=True)}
    now = NOW._replace(processes=NOW.processes._replace(value=table._replace(info=info | kernel)))
    assert caches.running_text(now, 1000) == "running now: processes of other users: 2 of root, 1 of alice"
    assert caches.running_text(now, 0) == "running now: processes of other users: 1 of alice, 1 of me"


def test_effects_and_outcomes_are_described() -> None:
    assert caches.effect_text(EFFECT) == "caches dropped (level 1): Cached 2 GB -> 45 MB, MemFree 1 GB -> 3 GB"
    found = Cached("/d", 10, 40 * GIB, 4 * GIB)
    assert caches.fits_in_memory(found, 20 * GIB) is False
    text = caches.cached_text(found, 20 * GIB)[2]
    assert "does not fit: 20 GB of memory is available, 50 % of the dataset's size" in text
    assert caches.fits_in_memory(found, None) is None
    partly = found._replace(unreadable=1)
    assert caches.fits_in_memory(partly, 50 * GIB) is None
    assert caches.cached_text(partly, 50 * GIB)[2].startswith("? without the unreadable files it fits: 50 GB of memory")
    assert caches.fits_in_memory(partly, 20 * GIB) is False
    unknown = Cached("/d", 2, 100, 0, 2, 100)
    assert unknown.resident_ratio is None
    assert any("visible only to their owner" in line for line in caches.cached_text(unknown, GIB))
    lines = caches.cached_text(unknown, GIB)
    assert any("at most 100 B must still be read from storage once" in line for line in lines)


def test_read_only_mode_dims_the_key_and_a_remote_screen_has_none() -> None:
    wide = 250
    (line,) = keys_rows(FRAME, View(readonly=True), wide, 1)
    assert {span.token for span in line.spans if "drop-cache" in span.text or span.text == " D"} == {"mute"}
    (line,) = keys_rows(FRAME, View(), wide, 1)
    assert {span.token for span in line.spans if "drop-cache" in span.text} == {"dim"}
    helped = [s for line in help_rows(View(readonly=True), 160, 48) for s in line.spans]
    assert {span.token for span in helped if "drop caches" in span.text} == {"mute"}
    # A check that only reads works: it writes nothing.
    assert {span.token for span in helped if "measure storage" in span.text} == {"dim"}
    assert not [key for key in keys_of(View(remote=True)) if key.actions == ("act.check",)]
    assert "drop-cache" not in keys_rows(FRAME, View(remote=True), wide, 1)[0].text
    assert "drop-cache" not in keys_rows(FRAME, View(mode="replay"), wide, 1)[0].text
