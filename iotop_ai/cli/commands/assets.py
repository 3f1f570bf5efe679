"""``iotop-ai assets``: the files that this package ships for other programs."""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from iotop_ai.cli.commands.service import program, quoted
from iotop_ai.export.assets import ASSETS, Asset, content
from iotop_ai.export.atomic_file import OutFile
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError

_MODE, _SCRIPT_MODE = 0o644, 0o755


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``assets``."""
    actions = parser.add_subparsers(dest="action", metavar="list | show | install", required=True)
    actions.add_parser("list", help="list the files", allow_abbrev=False)
    show = actions.add_parser("show", help="print one file", allow_abbrev=False)
    install = actions.add_parser("install", help="write one file, or all files, into a folder", allow_abbrev=False)
    for action_parser in (show, install):
        names = [asset.name for asset in ASSETS] + (["all"] if action_parser is install else [])
        action_parser.add_argument("name", choices=names, metavar="NAME", help=", ".join(names))
    install.add_argument("folder", metavar="DIR", help="an existing folder")
    install.add_argument("--force", action="store_true", help="replace existing files")


def run(args: argparse.Namespace) -> int:
    """List, print or write the assets; return 0."""
    if args.action == "list":
        for asset in ASSETS:
            print(f"{asset.name:24} {asset.text}; {asset.place}")
        return 0
    if args.action == "show":
        print(next(_text(asset) for asset in ASSETS if asset.name == args.name), end="")
        return 0
    if not os.path.isdir(args.folder):
        raise UsageError(f"{clean(args.folder)} is not a folder")
    for asset in ASSETS:
        if args.name in (asset.name, "all"):
            path = os.path.join(args.folder, asset.name)
            with OutFile(path, force=args.force) as out:
                with out.stream() as stream:
                    stream.write(_text(asset).encode())
                    os.fchmod(stream.fileno(), _SCRIPT_MODE if asset.is_script else _MODE)
                out.commit()
            print(clean(path, 300))
    return 0


def _text(asset: Asset) -> str:
    """Return the text of the asset, adapted to this installation."""
    command = program()
    if asset.is_script:
        return content(asset.name, shlex.join(command), shlex.quote(sys.executable))
    return content(asset.name, " ".join(map(quoted, command)))
