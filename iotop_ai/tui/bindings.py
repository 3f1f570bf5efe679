"""The keys of each screen as Textual's bindings, made from the tables of present/keymap.py."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from iotop_ai.present.keymap import (
    APP_ACTS,
    DEVICE_ACTS,
    GPU_ACTS,
    HEALTH_ACTS,
    JOBS_ACTS,
    MAIN_ACTS,
    NO_KEY,
    REASON_ACTS,
    Act,
    Keymap,
)


def bindings(acts: Iterable[Act]) -> list[BindingType]:
    """One binding an action, with its name as the id by which the user's keymap finds it."""
    return [
        Binding(",".join(act.keys), act.action, act.text, show=False, priority=act.priority, id=act.name)
        for act in acts
    ]


def textual_keymap(keymap: Keymap) -> dict[str, str]:
    """The user's keymap as ``App.set_keymap`` takes it."""
    return {name: ",".join(keys) or NO_KEY for name, keys in keymap}


APP_KEYS = bindings(APP_ACTS)
MAIN_KEYS = bindings(MAIN_ACTS)
DEVICE_KEYS = bindings(DEVICE_ACTS)
GPU_KEYS = bindings(GPU_ACTS)
HEALTH_KEYS = bindings(HEALTH_ACTS)
REASON_KEYS = bindings(REASON_ACTS)
JOBS_KEYS = bindings(JOBS_ACTS)
