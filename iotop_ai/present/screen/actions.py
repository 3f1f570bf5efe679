"""All actions of all screens. The screens, the row of keys, the help, the palette and docs/configuration.md are made
from these tables, and the keys in a settings file are checked against them.
"""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple


class Hint(NamedTuple):
    """The words of an action.

    word: the word after the key in the row of keys; "" to show the key alone. help: the words in the help. drop: when
    the row is too short, the hint with the highest number is left out first. pair: the name of another action whose key
    shares the entry, as in "b/n"; "" for none.
    """

    word: str
    help: str
    drop: int = 0
    pair: str = ""


class Action(NamedTuple):
    """An action of a screen.

    keys: the default keys, by Textual's names. command: what the key runs, as in a binding of Textual. text: the words
    in the palette. name: an id, unique over all screens. priority: whether the key works wherever the focus is. hint:
    the action's entry in the row of keys and in the help; None for no entry. replay: the entry while the past is shown;
    above: the entry on the screens over the main one. For both, None stands for ``hint``.
    """

    keys: tuple[str, ...]
    command: str
    text: str
    name: str
    priority: bool = False
    hint: Hint | None = None
    replay: Hint | None = None
    above: Hint | None = None


def _key(
    keys: str,
    command: str,
    text: str,
    name: str,
    hint: Hint | None = None,
    *,
    priority: bool = False,
    replay: Hint | None = None,
    above: Hint | None = None,
) -> Action:
    """An Action. keys: the default keys, separated by commas."""
    return Action(tuple(keys.split(",")), command, text, name, priority, hint, replay, above)


PANEL_KEYS = ("banner", "path", "graphs", "gpu", "disk", "process", "system")
"""The names of the panels that the keys 1, 2, ... show and hide, from top to bottom."""
_PANELS_HINT = Hint("panels", "show or hide a panel", 7, f"panel.{PANEL_KEYS[-1]}")

APP_ACTIONS: tuple[Action, ...] = (
    _key("ctrl+c", "quit", "Quit", "app.interrupt", priority=True),
    _key("ctrl+z", "suspend_process", "Suspend to the shell; fg returns", "app.suspend", priority=True),
    _key("q,f10", "quit", "Quit", "app.quit", Hint("", "quit"), above=Hint("quit", "quit")),
    _key(
        "colon,ctrl+p",
        "palette",
        "Every action; type to find one",
        "app.palette",
        Hint("actions", "every action, also Ctrl-P", 5),
        priority=True,
        above=Hint("actions", "every action"),
    ),
    _key(
        "P,f12",
        "picture",
        "Save a picture of the screen, a screenshot",
        "app.picture",
        Hint("picture", "save a picture, also F12", 8),
        above=Hint("", "save a picture"),
    ),
)
"""The actions that all screens have."""

_LEAP = Hint("", "10 min back, forward", pair="detail.leap_on")

DETAIL_ACTIONS: tuple[Action, ...] = (
    _key(
        "left_square_bracket",
        "app.time('step', -1)",
        "Step back",
        "detail.back",
        Hint("time", "step back, ahead", pair="detail.on"),
    ),
    _key("right_square_bracket", "app.time('step', 1)", "Step forward", "detail.on"),
    _key("left_curly_bracket", "app.time('leap', -1)", "Ten minutes back in the history", "detail.leap_back", _LEAP),
    _key("right_curly_bracket", "app.time('leap', 1)", "Ten minutes forward", "detail.leap_on"),
    _key("at", "ask_time", "Go to a time", "detail.go", Hint("", "go to a time; mark, next mark", pair="detail.mark")),
    _key(
        "v",
        "app.time('verdict', 1)",
        "Next change of the verdict",
        "detail.next_verdict",
        Hint("change", "next, past change", pair="detail.previous_verdict"),
    ),
    _key("V", "app.time('verdict', -1)", "Previous change of the verdict", "detail.previous_verdict"),
    _key("apostrophe", "app.time('mark')", "Mark now, or the next mark", "detail.mark"),
    _key("R", "app.time('record')", "Record", "detail.record", Hint("", "record")),
)
"""The actions about time and recording on the screens over the main one. They run the main screen's actions."""

MAIN_ACTIONS: tuple[Action, ...] = (
    _key("question_mark,f1", "help", "Help", "help.open", Hint("", "this help, also F1")),
    *(
        _key(
            str(n),
            f"panel('{panel}')",
            f"Show or hide the panel {panel}",
            f"panel.{panel}",
            _PANELS_HINT if n == 1 else None,
        )
        for n, panel in enumerate(PANEL_KEYS, 1)
    ),
    _key(
        "z",
        "zoom",
        "The focused panel over the whole window, or all panels",
        "panels.zoom",
        Hint("zoom", "focused panel alone, or all", 3),
    ),
    _key("g", "gpu", "GPU screen", "gpu.open", Hint("GPU", "GPU screen", 2)),
    _key("h", "health", "Disks' health: SMART", "health.open", Hint("health", "disks' health", 2)),
    _key("L", "theme", "Next theme: dark, light, colours", "theme.next", Hint("theme", "next theme", 8)),
    _key("enter", "open", "Open the row: why, details", "row.open", Hint("why", "open the focused panel")),
    _key("n", "device(1)", "Next disk", "device.next"),
    _key("b", "device(-1)", "Previous disk", "device.previous", Hint("disk", "previous, next disk", 1, "device.next")),
    _key(
        "d",
        "devices",
        "Choose a disk from a list, or follow the job's",
        "device.list",
        Hint("devices", "list of disks, type to find", 4),
    ),
    _key("right", "sideways(1)", "Next disk, or 10 s forward", "arrow.right"),
    _key("left", "sideways(-1)", "Previous disk, or 10 s back", "arrow.left"),
    _key(
        "slash,f3,f4", "find", "Search, filter processes", "filter.open", Hint("find", "filter processes; Esc ends", 1)
    ),
    _key("escape", "clear", "Clear the filter", "filter.clear"),
    _key("greater_than_sign", "sort(1)", "Sort by the next column", "sort.next"),
    _key(
        "less_than_sign",
        "sort(-1)",
        "Sort by the previous column",
        "sort.previous",
        Hint("sort", "sort by another column", 3, "sort.next"),
    ),
    _key("r", "reverse", "Reverse the order", "sort.reverse", Hint("reverse", "reverse the order", 6)),
    _key("s,f6", "sort_list", "Sort by a column of a list", "sort.list", Hint("", "sort: list of columns, also F6", 9)),
    _key(
        "t,f5",
        "tree",
        "Processes under their parents, or folded",
        "rows.tree",
        Hint("tree", "tree of processes, also F5", 6),
    ),
    _key("C,f2", "columns", "Show or hide columns", "rows.columns", Hint("", "columns to show, also F2", 9)),
    _key(
        "T", "tag", "Tag the process, or untag it", "rows.tag", Hint("tag", "tag a process; untag all", 6, "rows.untag")
    ),
    _key("U", "untag", "Untag every process", "rows.untag"),
    _key(
        "y", "copy_row", "Copy the row, or every tagged process", "row.copy", Hint("", "copy the row, or all tagged", 9)
    ),
    _key("o", "only_active", "Only active rows", "rows.active", Hint("active", "only active rows", 4)),
    _key("a", "accumulate", "Accumulated", "rows.accumulate", Hint("sums", "sums since now, or rates", 5)),
    _key(
        "space",
        "pause",
        "Pause, or play",
        "time.pause",
        Hint("pause", "stop drawing, keep watching", 3),
        replay=Hint("play", "play, pause"),
    ),
    _key(
        "left_square_bracket",
        "step(-1)",
        "Step back",
        "time.back",
        Hint("back", "look back, forward", 2, "time.on"),
        replay=Hint("step", "step; Left, Right 10 s; PgUp, PgDn 1 min", 0, "time.on"),
    ),
    _key("right_square_bracket", "step(1)", "Step forward", "time.on"),
    _key(
        "left_curly_bracket",
        "leap(-1)",
        "Ten minutes back in the history",
        "time.leap_back",
        Hint("", "ten minutes back, forward", 8, "time.leap_on"),
    ),
    _key("right_curly_bracket", "leap(1)", "Ten minutes forward", "time.leap_on"),
    _key(
        "at",
        "ask_time",
        "Go to a time",
        "time.go",
        Hint("", "look back at a time: -10m, 14:32", 8),
        replay=Hint("go", "go to 14:32, -3m, start", 1),
    ),
    _key(
        "v",
        "verdict(1)",
        "Next change of the verdict",
        "time.next_verdict",
        replay=Hint("verdict", "next, previous verdict change", 1, "time.previous_verdict"),
    ),
    _key("V", "verdict(-1)", "Previous change of the verdict", "time.previous_verdict"),
    _key(
        "apostrophe",
        "mark",
        "Mark now, or the next mark",
        "time.mark",
        Hint("mark", "mark this moment, with a text", 5),
        replay=Hint("to mark", "next mark, alert, or job's end", 1),
    ),
    _key(
        "R", "record", "Record, or stop recording", "time.record", Hint("record", "record, graphs from 60 s before", 1)
    ),
    _key("j", "job(1)", "Next job", "job.next", Hint("job", "next job; J: every job", 1)),
    _key("J", "jobs", "Every job, and where its time went", "job.list"),
    _key(
        "X",
        "dismiss_problems",
        "Dismiss the row of doctor's findings",
        "doctor.dismiss",
        Hint("", "dismiss doctor's row", 9),
    ),
    _key(
        "B",
        "units",
        "Units of rates: 1 MB = 1,048,576 B or 1,000,000 B",
        "rates.units",
        Hint("", "MB of 1,048,576 or 1,000,000 B", 9),
    ),
    _key("c", "copy", "Copy the verdict", "verdict.copy", Hint("copy", "copy the verdict", 5)),
    _key(
        "x",
        "acknowledge",
        "Acknowledge a failing disk or GPU, or a job that died",
        "verdict.acknowledge",
        Hint("", "acknowledge a failing part or a death", 7),
    ),
    _key("D", "drop_caches", "Drop caches", "act.drop_caches", Hint("drop-cache", "drop caches, or evict", 3)),
    _key("m", "check", "Check storage: what it gives a job", "act.check", Hint("", "measure storage: check", 7)),
    _key(
        "ctrl+t",
        "delay_accounting",
        "Switch delay accounting",
        "act.delay_accounting",
        Hint("waits", "delay accounting on, off", 7),
    ),
    _key(
        "k,f9",
        "process('')",
        "Signal a process: kill, stop, continue",
        "act.signal",
        Hint("act", "signal, nice, I/O; also tagged", 5, "act.ionice"),
    ),
    _key("f7,f8", "process('nice ')", "Renice a process", "act.nice"),
    _key("i", "process('io ')", "Change a process's I/O priority", "act.ionice"),
    _key(
        "plus",
        "interval(1)",
        "Longer interval",
        "interval.longer",
        Hint("interval", "interval, 0.1 s to 60 s", 4, "interval.shorter"),
        replay=Hint("speed", "speed, 0.25x to 64x", 2, "interval.shorter"),
    ),
    _key("minus", "interval(-1)", "Shorter interval", "interval.shorter"),
    _key("down", "cursor(1)", "Down", "cursor.down"),
    _key("up", "cursor(-1)", "Up", "cursor.up"),
    _key("pagedown", "page(1)", "Page down", "cursor.page_down"),
    _key("pageup", "page(-1)", "Page up", "cursor.page_up"),
    _key("home", "cursor(-1000000)", "First", "cursor.first"),
    _key("end", "cursor(1000000)", "Last", "cursor.last", replay=Hint("now", "back to now, also Esc")),
)


def _help_action(screen: str) -> Action:
    return _key("question_mark,f1", "help", "Help", f"{screen}.help", Hint("help", "help, also F1"))


def _pace_actions(screen: str) -> tuple[Action, ...]:
    """The actions for pause and interval of a screen over the main one. screen: the prefix of their names."""
    shorter = f"{screen}.shorter"
    longer = Hint("interval", "interval, or speed", pair=shorter)
    return (
        _key(
            "space",
            "pause",
            "Pause",
            f"{screen}.pause",
            Hint("pause", "pause, or play"),
            replay=Hint("play", "play, pause"),
        ),
        _key(
            "plus",
            "interval(1)",
            "Longer interval",
            f"{screen}.longer",
            longer,
            replay=Hint("speed", "speed, 0.25x to 64x", pair=shorter),
        ),
        _key("minus", "interval(-1)", "Shorter interval", shorter),
    )


def _time_actions(screen: str) -> tuple[Action, ...]:
    """The actions for pause, interval, time and help of a screen over the main one. screen: their names' prefix."""
    return (
        *_pace_actions(screen),
        *DETAIL_ACTIONS,
        _key("end", "app.time('now')", "Back to now", f"{screen}.now", Hint("", "back to now, or to the end")),
        _help_action(screen),
    )


def _scroll_actions(screen: str, word: str, text: str, last: str = "app.last") -> tuple[Action, ...]:
    """The actions that move through a list or page. screen: the prefix of their names. word, text: the hint for up and
    down. last: the command of End.
    """
    return (
        _key("down", "move(1)", "Down", f"{screen}.down"),
        _key("up", "move(-1)", "Up", f"{screen}.up", Hint(word, text, pair=f"{screen}.down")),
        _key("pagedown", "page(1)", "Page down", f"{screen}.page_down"),
        _key("pageup", "page(-1)", "Page up", f"{screen}.page_up", Hint("", "by a page", pair=f"{screen}.page_down")),
        _key("home", "move(-1000000)", "First", f"{screen}.first", Hint("", "first, last", pair=f"{screen}.last")),
        _key("end", last, "Last", f"{screen}.last"),
    )


GPU_ACTIONS: tuple[Action, ...] = (
    _key("escape,g", "back", "Back", "gpu.back", Hint("back", "back, also g")),
    _key("n,right", "gpu(1)", "Next GPU", "gpu.next"),
    _key("b,left", "gpu(-1)", "Previous GPU", "gpu.previous", Hint("GPU", "previous, next GPU", pair="gpu.next")),
    *_time_actions("gpu"),
)

DEVICE_ACTIONS: tuple[Action, ...] = (
    _key("escape", "back", "Back", "disk.back", Hint("back", "back")),
    _key("n,right", "device(1)", "Next device", "disk.next"),
    _key(
        "b,left",
        "device(-1)",
        "Previous device",
        "disk.previous",
        Hint("disk", "previous, next device", pair="disk.next"),
    ),
    _key("tab", "tab(1)", "Next tab", "disk.tab", Hint("tab", "next, prior tab", pair="disk.previous_tab")),
    _key("shift+tab", "tab(-1)", "Previous tab", "disk.previous_tab"),
    _key("l", "log", "Logarithmic or linear scale of the chart", "disk.log", Hint("log", "scale of the chart")),
    _key("h", "health", "The disk's health", "disk.health", Hint("health", "disk's health")),
    _key("m", "check", "Check the disk: what it gives a job", "disk.check", Hint("check", "measure the disk")),
    *_time_actions("disk"),
)

HEALTH_ACTIONS: tuple[Action, ...] = (
    _key("escape", "back", "Back", "health.back", Hint("back", "back")),
    _key("h", "main", "To the main screen", "health.main", Hint("", "main screen")),
    _key("enter", "open", "Open the disk", "health.disk", Hint("open", "open the disk")),
    _key("n,right", "disk(1)", "Next disk", "health.next"),
    _key("b,left", "disk(-1)", "Previous disk", "health.previous", Hint("disk", "previous, next", pair="health.next")),
    *_scroll_actions("health", "disk", "disk; or scroll"),
    _key("T", "test", "Self-test", "health.test", Hint("self-test", "self-test")),
    _key("u", "ask", "Query the disks now", "health.ask", Hint("ask now", "query the disks now")),
    *DETAIL_ACTIONS,
    _help_action("health"),
)

REASON_ACTIONS: tuple[Action, ...] = (
    _key("escape,enter", "back", "Back", "reason.back", Hint("back", "back, also Enter")),
    *_scroll_actions("reason", "scroll", "scroll"),
    _key("c", "main('copy')", "Copy the verdict", "reason.copy", Hint("copy", "copy the verdict")),
    _key(
        "x",
        "main('acknowledge')",
        "Acknowledge a failing disk or GPU, or a job that died",
        "reason.acknowledge",
        Hint("acknowledge", "acknowledge"),
    ),
    _key("j", "main('job', 1)", "Next job", "reason.job", Hint("job", "next job")),
    _key("space", "main('pause')", "Pause, or play", "reason.pause", Hint("", "pause, or play")),
    *DETAIL_ACTIONS,
    _help_action("reason"),
)

JOBS_ACTIONS: tuple[Action, ...] = (
    _key("escape,J", "back", "Back", "jobs.back", Hint("back", "back, also J")),
    _key("enter", "choose", "Choose this job for the verdict", "jobs.choose", Hint("choose it", "choose for verdict")),
    _key("down", "move(1)", "Down", "jobs.down"),
    _key("up", "move(-1)", "Up", "jobs.up", Hint("job", "job", pair="jobs.down")),
    _key("home", "move(-1000000)", "First", "jobs.first", Hint("", "first, last", pair="jobs.last")),
    _key("end", "app.last", "Last", "jobs.last"),
    _key("j", "next", "Next job", "jobs.next", Hint("next", "next job")),
    *DETAIL_ACTIONS,
    _help_action("jobs"),
)

PROCESS_ACTIONS: tuple[Action, ...] = (
    _key("escape", "back", "Back", "process.back", Hint("back", "back")),
    _key("n,right", "process(1)", "Next process of the list", "process.next"),
    _key(
        "b,left",
        "process(-1)",
        "Previous process of the list",
        "process.previous",
        Hint("process", "previous, next process", pair="process.next"),
    ),
    *_scroll_actions("process", "scroll", "scroll"),
    _key(
        "p",
        "code",
        "The line of Python it runs, via py-spy",
        "process.code",
        Hint("code", "line of code, via py-spy"),
    ),
    _key(
        "k,f9",
        "act('')",
        "Signal the process: kill, stop, continue",
        "process.act_signal",
        Hint("act", "signal, I/O priority", pair="process.act_ionice"),
    ),
    _key("f7,f8", "act('nice ')", "Renice the process", "process.act_nice", Hint("", "renice")),
    _key("i", "act('io ')", "Change the process's I/O priority", "process.act_ionice"),
    *_pace_actions("process"),
    *DETAIL_ACTIONS,
    _help_action("process"),
)

FLEET_ACTIONS: tuple[Action, ...] = (
    _key("enter", "open", "Open the machine by ssh", "fleet.open", Hint("open by ssh", "open the machine by ssh")),
    _key("j", "jobs", "Jobs across machines, and their stragglers", "fleet.jobs", Hint("jobs", "jobs across machines")),
    _key(
        "slash,f3",
        "find",
        "Filter the machines by words",
        "fleet.find",
        Hint("find", "filter the machines by words"),
    ),
    _key("escape", "clear", "Clear the filter", "fleet.clear", Hint("", "clear the filter")),
    _key("greater_than_sign", "sort(1)", "Sort by the next column", "fleet.sort_next"),
    _key(
        "less_than_sign",
        "sort(-1)",
        "Sort by the previous column",
        "fleet.sort_previous",
        Hint("sort", "sort by another column", pair="fleet.sort_next"),
    ),
    _key("r", "reverse", "Reverse the order", "fleet.reverse", Hint("reverse", "reverse the order")),
    *_scroll_actions("fleet", "machine", "machine", "move(1000000)"),
    _key("space", "pause", "Stop refreshing, or resume", "fleet.pause", Hint("pause", "pause, or resume")),
    _key(
        "plus",
        "interval(1)",
        "Longer interval",
        "fleet.longer",
        Hint("interval", "seconds between refreshes", pair="fleet.shorter"),
    ),
    _key("minus", "interval(-1)", "Shorter interval", "fleet.shorter"),
    _key("R,f5", "refresh", "Refresh now", "fleet.refresh", Hint("", "refresh now")),
    _key("L", "theme", "Next theme: dark, light, colours", "fleet.theme", Hint("", "next theme")),
    _help_action("fleet"),
)

FLEET_JOBS_ACTIONS: tuple[Action, ...] = (
    _key("escape,j", "back", "Back", "fleet_jobs.back", Hint("back", "back, also j")),
    *_scroll_actions("fleet_jobs", "job", "job", "move(1000000)"),
    _key("space", "pause", "Stop refreshing, or resume", "fleet_jobs.pause", Hint("pause", "pause, or resume")),
    _help_action("fleet_jobs"),
)

SCREENS: dict[str, tuple[Action, ...]] = {
    "main": (*APP_ACTIONS, *MAIN_ACTIONS),
    "gpu": (*APP_ACTIONS, *GPU_ACTIONS),
    "device": (*APP_ACTIONS, *DEVICE_ACTIONS),
    "health": (*APP_ACTIONS, *HEALTH_ACTIONS),
    "reasoning": (*APP_ACTIONS, *REASON_ACTIONS),
    "jobs": (*APP_ACTIONS, *JOBS_ACTIONS),
    "process": (*APP_ACTIONS, *PROCESS_ACTIONS),
    "fleet": (*APP_ACTIONS, *FLEET_ACTIONS),
    "fleet_jobs": (*APP_ACTIONS, *FLEET_JOBS_ACTIONS),
}
"""The actions of each screen. A key has at most one action on a screen."""


def all_actions() -> dict[str, Action]:
    """All actions by name, in the order of the screens."""
    return {action.name: action for actions in SCREENS.values() for action in actions}
