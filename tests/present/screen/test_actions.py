"""The table of keys: on each screen a key has one action; each key has a name, by which users can rebind it."""

import pytest

from iotop_ai.present.screen.actions import SCREENS, all_actions
from iotop_ai.present.screen.help import help_rows
from iotop_ai.present.screen.key_names import key_label, parse_key
from iotop_ai.present.screen.key_row import keys_of, keys_rows
from iotop_ai.present.screen.keymap import KeyConflict, user_keymap
from iotop_ai.present.screen.view import View
from tests.present.make import Machine, frame, snapshots

KEYS, REPLAY_KEYS, BACK_KEYS = (keys_of(View(mode=mode)) for mode in ("live", "replay", "back"))


@pytest.mark.parametrize("screen", SCREENS)
def test_each_key_has_one_action_on_a_screen(screen: str) -> None:
    keys = [key for action in SCREENS[screen] for key in action.keys]
    assert sorted(keys) == sorted(set(keys))
    names = [action.name for action in SCREENS[screen]]
    assert len(names) == len(set(names))


def test_each_name_belongs_to_one_action() -> None:
    found = {(action.name, action) for actions in SCREENS.values() for action in actions}
    assert len(found) == len(all_actions())


def test_the_help_prints_the_keys_that_work() -> None:
    actions = all_actions()
    for key in (*KEYS, *REPLAY_KEYS, *BACK_KEYS):
        if not key.actions:
            assert key.keys == "Tab", f"{key.keys} names no action"
            continue
        between = next((sign for sign in "/-" if sign in key.keys[1:-1]), " ")
        printed = key.keys.split(between) if len(key.actions) > 1 else [key.keys]
        assert len(printed) == len(key.actions)
        for shown, name in zip(printed, key.actions, strict=True):
            assert shown in map(key_label, actions[name].keys)


def test_every_default_key_has_a_name_that_users_can_write() -> None:
    for action in all_actions().values():
        for key in action.keys:
            assert parse_key(key_label(key)) == key
            assert parse_key(key) == key


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
def test_the_name_of_a_key_is_parsed(typed: str, key: str | None) -> None:
    assert parse_key(typed) == key


def test_a_key_bound_in_the_settings_takes_precedence_over_a_default_binding() -> None:
    keymap, conflicts = user_keymap({"filter.open": ["space"]})
    assert keymap == (("filter.open", ("space",)), ("time.pause", ()))
    assert conflicts == (KeyConflict("space", "filter.open", "time.pause", both_remapped=False),)


def test_two_actions_can_swap_their_keys() -> None:
    keymap, conflicts = user_keymap({"device.next": ["b"], "device.previous": ["n"]})
    assert dict(keymap) == {"device.next": ("b",), "device.previous": ("n",)}
    assert conflicts == ()


def test_two_settings_with_one_key_are_one_conflict() -> None:
    _, conflicts = user_keymap({"rows.active": ["f11"], "filter.open": ["f11"]})
    assert conflicts == (KeyConflict("f11", "filter.open", "rows.active", both_remapped=True),)


def test_the_same_key_on_two_screens_is_not_a_conflict() -> None:
    assert user_keymap({"gpu.next": ["Z"], "health.next": ["Z"], "device.next": ["Z"]})[1] == ()


def test_the_help_shows_the_users_keys() -> None:
    view = View(keymap=user_keymap({"filter.open": ["f7", "space"], "sort.next": ["ctrl+n"]})[0])
    keys = {key.word: key for key in keys_of(view)}
    assert keys["find"].keys == "F7"
    assert keys["find"].text.endswith("also Space")
    assert keys["sort"].keys == "< Ctrl-N"
    assert keys["pause"].keys == "none"
    shown = frame(snapshots(lambda i: Machine(), 3))
    text = "\n".join(line.text for line in help_rows(view, 80, 24))
    assert " F7 " in text
    assert " / " not in text
    assert "F7:find" in keys_rows(shown, view, 160, 1)[0].text
