"""Machine trees: the /proc and /sys files of one machine as one text file, built into a folder for a test.

A tree (tests/data/machines/NAME.tree) has one entry after another:
``# comment``, ``path = one line``, ``path -> target of a link``, ``path =x hex of binary content``, and
``path <<`` with lines up to a line ``>>``. ``made-*`` are written from kernel documentation, the others captured by
tests/capture.py.
"""

from __future__ import annotations

import os
from pathlib import Path

from iotop_ai.collectors.io.root import Root

FOLDER = Path(__file__).parent / "data" / "machines"

Entries = dict[str, bytes | str]
"""Path to the file's bytes, or (str) to the target of a link."""


def names() -> list[str]:
    """All machine trees."""
    return sorted(path.stem for path in FOLDER.glob("*.tree"))


def pack(entries: Entries, comment: str = "") -> str:
    """The text of a tree, in order of the paths."""
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
    """The entries of a tree's text."""
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
    """Write the entries below a folder."""
    for path, content in entries.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            os.symlink(content, place)
        else:
            place.write_bytes(content)
    return Root(str(folder))


def machine(name: str, folder: Path) -> Root:
    """The machine tree of that name, built below a folder."""
    return build(parse((FOLDER / f"{name}.tree").read_text()), folder)
