"""The keys of the main screen, each with an id by which it can be remapped."""

from __future__ import annotations

from textual.binding import Binding, BindingType

PANEL_KEYS = ("banner", "path", "graphs", "gpu", "disk", "process", "system")
"""Panels that 1, 2, ... show and hide, from the top of the screen down."""


def _key(key: str, action: str, description: str, name: str) -> Binding:
    return Binding(key, action, description, show=False, id=name)


APP_KEYS: list[BindingType] = [
    Binding("ctrl+c", "quit", "Quit", show=False, priority=True, id="app.interrupt"),
    Binding("ctrl+z", "suspend_process", "Suspend", show=False, priority=True, id="app.suspend"),
    _key("q", "quit", "Quit", "app.quit"),
]

DETAIL_KEYS: list[BindingType] = [
    _key("left_square_bracket", "app.time('step', -1)", "Step back", "detail.back"),
    _key("right_square_bracket", "app.time('step', 1)", "Step on", "detail.on"),
    _key("v", "app.time('verdict', 1)", "Next change of the verdict", "detail.next_verdict"),
    _key("V", "app.time('verdict', -1)", "Previous change of the verdict", "detail.previous_verdict"),
    _key("apostrophe", "app.time('mark')", "Mark now, or the next mark", "detail.mark"),
    _key("R", "app.time('record')", "Record", "detail.record"),
]
"""Keys of time on the screens above the main one: they move the main screen, which these follow."""

MAIN_KEYS: list[BindingType] = [
    _key("question_mark,f1", "help", "Help", "help.open"),
    *(_key(str(n), f"panel('{panel}')", f"Panel {panel}", f"panel.{panel}") for n, panel in enumerate(PANEL_KEYS, 1)),
    _key("g", "gpu", "GPU screen", "gpu.open"),
    _key("h", "health", "Disks' health", "health.open"),
    _key("enter", "open", "Open the row", "row.open"),
    _key("n", "device(1)", "Next device", "device.next"),
    _key("b", "device(-1)", "Previous device", "device.previous"),
    _key("right", "sideways(1)", "Next device, or 10 s on", "arrow.right"),
    _key("left", "sideways(-1)", "Previous device, or 10 s back", "arrow.left"),
    _key("slash", "find", "Filter", "filter.open"),
    _key("escape", "clear", "Clear the filter", "filter.clear"),
    _key("greater_than_sign", "sort(1)", "Sort by the next column", "sort.next"),
    _key("less_than_sign", "sort(-1)", "Sort by the column before", "sort.previous"),
    _key("r", "reverse", "Reverse the order", "sort.reverse"),
    _key("o", "only_active", "Only what is active", "rows.active"),
    _key("a", "accumulate", "Accumulated", "rows.accumulate"),
    _key("space", "pause", "Pause, or play", "time.pause"),
    _key("left_square_bracket", "step(-1)", "Step back", "time.back"),
    _key("right_square_bracket", "step(1)", "Step on", "time.on"),
    _key("at", "ask_time", "Go to a time", "time.go"),
    _key("v", "verdict(1)", "Next change of the verdict", "time.next_verdict"),
    _key("V", "verdict(-1)", "Previous change of the verdict", "time.previous_verdict"),
    _key("apostrophe", "mark", "Mark now, or the next mark", "time.mark"),
    _key("R", "record", "Record", "time.record"),
    _key("plus", "interval(1)", "Longer interval", "interval.longer"),
    _key("minus", "interval(-1)", "Shorter interval", "interval.shorter"),
    _key("down", "cursor(1)", "Down", "cursor.down"),
    _key("up", "cursor(-1)", "Up", "cursor.up"),
    _key("pagedown", "page(1)", "Page down", "cursor.page_down"),
    _key("pageup", "page(-1)", "Page up", "cursor.page_up"),
    _key("home", "cursor(-1000000)", "First", "cursor.first"),
    _key("end", "cursor(1000000)", "Last", "cursor.last"),
]
