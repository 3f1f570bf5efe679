from __future__ import annotations

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.model.health.attributes import MEANINGS
from iotop_ai.model.health.smart import RUNNING, PastPoint, SelfTest, SmartState
from iotop_ai.model.health.volume import NOT_QUERIED, disks_queried_on
from iotop_ai.model.reading import Reading, Status
from iotop_ai.pipeline import frames
from iotop_ai.present.health.detail import _hours_ago, most_scroll, resample
from iotop_ai.present.health.screen import health_screen_rows
from iotop_ai.present.health.summary import _two_digits, health, reading_health
from iotop_ai.present.health.table import kernel_counts_text
from iotop_ai.present.health.view import (
    Dialog,
    HealthView,
    accepted_words,
    disk_row,
    disk_rows,
    health_disk,
    why_no_test,
)
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import spans_cells
from iotop_ai.present.text.theme import TOKENS
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.store.format.codec import Decoder, Encoder, SnapLine
from tests.present.health_scene import SUDOERS, failing, ill, ill_snapshots, worn
from tests.present.make import Disk, Machine, disk, frame, snapshot

SIZES = [(80, 24), (160, 48), (60, 15)]
LIST = HealthView(may_test=True, may_ask=True)
NO_SMART: Reading = Reading(None, Status.ABSENT, "smartctl is not installed")  # type: ignore[type-arg]


def text(shown: Frame, view: HealthView, width: int = 80, height: int = 24) -> str:
    return "\n".join(line.text.rstrip() for line in health_screen_rows(shown, View(), view, width, height))


def everything(shown: Frame, view: HealthView, width: int) -> str:
    """Every row on the page of a disk."""
    return text(shown, view, width, 300)


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(
    "view",
    [
        LIST,
        LIST._replace(cursor="nvme3n1"),
        LIST._replace(disk="sda"),
        LIST._replace(disk="sda", scroll=1000),
        LIST._replace(disk="nvme0n1"),
        LIST._replace(disk="nvme2n1"),
        LIST._replace(disk="gone"),
        LIST._replace(dialog=Dialog("sda")),
        LIST._replace(disk="sda", dialog=Dialog("sda", TypedText("sho"), "Type short or long; press Esc to close.")),
    ],
)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_row_fills_the_width_with_known_styles(
    width: int, height: int, view: HealthView, ascii_only: bool
) -> None:
    rows = health_screen_rows(ill(), View(ascii_only=ascii_only), view, width, height)
    assert len(rows) == height
    for line in rows:
        assert spans_cells(line.spans) == width, line.text
        assert {span.token for span in line.spans} <= set(TOKENS)
        assert not ascii_only or line.text.isascii()


def test_the_list_has_a_verdict_on_each_disk() -> None:
    shown = text(ill(), LIST)
    rows = {line.lstrip("> ").split()[0]: line for line in shown.splitlines()[3:10]}
    for name, word in (
        ("sda", "FAILING"),
        ("nvme0n1", "worn"),
        ("nvme1n1", "ok"),
        ("nvme2n1", "? hung"),
        ("nvme3n1", "? root"),
        ("sdb", "asleep"),
        ("vda", "no SMART"),
    ):
        assert word in rows[name], name
    wide = text(ill(), LIST, 160)
    sentence = " FAILING  sda fails; nvme0n1 warns; nvme2n1, nvme3n1 unknown; 1 ok; 1 without SMART; 1 asleep"
    assert wide.splitlines()[1].startswith(sentence)
    assert "asked 3 min ago" in shown
    assert "T:self-test" not in shown  # the cursor is on an NVMe disk, for which this smartctl cannot start a self-test
    assert "nvme0n1" in shown.splitlines()[3]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.OFF, "NOT READ 7 disks: 7 not read"),
        (Status.ABSENT, "NO TOOL  7 disks: 7 not read"),
        (Status.PENDING, "ASKING   7 disks: 7 without an answer"),
    ],
)
def test_the_state_and_sentence_say_whether_disks_were_asked(status: Status, words: str) -> None:
    shown = ill()
    off = shown._replace(snapshot=shown.snapshot._replace(smart=Reading(None, status, "no answer")))
    assert text(off, LIST, 160).splitlines()[1].strip() == words


def test_a_failing_disk_has_the_cure_that_the_verdict_has() -> None:
    """Two places of one screen must not contradict each other."""
    shown = list(frames(ill_snapshots(12)))[-1]
    cures = {one.subject: one for one in shown.verdict.findings if one.class_id == "failing_disk"}
    assert "sda" in cures
    for view in (LIST._replace(cursor="sda"), LIST._replace(disk="sda")):
        assert " do       back up sda now, then replace it" in text(shown, view)
    assert "back up sda now" not in text(shown, LIST._replace(cursor="nvme1n1"))


def test_a_remedy_is_not_cut() -> None:
    shown = text(ill(), LIST._replace(cursor="nvme3n1"), 100, 40)
    remedy = " ".join(line.removeprefix(" do").strip() for line in shown.splitlines())
    assert SUDOERS in remedy


def test_a_replay_has_the_reason_without_the_remedy() -> None:
    lines = health_screen_rows(ill(), View(mode="replay"), LIST._replace(cursor="nvme3n1"), 100, 40)
    shown = "\n".join(line.text for line in lines)
    assert "reading SMART needs root" in shown
    assert "NOPASSWD" not in shown


def test_the_page_of_a_disk_has_all_its_facts() -> None:
    shown = everything(ill(), LIST._replace(disk="sda"), 160)
    for piece in (
        "sda  HDD  ST4000NM0035",
        "24 pending sectors, +4 in 24 h",
        "pending-grows",
        "1,800 reallocated sectors, +9 in 24 h",
        "Reallocated_Sector_Ct",
        "bad sectors replaced by spare ones",
        "+9 in 24 h",
        "over time, last 40 d",
        "Extended offline",
        "Completed: read failure",
        "UNC at LBA",
        "96: an attribute was at its limit; the error log has entries",
        "31,204 h (3.6 years)",
        "commands failed",
        "37, SMART queries included",
        "growth over the 24 h before that",
    ):
        assert piece in shown, piece
    assert "% done" not in shown
    shown = everything(ill(self_test_left=40), LIST._replace(disk="sda"), 80)
    assert "60 % done" in shown
    assert "about 5 months at this rate" not in shown


def test_wear_is_shown_with_its_forecast() -> None:
    assert worn().reasons == ("92 % of its rated life used, about 5 months at this rate",)
    shown = everything(ill(), LIST._replace(disk="nvme0n1"), 100)
    assert "92 % of its rated life used, about 5 months at this rate" in shown
    assert " rated life used   92 %, about 5 months at this rate\n" in shown
    assert " wear       92 %    " in shown
    assert "attribute" not in shown


def test_a_page_can_be_scrolled_to_its_last_row_and_no_further() -> None:
    view = LIST._replace(disk="sda")
    most = most_scroll(ill(), View(), view, 80, 22)
    assert most > 0
    end = text(ill(), view._replace(scroll=most))
    assert end == text(ill(), view._replace(scroll=most + 50))
    assert "UNC at LBA" in end
    assert "more rows below" in text(ill(), view)


def test_the_question_names_the_duration_and_the_risk() -> None:
    shown = text(ill(), LIST._replace(disk="sda", dialog=Dialog("sda", TypedText("sh"))))
    for piece in ("self-test of sda", "no data is", "captive", "short  about 2 min", "long   about 54 min"):
        assert piece in shown, piece
    assert "Type short or long, then Enter: sh" in shown
    assert shown.splitlines()[-1].split() == ["Enter:do", "it", "Esc:leave", "it"]
    running = text(ill(self_test_left=70), LIST._replace(dialog=Dialog("sda")))
    assert "30 % is done" in running
    assert "Type abort, then Enter" in running


def test_the_dialog_of_a_disk_that_has_disappeared_asks_nothing() -> None:
    shown = text(ill(), LIST._replace(dialog=Dialog("sdz", TypedText("sh"))))
    assert "self-test of sdz" in shown
    assert "sdz is gone: press Esc to close." in shown
    for piece in ("then Enter", "captive"):
        assert piece not in shown, piece


@pytest.mark.parametrize(
    ("protocol", "hours", "stamp", "words"),
    [
        ("ata", 70_000, 70_000 - 65_536, "at least 0 s of power-on time ago"),
        ("ata", 70_000, 69_900 - 65_536, "at least 4 d 4 h of power-on time ago"),
        ("ata", 70_000, 65_500, "at least 187 d 12 h of power-on time ago"),
        ("ata", 60_000, 59_900, "4 d 4 h of power-on time ago"),
        ("nvme", 70_000, 60_000, "416 d 16 h of power-on time ago"),
        ("ata", 100, 200, "at hour 200"),
        ("ata", None, 200, "at hour 200"),
    ],
)
def test_the_age_of_a_log_entry_is_right_when_its_hours_wrapped(
    protocol: str, hours: int | None, stamp: int, words: str
) -> None:
    assert _hours_ago(failing()._replace(protocol=protocol, power_on_hours=hours), stamp) == words


def test_a_running_self_test_without_a_percentage_can_be_ended() -> None:
    state = failing()._replace(self_test_log=(SelfTest("Background short", RUNNING),))
    shown = frame([snapshot(Machine(disks=(Disk(disk("sda")),), smart={"sda": Reading(state, Status.OK)}))])
    row = disk_row(shown, "sda")
    assert row is not None
    assert accepted_words(row) == ("abort",)
    page = everything(shown, LIST._replace(disk="sda"), 80)
    assert "running" in page
    assert "progress unknown" in page
    assert "A self-test of this disk runs. Ending it" in text(shown, LIST._replace(dialog=Dialog("sda")))


def test_only_keys_that_work_now_are_shown() -> None:
    def keys(view: HealthView) -> str:
        return text(ill(), view, 100).splitlines()[-1]

    assert "T:self-test" in keys(LIST._replace(cursor="sda"))
    assert "T:self-test" in keys(LIST._replace(disk="sda"))
    for cursor in ("nvme0n1", "nvme2n1", "nvme3n1", "sdb", "vda"):
        assert "T:self-test" not in keys(LIST._replace(cursor=cursor)), cursor
    assert "T:self-test" not in keys(HealthView(cursor="sda", may_ask=True))
    assert "u:ask now" not in keys(HealthView(cursor="sda"))
    assert "Enter:open" not in keys(LIST._replace(disk="sda"))


def test_the_reason_why_there_is_no_self_test_is_shown() -> None:
    shown = ill()
    assert why_no_test(disk_row(shown, "sda"), LIST) == ""
    assert "--readonly" in why_no_test(disk_row(shown, "sda"), HealthView())
    assert "an NVMe disk needs version 7.4" in why_no_test(disk_row(shown, "nvme1n1"), LIST)
    assert why_no_test(disk_row(shown, "sdb"), LIST).startswith("sdb sleeps: ")
    assert why_no_test(disk_row(shown, "nvme3n1"), LIST) == "no SMART data of nvme3n1: reading SMART needs root"
    assert why_no_test(disk_row(shown, "vda"), LIST).startswith("no SMART data of vda: a virtio disk has no SMART")
    failed = frame([snapshot(Machine(disks=(Disk(disk("sda")),), smart={"sda": Reading(None, Status.FAILED)}))])
    assert why_no_test(disk_row(failed, "sda"), LIST) == "sda does not answer: smartctl failed"
    assert why_no_test(None, LIST._replace(disk="sdz")) == "sdz is gone"
    assert why_no_test(None, LIST) == "this machine has no disk"


def test_a_sleeping_disk_is_asleep_unless_it_has_a_fault() -> None:
    fine = reading_health(
        Reading(worn()._replace(severity="ok", reasons=()), Status.ASLEEP, "the disk sleeps"), NO_SMART
    )
    assert (fine.word, fine.token) == ("asleep", "dim")
    sick = reading_health(Reading(failing(), Status.ASLEEP, "the disk sleeps"), NO_SMART)
    assert (sick.word, sick.token) == ("FAILING", "bad")
    assert sick.reason.endswith("(now asleep)")


def test_a_disk_without_a_device_node_is_reported() -> None:
    absent = reading_health(Reading(None, Status.ABSENT, "no device node here: x"), NO_SMART)
    assert (absent.word, absent.token, absent.reason) == ("no node", "unsure", "no device node here: x")


def test_an_unknown_disk_is_never_shown_as_ok() -> None:
    for status in Status:
        state = SmartState("d", "nvme", "M", "S", "F", None, "unknown", ())
        assert reading_health(Reading(state, status), NO_SMART).word != "ok"
        assert reading_health(Reading(None, status), NO_SMART).word != "ok"


def test_a_raid_volume_has_the_health_of_its_worst_disk() -> None:
    ok, bad = (worn()._replace(severity="ok", reasons=()), failing())
    table = {
        "sda": Reading(None, Status.UNSUPPORTED, "a RAID volume: the disks behind it are queried"),
        "sda/megaraid,0": Reading(ok, Status.OK),
        "sda/megaraid,1": Reading(bad, Status.OK),
    }
    shown = frame([snapshot(Machine(disks=(Disk(disk("sda")),), smart=table))])
    assert health(shown, "sda").word == "FAILING"
    assert [one.name for one in disk_rows(shown)] == ["sda", "sda/megaraid,0", "sda/megaraid,1"]
    assert health_disk(shown, "sda") == "sda"
    assert health_disk(shown, "nothing") == ""


def test_a_raid_volume_has_the_health_of_the_disks_on_its_bus() -> None:
    ok, bad = (worn()._replace(severity="ok", reasons=()), failing())
    table = {
        "sda": Reading(None, Status.UNSUPPORTED, disks_queried_on("bus/0")),
        "sdb": Reading(None, Status.UNSUPPORTED, disks_queried_on("bus/10")),
        "sdc": Reading(None, Status.UNSUPPORTED, NOT_QUERIED),
        "bus/0/megaraid,0": Reading(ok, Status.OK),
        "bus/10/megaraid,0": Reading(ok, Status.OK),
        "bus/10/sat+megaraid,1": Reading(bad, Status.OK),
    }
    disks = tuple(Disk(disk(name)) for name in ("sda", "sdb", "sdc"))
    partition = Disk(disk("sdb1", "partition")._replace(parent="sdb"))
    shown = frame([snapshot(Machine(disks=(*disks, partition), smart=table))])
    words = {name: health(shown, name).word for name in ("sda", "sdb", "sdb1", "sdc")}
    assert words == {"sda": "ok", "sdb": "FAILING", "sdb1": "FAILING", "sdc": "no SMART"}


def test_mounted_devices_without_smart_of_their_own_are_named() -> None:
    loops = (disk("loop0", "loop", [("/mnt/data", "ext4")]), disk("dm-0", "dm", [("/", "ext4")]), disk("loop1", "loop"))
    shown = frame([snapshot(Machine(disks=tuple(Disk(one) for one in (disk("vda"), *loops))))])
    page = text(shown, LIST).splitlines()
    line = next(line for line in page if "loop0" in line)
    assert line.strip() == "without SMART of their own: loop0 (/mnt/data), dm-0 (/)"
    assert "vda" in page[page.index(line) - 1]
    assert "without SMART of" not in text(ill(), LIST)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(20, "20s"), (99.4, "99s"), (99.5, "2m"), (5969, "99m"), (5970, "2h"), (358_300, "4d"), (1e9, "99d")],
)
def test_the_duration_of_a_hang_fits_its_column(seconds: float, text: str) -> None:
    assert _two_digits(seconds) == text
    assert len(f"hung {text}") <= 8


def test_the_list_without_smartctl_has_a_remedy() -> None:
    shown = frame([snapshot(Machine(disks=(Disk(disk("sda", model="M1")),)))])
    lines = text(shown, LIST)
    assert "no tool" in lines
    assert "smartctl is not installed" in lines
    assert "M1" in lines


def test_curves_continue_a_value_for_a_day_but_not_over_a_gap() -> None:
    day = 86_400
    near = [PastPoint(n * day, 40 + n) for n in range(5)]
    assert resample(near, "temperature_celsius", 9) == [40, 40, 41, 41, 42, 42, 43, 43, 44]
    far = [PastPoint(0, 40), PastPoint(day, 41), *(PastPoint((60 + n) * day, 50) for n in range(6))]
    values = resample(far, "temperature_celsius", 66)
    assert values[0] == 40
    assert values[30] is None
    assert values[-1] == 50
    assert all(value is None for value in resample(near, "used_percent", 9))


def test_every_explanation_of_an_attribute_fits_a_wide_row() -> None:
    assert all(0 < number < 256 and len(words) <= 80 for number, words in MEANINGS.items())


def test_a_recording_shows_what_the_live_screen_showed() -> None:
    """Growth, forecast and curves are in the Snapshot, so a replay needs no state folder of the recorded machine."""
    live = list(frames(ill_snapshots(3)))
    encoder, decoder = Encoder(), Decoder()
    lines = [line for one in live for line in encoder.lines(one)]
    read = [item.snapshot for line in lines if isinstance(item := decoder.read(line.encode()), SnapLine)]
    again = list(frames(read))
    assert len(again) == 3
    for view in (LIST, LIST._replace(disk="sda"), LIST._replace(disk="nvme0n1")):
        assert text(again[-1], view, 160, 90) == text(live[-1], view, 160, 90)


def test_a_count_that_the_kernel_does_not_keep_is_not_shown_as_0() -> None:
    both = kernel_counts_text(failing()._replace(io_errors=1))
    assert both.endswith("disk, 1 command had a status other than good (SMART queries included), 2 timed out")
    old_kernel = kernel_counts_text(failing()._replace(io_timeouts=None))
    assert old_kernel.endswith("disk, 37 commands had a status other than good (SMART queries included)")
