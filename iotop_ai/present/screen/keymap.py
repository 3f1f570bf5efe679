"""The keys that the user has set for actions, and conflicts between two actions of a screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.screen.actions import SCREENS, Action, all_actions
from iotop_ai.present.screen.key_names import key_label

Keymap = tuple[tuple[str, tuple[str, ...]], ...]
"""(the name of an action, its keys by Textual's names) for each action whose keys differ from the defaults."""
NO_KEY = "no_key"
"""The key of an action without keys. Terminals do not send it."""


def keys_of_action(action: Action, keymap: Keymap) -> tuple[str, ...]:
    """The keys of this action."""
    return dict(keymap).get(action.name, action.keys)


@lru_cache(maxsize=32)
def first_key(name: str, keymap: Keymap) -> str:
    """The first key of the action with this name, as the screen shows it: "d"; "" if the action has no key."""
    keys = keys_of_action(all_actions()[name], keymap)
    return key_label(keys[0]) if keys else ""


class KeyConflict(NamedTuple):
    """A key that two actions of a screen use.

    remapped_action: the action for which the user set the key. other_action: the action that has the key by default, or
    also by the user's settings. both_remapped: whether the user set it for both.
    """

    key: str
    remapped_action: str
    other_action: str
    both_remapped: bool


def user_keymap(settings: Mapping[str, Iterable[str]]) -> tuple[Keymap, tuple[KeyConflict, ...]]:
    """The keymap for the user's settings, and the keys in it that another action of the same screen uses too.

    settings: the keys of each action, by Textual's names. A key in the settings no longer runs another action
    that has it by default.
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
