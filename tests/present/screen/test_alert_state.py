"""Alerts on the screen: the sign in the title of the path panel, and the message beside the keys."""

from __future__ import annotations

import pytest

from iotop_ai.model.finding import Severity
from iotop_ai.present.job.data_path import path_rows
from iotop_ai.present.screen.alert_state import alert_text, firing_spans
from iotop_ai.present.screen.key_row import toast_spans
from iotop_ai.present.screen.view import FiringAlert, RecordingState, View
from iotop_ai.present.text.line import cells
from tests.tui.scene import made_frames

HOT = FiringAlert("gpu_hot", Severity.WARNING)
FAILING = FiringAlert("failing_disk", Severity.CRITICAL)
NOTE = FiringAlert("a_name_of_forty_characters_at_the_most__", Severity.INFO)


@pytest.mark.parametrize(
    ("firing", "text", "token"),
    [
        ((), "", ""),
        ((HOT,), "ALERT gpu_hot", "warn"),
        ((HOT, FAILING), "ALERT failing_disk +1", "bad"),
        ((NOTE, HOT, FAILING), "ALERT failing_disk +2", "bad"),
        ((NOTE,), "ALERT a_name_of_forty…", "text"),
    ],
)
def test_the_most_severe_alert_is_named(firing: tuple[FiringAlert, ...], text: str, token: str) -> None:
    spans = firing_spans(View(firing=firing))
    assert "".join(span.text for span in spans).strip() == text
    assert [span.token for span in spans] == ([token] if token else [])


@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_sign_of_an_alert_is_beside_that_of_a_recording(width: int) -> None:
    recording = RecordingState("/run.iotop.jsonl", 75.0, 212_000)
    view = View(firing=(HOT, FAILING), recording=recording, utc_offset_s=0)
    frame = made_frames(2)[-1]
    rule = path_rows(frame, view, width, 3)[0]
    assert cells(rule.text) == width
    assert "ALERT failing_disk +1" in rule.text
    if width >= 80:
        assert "● REC 01:15" in rule.text
    assert "ALERT" not in path_rows(frame, view._replace(firing=()), width, 3)[0].text


def test_the_message_about_a_recording_keeps_the_name_of_its_file() -> None:
    name = "host-123.20261121T143205.0123456.iotop.jsonl"
    message = f"recording, R stops it: /home/alice/.local/state/iotop-ai/recordings/{name}"
    spans = toast_spans(View(message=message), 80)
    assert sum(cells(span.text) for span in spans) <= 80
    assert spans[2].text.startswith(" R stops it: /h")
    assert spans[2].text.endswith(f"…/{name}")


@pytest.mark.parametrize("width", [80, 160])
def test_the_reason_for_another_folder_comes_after_the_whole_name_of_the_file(width: int) -> None:
    path = "/var/lib/iotop-ai/vm-20261129T103604.iotop.jsonl"
    spans = toast_spans(View(message=f"recording, R stops it: {path}; /tmp is writable by every user"), width)
    assert sum(cells(span.text) for span in spans) <= width
    text = "".join(span.text for span in spans)
    assert text.startswith(f"  recording, R stops it: {path}")
    assert ("; /tmp is writable by every user" in text) is (width == 160)
    assert "…" not in text


def test_an_alert_is_shown_differently_from_a_failure() -> None:
    one = alert_text("gpu_hot", "firing", "gpus.0.temperature_celsius 91 C", 0)
    assert one == "alert: gpu_hot firing, gpus.0.temperature_celsius 91 C"
    assert alert_text("gpu_hot", "firing", "91 C", 2).endswith("91 C; 2 more")
    tokens = {span.text: span.token for span in toast_spans(View(message=one), 80)}
    assert tokens["alert:"] == "warn"
    assert toast_spans(View(message="failed: alerts are off"), 80)[1].token == "bad"
