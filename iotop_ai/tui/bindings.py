"""The keys of each screen as Textual's bindings, made from the tables of present/screen/actions.py."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from iotop_ai.present.screen.actions import (
    APP_ACTIONS,
    DEVICE_ACTIONS,
    FLEET_ACTIONS,
    FLEET_JOBS_ACTIONS,
    GPU_ACTIONS,
    HEALTH_ACTIONS,
    JOBS_ACTIONS,
    MAIN_ACTIONS,
    PROCESS_ACTIONS,
    REASON_ACTIONS,
    Action,
)
from iotop_ai.present.screen.keymap import NO_KEY, Keymap


def bindings(actions: Iterable[Action]) -> list[BindingType]:
    """A binding for each action. The id of a binding is the action's name, which the user's keymap refers to."""
    return [
        Binding(
            ",".join(action.keys), action.command, action.text, show=False, priority=action.priority, id=action.name
        )
        for action in actions
    ]


def textual_keymap(keymap: Keymap) -> dict[str, str]:
    """The user's keymap in the form that ``App.set_keymap`` takes."""
    return {name: ",".join(keys) or NO_KEY for name, keys in keymap}


APP_KEYS = bindings(APP_ACTIONS)
MAIN_KEYS = bindings(MAIN_ACTIONS)
DEVICE_KEYS = bindings(DEVICE_ACTIONS)
GPU_KEYS = bindings(GPU_ACTIONS)
HEALTH_KEYS = bindings(HEALTH_ACTIONS)
REASON_KEYS = bindings(REASON_ACTIONS)
JOBS_KEYS = bindings(JOBS_ACTIONS)
PROCESS_KEYS = bindings(PROCESS_ACTIONS)
FLEET_KEYS = bindings(FLEET_ACTIONS)
FLEET_JOBS_KEYS = bindings(FLEET_JOBS_ACTIONS)
