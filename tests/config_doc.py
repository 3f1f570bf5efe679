"""Writes docs/configuration.md from the settings' and keys' tables: ``python -m tests.config_doc [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

from iotop_ai.cli.settings_table import BY_NAME, SETTINGS, value_of
from iotop_ai.model.settings import Settings
from iotop_ai.present.keymap import SCREENS, key_shown
from tests.pages import written

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
HEAD = """\
# Settings

This page is written by `python -m tests.config_doc` from `iotop_ai/cli/settings_table.py` and
`iotop_ai/present/keymap.py`; change the tables, not the page.

`iotop-ai config init` writes a file in which every setting stands as a comment, `iotop-ai config path` says where it
is (`$XDG_CONFIG_HOME/iotop-ai/config.toml`, by default `~/.config/iotop-ai/config.toml`; `--config FILE` or
`IOTOP_AI_CONFIG` names another), `iotop-ai config print` shows what holds now and where each value comes from, and
`iotop-ai config validate` names every mistake with its line and exits 1 when there is one.

A flag goes before a variable of the environment, that before the file, that before the default. What the screen
remembers of the last time (sort order, chosen device, theme, hidden panels) stands in the state folder and goes before
the default only. A file that belongs to somebody else, or that everybody may write, is refused; so is a file with a
mistake in it, in one line that says where.

```toml
interval = "500ms"
theme = "cvd"
devices = ["nvme0n1", "md0"]

[marks]
await = 20                        # ms

[smart_types]
sda = "megaraid,3"

[keys]
"sort.next" = [">", "F11"]
"time.mark" = ["Ctrl+X"]
```

| key | what it does | it may be | default | variable |
|---|---|---|---|---|
"""
KEYS = """
## Keys

Below `[keys]`, an action and its keys: `"sort.next" = [">", "F11"]`. Keys are written as on the keyboard: `F11`,
`Ctrl+T`, `Space`, `PgUp`, `R`, `>`. An empty list takes every key from an action. A key that another action has by
default moves to yours, and `config validate` says so; one key for two of your actions on the same screen is a mistake.
The help (`?`), the row of keys and the list of all actions (`Ctrl-P`) show the keys as you set them.
"""


def default_of(name: str) -> str:
    """A setting's default as TOML."""
    value = value_of(Settings(), BY_NAME[name])
    if name == "theme":
        return "`'auto'`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`'{value}'`" if isinstance(value, str) else "none"


def page() -> str:
    """The whole page."""
    out = [HEAD]
    for one in SETTINGS:
        variable = f"`{one.variable}`" if one.variable else ""
        out.append(f"| `{one.name}` | {one.text} | {one.may} | {default_of(one.name)} | {variable} |\n")
    out.append(KEYS)
    seen: set[str] = set()
    for screen, acts in SCREENS.items():
        out.append(f"\n### The {screen} screen\n\n| action | what it does | keys |\n|---|---|---|\n")
        for act in acts:
            if act.name not in seen:
                keys = " ".join(f"`{key_shown(key)}`" for key in act.keys)
                out.append(f"| `{act.name}` | {act.text} | {keys} |\n")
            seen.add(act.name)
    return "".join(out)


if __name__ == "__main__":
    sys.exit(written("tests.config_doc", PAGE, page()))
