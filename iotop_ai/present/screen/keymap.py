"""The user's own keys: the keys of each action, and the conflicts between two actions of a screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.screen.actions import SCREENS, Action, all_actions

Keymap = tuple[tuple[str, tuple[str, ...]], ...]
"""(name of an action, its keys as Textual names them) for each action whose keys are not the defaults."""
NO_KEY = "no_key"
"""Stands for the keys of an action without keys: no terminal sends it."""


def keys_of_action(action: Action, keymap: Keymap) -> tuple[str, ...]:
    """The keys that an action has."""
    return dict(keymap).get(action.name, action.keys)


class KeyConflict(NamedTuple):
    """A key that two actions of a screen use.

    remapped_action: uses it by the user's settings. other_action: uses it by default, or by the user's settings, too
    (both_remapped).
    """

    key: str
    remapped_action: str
    other_action: str
    both_remapped: bool


def remapped(settings: Mapping[str, Iterable[str]]) -> tuple[Keymap, tuple[KeyConflict, ...]]:
    """The keymap of the user's settings, and every key in it that another action of the same screen wants.

    settings: name of an action to its keys as Textual names them. A setting takes its key from an action that has it
    by default.
    """
    keys = {name: tuple(dict.fromkeys(wanted)) for name, wanted in settings.items()}
    conflicts: dict[tuple[str, str, str], KeyConflict] = {}
    lost: dict[str, set[str]] = {}
    for actions in SCREENS.values():
        for action in actions:
            for other in actions:
                if other.name == action.name or action.name not in keys:
                    continue
                both_remapped = other.name in keys
                for key in keys[action.name]:
                    if key not in keys.get(other.name, other.keys):
                        continue
                    pair = action.name, other.name
                    first, second = sorted(pair) if both_remapped else pair
                    conflicts[key, first, second] = KeyConflict(key, first, second, both_remapped)
                    if not both_remapped:
                        lost.setdefault(other.name, set()).add(key)
    actions_by_name = all_actions()
    for name, lost_keys in lost.items():
        keys[name] = tuple(key for key in actions_by_name[name].keys if key not in lost_keys)
    return tuple(sorted(keys.items())), tuple(conflicts.values())
