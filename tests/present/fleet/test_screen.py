"""The rows of the fleet's screens at every size."""

from __future__ import annotations

import pytest

from iotop_ai.fleet.machines import fleet_of
from iotop_ai.model.fleet.records import Fleet, FleetAlert, FleetJob, FleetMachine, JobPart
from iotop_ai.present.fleet.jobs_screen import jobs_screen_rows
from iotop_ai.present.fleet.screen import fitting_clauses, fleet_screen_rows
from iotop_ai.present.fleet.table import COLUMNS
from iotop_ai.present.fleet.view import FleetView, History
from iotop_ai.present.fleet.words import SORTS
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import cells
from tests.rigs.fleet.small import WINDOW_S, kept_answers

FLEET = fleet_of(kept_answers(), WINDOW_S)
SHOWN = FleetView(View(utc_offset_s=0), server="http://prometheus:9090", window_s=WINDOW_S)
SIZES = [(20, 5), (60, 15), (80, 24), (100, 30), (160, 48), (250, 70)]


def text(shown: FleetView = SHOWN, width: int = 160, height: int = 48) -> str:
    return "\n".join(line.text for line in fleet_screen_rows(FLEET, shown, width, height))


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("fleet", [FLEET, None, FLEET._replace(machines=(), jobs=())])
def test_every_row_fills_the_width_of_the_window(fleet: object, width: int, height: int) -> None:
    for rows in (fleet_screen_rows, jobs_screen_rows):
        lines = rows(fleet, SHOWN, width, height)  # type: ignore[arg-type]
        assert len(lines) == height
        assert {cells(line.text) for line in lines} == {width}


def test_the_ascii_form_has_only_ascii() -> None:
    shown = SHOWN._replace(view=SHOWN.view._replace(ascii_only=True))
    assert text(shown).isascii()
    assert "".join(line.text for line in jobs_screen_rows(FLEET, shown, 160, 48)).isascii()


def test_a_row_has_state_cause_and_source() -> None:
    rows = {line.split()[0]: line for line in text(width=80, height=24).splitlines() if line.strip()}
    assert rows["gpu03"].split()[1] == "STARVED"
    assert "slow disk" in rows["gpu03"]
    assert rows["gpu03"].split()[-1] == "iotop"
    assert rows["node01"].split()[-2:] == ["FAILING", "nds"]
    assert rows["node01"].split()[1:3] == ["?", "?"]


def test_hundreds_of_machines_scroll_and_the_title_has_the_position() -> None:
    many = FLEET._replace(machines=tuple(FleetMachine(f"m{n:03}", f"m{n:03}:1", ("iotop",), "OK") for n in range(300)))
    shown = SHOWN._replace(view=SHOWN.view._replace(scroll=290, cursor="m299"))
    rows = [line.text for line in fleet_screen_rows(many, shown, 80, 24)]
    assert rows[2].startswith("━━ 288-300 ")
    assert fleet_screen_rows(many, shown, 160, 48)[2].text.startswith("━━ 272-300 of 300 ")
    assert rows[15].split()[0] == "m299"
    first = SHOWN._replace(view=SHOWN.view._replace(scroll=0, cursor="m299"))
    assert "sel" in [line.background for line in fleet_screen_rows(many, first, 80, 24)]


@pytest.mark.parametrize("sort", SORTS)
def test_the_title_of_the_column_that_decides_the_order_is_marked(sort: str) -> None:
    titles = fleet_screen_rows(FLEET, SHOWN._replace(sort=sort), 250, 70)[2]
    marked = [span.text.strip() for span in titles.spans if span.token == "title"]
    assert marked == [column.title for column in COLUMNS if column.id == sort]


def test_old_figures_are_marked_with_their_age() -> None:
    rows = text(SHOWN._replace(trouble="http://prometheus:9090: Connection refused", age_s=34.0)).splitlines()
    assert rows[0].rstrip().endswith("34 s old")
    assert rows[1].startswith(" now      http://prometheus:9090: Connection refused")


def test_unanswered_queries_are_named() -> None:
    rows = fleet_screen_rows(FLEET._replace(unanswered=("health", "alerts")), SHOWN, 80, 24)
    assert rows[1].text.startswith(" partial  queries without an answer: health, alerts")


def test_jobs_that_are_not_known_are_not_called_absent() -> None:
    def jobs_text(fleet: Fleet | None) -> str:
        return "\n".join(line.text for line in jobs_screen_rows(fleet, SHOWN, 80, 24))

    none = FLEET._replace(jobs=())
    assert " no job from iotop-ai in this window" in jobs_text(none._replace(unanswered=("health",)))
    assert "no job" not in jobs_text(None)
    for query in ("job time", "job GPUs", "job ranks"):
        text = jobs_text(none._replace(unanswered=(query,)))
        assert "no job" not in text
        assert " ? the server did not answer which jobs run" in text


def test_the_machines_of_a_large_job_that_do_not_fit_are_counted() -> None:
    parts = tuple(JobPart(f"gpu{n:02}", "4711", "train.py", gpus=8, ranks=8) for n in range(64))
    large = FLEET._replace(jobs=(FleetJob("slurm 1", "train.py", parts),))
    for height, fit in ((40, 33), (70, 64)):
        rows = [line.text.rstrip() for line in jobs_screen_rows(large, SHOWN, 160, height)]
        assert sum(row.startswith(" gpu") for row in rows) == fit
        assert (rows[-2] == " 31 more") == (fit < 64)


def test_the_graphs_show_the_history_of_the_machine_under_the_cursor() -> None:
    shown = SHOWN._replace(view=SHOWN.view._replace(cursor="gpu03"))
    without = text(shown)
    history = History("gpu03", 0.0, {"lost": (0.1, 0.9), "gpu": (0.5, 0.5), "disk": (None, 0.2)})
    assert "lost         90 %" in text(shown._replace(history=history))
    assert "lost          ? %" in without
    # A history of another machine is not drawn.
    assert text(shown._replace(history=history._replace(machine="gpu04"))) == without


def test_sentences_are_shortened_by_whole_clauses() -> None:
    assert fitting_clauses("one; two; three", 9) == "one; two"
    assert fitting_clauses("one; two", 20) == "one; two"
    assert fitting_clauses("wonderful", 5) == "wond…"


def test_wide_names_are_shown_as_a_whole() -> None:
    name = "".join(chr(0x4E00 + i) for i in range(60))
    machine = FleetMachine("gpu07", "x", ("iotop",), alerts=(FleetAlert(name), FleetAlert("END")))
    lines = fleet_screen_rows(FLEET._replace(machines=(machine,), jobs=()), SHOWN, 80, 48)
    assert f"alerts{name},END" in "".join("".join(line.text for line in lines).split())


def test_hostile_names_stay_in_their_cells() -> None:
    bad = FleetMachine("[@click=app.quit]" * 9, "x", ("iotop",), "MOLTEN", alerts=(FleetAlert("漢" * 99),))
    for width, height in SIZES:
        lines = fleet_screen_rows(FLEET._replace(machines=(bad,), jobs=()), SHOWN, width, height)
        assert {cells(line.text) for line in lines} == {width}
