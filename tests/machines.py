"""Machine trees: the /proc and /sys files of one machine as a single text file, from which a test builds a folder.

A tree (tests/data/machines/NAME.tree) consists of entries. An entry is ``# comment``, ``path = one line``, ``path ->
target of a link``, ``path =x binary content in hexadecimal``, or ``path <<`` with lines up to a line ``>>``. The trees
``made-*`` are written from the kernel's documentation; tests/capture.py captures the others.
"""

from __future__ import annotations

import os
from pathlib import Path

from iotop_ai.collectors.io.root import Root

FOLDER = Path(__file__).parent / "data" / "machines"

Entries = dict[str, bytes | str]
"""The content of each path: the bytes of a file, or a string with the target of a link."""


def names() -> list[str]:
    """The names of all machine trees."""
    return sorted(path.stem for path in FOLDER.glob("*.tree"))


def pack(entries: Entries, comment: str = "") -> str:
    """The text of a tree, sorted by path."""
    lines = [f"# {line}" for line in comment.splitlines()]
    for path, content in sorted(entries.items()):
        if isinstance(content, str):
            lines.append(f"{path} -> {content}")
            continue
        text = content.decode("utf-8", "replace")
        if text.encode() != content or not text.replace("\n", "").replace("\t", "").isprintable():
            lines.append(f"{path} =x {content.hex()}")
        elif text.count("\n") == 1 and text.endswith("\n") and text == text.lstrip():
            lines.append(f"{path} = {text[:-1]}")
        elif text.endswith("\n") and "\n>>\n" not in f"\n{text}":
            lines += [f"{path} <<", text[:-1], ">>"]
        else:
            lines.append(f"{path} =x {content.hex()}")
    return "\n".join(lines) + "\n"


def parse(text: str) -> Entries:
    """The entries in the text of a tree."""
    entries: Entries = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if not line or line.startswith("#"):
            continue
        path, _, rest = line.partition(" ")
        kind, _, value = rest.partition(" ")
        if kind == "=":
            entries[path] = f"{value}\n".encode()
        elif kind == "->":
            entries[path] = value
        elif kind == "=x":
            entries[path] = bytes.fromhex(value)
        elif kind == "<<":
            inside = []
            for inner in lines:
                if inner == ">>":
                    break
                inside.append(inner + "\n")
            entries[path] = "".join(inside).encode()
        else:
            raise ValueError(f"not an entry: {line!r}")
    return entries


def build(entries: Entries, folder: Path) -> Root:
    """Write the entries to a folder, and return its Root."""
    for path, content in entries.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            os.symlink(content, place)
        else:
            place.write_bytes(content)
    return Root(str(folder))


def machine(name: str, folder: Path) -> Root:
    """Build the machine tree of this name in a folder, and return its Root."""
    return build(parse((FOLDER / f"{name}.tree").read_text()), folder)
