"""The keys of the screens above the main one, as their help prints them."""

from __future__ import annotations

from iotop_ai.present.keys import Key, as_chosen
from iotop_ai.present.view import View

TITLES = {
    "gpu": "GPU screen",
    "device": "device screen",
    "health": "health screen",
    "reasoning": "reasons",
    "jobs": "jobs",
}
"""What the help calls a screen."""
_NOW_ONLY = ("detail.record",)
"""What works only while nothing of the past is looked at."""


def _key(keys: str, text: str, *acts: str) -> Key:
    return Key(keys, "", text, 0, acts)


def _last(name: str, *now: Key) -> tuple[Key, ...]:
    """What ends every list: time, help, and the keys of the whole app. now: what is only for this kind of screen."""
    return (*_TIME, *now, _key("?", "help, also F1", f"{name}.help"), *_APP)


def _watched(name: str) -> tuple[Key, ...]:
    """The end of the list of a screen that shows one thing live."""
    return (
        _key("Space", "pause, or play", f"{name}.pause"),
        _key("+ -", "interval, or speed", f"{name}.longer", f"{name}.shorter"),
        *_last(name, _key("End", "back to now", f"{name}.now")),
    )


_TIME = (
    _key("[ ]", "step back, on", "detail.back", "detail.on"),
    _key("v/V", "next, last change", "detail.next_verdict", "detail.previous_verdict"),
    _key("'", "mark; next mark", "detail.mark"),
    _key("R", "record", "detail.record"),
)
_APP = (
    _key(":", "every action", "app.palette"),
    _key("P", "save a picture", "app.picture"),
    _key("q", "quit", "app.quit"),
)


def _rows(name: str, what: str) -> tuple[Key, ...]:
    """Keys that move by rows and pages."""
    return (
        _key("Up/Down", what, f"{name}.up", f"{name}.down"),
        _key("PgUp/PgDn", "by a page", f"{name}.page_up", f"{name}.page_down"),
        _key("Home/End", "first, last", f"{name}.first", f"{name}.last"),
    )


SCREEN_KEYS: dict[str, tuple[Key, ...]] = {
    "gpu": (
        _key("Esc", "back, also g", "gpu.back"),
        _key("b/n", "previous, next GPU", "gpu.previous", "gpu.next"),
        *_watched("gpu"),
    ),
    "device": (
        _key("Esc", "back", "disk.back"),
        _key("b/n", "previous, next device", "disk.previous", "disk.next"),
        _key("h", "its health", "disk.health"),
        *_watched("disk"),
    ),
    "health": (
        _key("Esc", "back", "health.back"),
        _key("h", "main screen", "health.main"),
        _key("Enter", "open the disk", "health.disk"),
        _key("b/n", "previous, next", "health.previous", "health.next"),
        *_rows("health", "disk; or scroll"),
        _key("T", "self-test", "health.test"),
        _key("u", "ask the disks now", "health.ask"),
        *_last("health"),
    ),
    "reasoning": (
        _key("Esc", "back, also Enter", "reason.back"),
        *_rows("reason", "scroll"),
        _key("c", "copy the verdict", "reason.copy"),
        _key("x", "acknowledge", "reason.acknowledge"),
        _key("j", "next job", "reason.job"),
        _key("Space", "pause, or play", "reason.pause"),
        *_last("reason"),
    ),
    "jobs": (
        _key("Esc", "back, also J", "jobs.back"),
        _key("Enter", "verdict about it", "jobs.choose"),
        _key("Up/Down", "job", "jobs.up", "jobs.down"),
        _key("Home/End", "first, last", "jobs.first", "jobs.last"),
        _key("j", "next job", "jobs.next"),
        *_last("jobs"),
    ),
}
"""By the name of the screen in present/keymap.py; every action that a key has there but Ctrl-C and Ctrl-Z."""


def screen_keys(view: View, screen: str) -> tuple[Key, ...]:
    """The keys that work on this screen in this mode, as the user has set them; () for the main screen."""
    now = view.mode in ("live", "paused") and not view.remote
    keys = SCREEN_KEYS.get(screen, ())
    return tuple(as_chosen(key, view.keymap) for key in keys if now or not set(key.acts) & set(_NOW_ONLY))
