"""Writes docs/configuration.md from the tables of settings and keys: ``python -m tests.config_doc [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

from iotop_ai.cli.config.table import BY_NAME, SETTINGS, value_of
from iotop_ai.model.settings import Settings
from iotop_ai.present.screen.actions import SCREENS
from iotop_ai.present.screen.key_names import key_label
from tests.pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
HEAD = """\
# Settings

Written by `python -m tests.config_doc` from `iotop_ai/cli/config/table.py` and `iotop_ai/present/screen/actions.py`;
change the tables, not the page.

`iotop-ai config init` writes a file with every setting as a comment, `config path` prints its path
(`$XDG_CONFIG_HOME/iotop-ai/config.toml`, by default `~/.config/iotop-ai/config.toml`; or `--config FILE`,
`IOTOP_AI_CONFIG`), `config print` shows the effective values with their origin, and `config validate` lists every
mistake with its line and exits 1 when there is one.

A flag overrides an environment variable, which overrides the file. A setting's variable is IOTOP_AI_ with its name in
capitals (`IOTOP_AI_MARKS_IO_WAIT`); `smart_types` and `keys` have none. What `remember` restores overrides only
defaults. A file with a mistake, of a user other than you and root, or writable by all users is refused.

The file can name a program to run, so root trusts it only where root alone owns and can write to it and its folders.
Under `sudo`, variables that name a program or a file (`IOTOP_AI_SMARTCTL`, `IOTOP_AI_CONFIG`, `IOTOP_AI_LOG`,
`XDG_CONFIG_HOME`, ...) are ignored with a warning, which names the flag to use instead where there is one.

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

| key | meaning | values | default |
|---|---|---|---|
"""
KEYS = """
## Keys

Below `[keys]`, an action and its keys: `"sort.next" = [">", "F11"]`. Write keys as on the keyboard: `F11`, `Ctrl+T`,
`Space`, `PgUp`, `R`, `>`. An empty list removes every key. A key that another action has by default moves to yours, and
`config validate` mentions it; one key for two of your actions on the same screen is a mistake. Most terminals send
`Ctrl+H`, `Ctrl+I`, `Ctrl+M` and `Ctrl+[` as Backspace, Tab, Enter and Esc; `config validate` mentions that too.
"""


HOST = """
## From a container: the host's trees

`--procfs DIR` and `--sysfs DIR` read a /proc and a /sys mounted elsewhere:

```sh
docker run --rm -it --pid=host --uts=host --cgroupns=host --cap-add SYS_PTRACE --cap-add DAC_READ_SEARCH \\
  --security-opt apparmor=unconfined -v /proc:/host/proc:ro -v /sys:/host/sys:ro IMAGE \\
  iotop-ai --procfs /host/proc --sysfs /host/sys
```

- Processes, cgroups and mounts (those of pid 1) are the host's. Users are shown by number.
- Without the two capabilities the I/O of other users' processes and the fullness of the host's mounts are unknown. For
  SMART add `--privileged -v /dev:/dev`, for NVIDIA GPUs `--gpus all`. The kernel's log needs /dev/kmsg.
- Every action is refused, and so is `--path`, which would be a folder of the container; use `--device`.
- Trees of another machine or another boot are read without SMART, NVML and /dev of this machine.
"""


def default_of(name: str) -> str:
    """The default of a setting, as it would be written in TOML."""
    value = value_of(Settings(), BY_NAME[name])
    if name == "theme":
        return "`'auto'`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`'{value}'`" if isinstance(value, str) else "none"


def key_rows() -> dict[str, list[str]]:
    """The rows of keys by heading. A row has an effect, its keys, and the actions of every screen that has them."""
    places: dict[tuple[str, str], dict[str, str]] = {}
    for screen, actions in SCREENS.items():
        for action in actions:
            keys = " ".join(f"`{key_label(key)}`" for key in action.keys)
            places.setdefault((action.text, keys), {}).setdefault(action.name, screen)
    out: dict[str, list[str]] = {"The main screen": [], "Several screens": []}
    for (text, keys), names in places.items():
        screens = dict.fromkeys(names.values())
        heading = f"The {next(iter(screens))} screen" if len(screens) == 1 else "Several screens"
        listed = " ".join(f"`{name}`" for name in names)
        out.setdefault(heading, []).append(f"| {listed} | {text} | {keys} |\n")
    return out


def page() -> str:
    """The whole page as Markdown."""
    out = [HEAD]
    out += [f"| `{one.name}` | {one.text} | {one.allowed} | {default_of(one.name)} |\n" for one in SETTINGS]
    out += [HOST, KEYS]
    for heading, rows in key_rows().items():
        out += [f"\n### {heading}\n\n| action | effect | keys |\n|---|---|---|\n", *rows]
    return "".join(out)


if __name__ == "__main__":
    sys.exit(write_or_check("tests.config_doc", PAGE, page()))
