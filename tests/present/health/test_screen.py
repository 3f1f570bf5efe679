"""The rows of the health screen name the keys that the user has set."""

import pytest

from iotop_ai.model.reading import Reading
from iotop_ai.present.health.screen import health_screen_rows
from iotop_ai.present.health.view import HealthView
from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.mouse import key_at
from iotop_ai.present.screen.view import View
from tests.present.health_scene import ill

LIST, PAGE = (HealthView(disk=disk, cursor="sda", may_test=True, may_ask=True) for disk in ("", "sda"))
OWN = {"health.back": ["f7"], "health.next": ["f11"], "health.test": ["f8"], "health.ask": ["f9"], "app.quit": ["Q"]}


def rows(health: HealthView, view: View) -> list[str]:
    return [line.text.rstrip() for line in health_screen_rows(ill(), view, health, 100, 24)]


@pytest.mark.parametrize(
    ("health", "keys", "own_keys"),
    [
        (
            LIST,
            " Esc:back Up/Down:disk Enter:open T:self-test u:ask now ?:help q:quit",
            " F7:back Up/Down:disk Enter:open F8:self-test F9:ask now ?:help Q:quit",
        ),
        (
            PAGE,
            " Esc:back b/n:disk Up/Down:scroll T:self-test u:ask now ?:help q:quit",
            " F7:back b/F11:disk Up/Down:scroll F8:self-test F9:ask now ?:help Q:quit",
        ),
    ],
)
def test_the_keys_are_those_that_the_user_has_set(health: HealthView, keys: str, own_keys: str) -> None:
    own = View(keymap=user_keymap(OWN)[0])
    assert rows(health, View())[-1] == keys
    assert rows(health, own)[-1] == own_keys
    last = health_screen_rows(ill(), own, health, 100, 24)[-1]
    assert key_at(last, last.text.index("self-test")) == "f8"


@pytest.mark.parametrize(("disk", "sentence"), [("", "no disk has been read"), ("sda", "sda not read yet")])
def test_disks_that_have_not_been_read_are_not_called_missing(disk: str, sentence: str) -> None:
    snapshot = ill().snapshot._replace(disks=Reading(), smart=Reading())
    frame = ill()._replace(snapshot=snapshot)
    shown = [line.text for line in health_screen_rows(frame, View(mode="replay"), HealthView(disk=disk), 100, 24)]
    assert shown[1].startswith(f" UNSURE   {sentence}")
    assert not any("none was found" in line or "no longer" in line for line in shown)


def test_the_page_of_a_disk_names_the_keys_that_lead_away() -> None:
    own = View(keymap=user_keymap(OWN)[0])
    assert rows(PAGE, View())[1].endswith(" of 7  b/n")
    assert rows(PAGE, own)[1].endswith(" of 7  b/F11")
    gone = HealthView(disk="sdz")
    assert rows(gone, View())[1].endswith(" Esc")
    assert rows(gone, own)[1].endswith(" F7")
