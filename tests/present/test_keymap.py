"""One table of keys: no key twice on a screen, names as people write them, and what a user's choice makes of it."""

import pytest

from iotop_ai.present.help import help_rows
from iotop_ai.present.keymap import (
    SCREENS,
    Taken,
    all_acts,
    key_named,
    key_shown,
    remapped,
)
from iotop_ai.present.keys import BACK_KEYS, KEYS, REPLAY_KEYS, keys_of, keys_rows
from iotop_ai.present.view import View
from tests.present.make import Machine, frame, snapshots


@pytest.mark.parametrize("screen", SCREENS)
def test_a_key_has_one_action_on_a_screen(screen: str) -> None:
    keys = [key for act in SCREENS[screen] for key in act.keys]
    assert sorted(keys) == sorted(set(keys))
    names = [act.name for act in SCREENS[screen]]
    assert len(names) == len(set(names))


def test_a_name_means_one_action() -> None:
    found = {(act.name, act) for acts in SCREENS.values() for act in acts}
    assert len(found) == len(all_acts())


def test_what_the_help_prints_is_what_works() -> None:
    acts = all_acts()
    for key in (*KEYS, *REPLAY_KEYS, *BACK_KEYS):
        if not key.acts:
            assert key.keys in ("Tab", "End"), f"{key.keys} names no action"
            continue
        between = next((sign for sign in "/-" if sign in key.keys[1:-1]), " ")
        printed = key.keys.split(between) if len(key.acts) > 1 else [key.keys]
        assert len(printed) == len(key.acts)
        for shown, name in zip(printed, key.acts, strict=True):
            assert shown in map(key_shown, acts[name].keys)


def test_every_default_is_a_key_that_people_can_write() -> None:
    for act in all_acts().values():
        for key in act.keys:
            assert key_named(key_shown(key)) == key
            assert key_named(key) == key


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("F6", "f6"),
        ("Ctrl+T", "ctrl+t"),
        ("Ctrl-T", "ctrl+t"),
        ("Space", "space"),
        (" ", "space"),
        (">", "greater_than_sign"),
        ("R", "R"),
        ("ctrl++", "ctrl+plus"),
        ("shift+tab", "shift+tab"),
        ("shift+ctrl+left", "ctrl+shift+left"),
        ("-", "minus"),
        ("é", "é"),
        ("PgUp", "pageup"),
        ("shift+a", None),
        ("foo", None),
        ("", None),
        ("ctrl+ctrl+a", None),
        ("\x1b", None),
        ("f99", None),
    ],
)
def test_names_of_keys(typed: str, key: str | None) -> None:
    assert key_named(typed) == key


def test_a_choice_goes_before_a_default() -> None:
    keymap, taken = remapped({"filter.open": ["space"]})
    assert keymap == (("filter.open", ("space",)), ("time.pause", ()))
    assert taken == (Taken("space", "filter.open", "time.pause", both=False),)


def test_two_actions_may_change_their_keys() -> None:
    keymap, taken = remapped({"device.next": ["b"], "device.previous": ["n"]})
    assert dict(keymap) == {"device.next": ("b",), "device.previous": ("n",)}
    assert taken == ()


def test_two_choices_of_one_key_are_named_once() -> None:
    _, taken = remapped({"rows.active": ["f11"], "filter.open": ["f11"]})
    assert taken == (Taken("f11", "filter.open", "rows.active", both=True),)


def test_the_same_key_on_two_screens_is_no_conflict() -> None:
    assert remapped({"gpu.next": ["z"], "health.next": ["z"], "device.next": ["z"]})[1] == ()


def test_the_help_shows_the_users_keys() -> None:
    view = View(keymap=remapped({"filter.open": ["f7", "space"], "sort.next": ["ctrl+n"]})[0])
    keys = {key.word: key for key in keys_of(view)}
    assert keys["find"].keys == "F7"
    assert keys["find"].text.endswith("also Space")
    assert keys["sort"].keys == "< Ctrl-N"
    assert keys["pause"].keys == "none"
    shown = frame(snapshots(lambda i: Machine(), 3))
    text = "\n".join(line.text for line in help_rows(shown, view, 80, 24))
    assert " F7 " in text
    assert " / " not in text
    assert "F7:find" in keys_rows(shown, view, 160, 1)[0].text
