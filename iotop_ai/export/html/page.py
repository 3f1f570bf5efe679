"""A whole page as one file. It loads nothing, and its security policy allows only its own style and script."""

from __future__ import annotations

import base64
import hashlib

from iotop_ai.export.html.markup import Markup, joined, tag, text
from iotop_ai.export.html.script import SCRIPT
from iotop_ai.export.html.style import style


def _hash(source: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() + "'"


def policy() -> str:
    """The Content-Security-Policy: no requests, frames or forms; the style and script are allowed by their hashes."""
    return (
        f"default-src 'none'; style-src {_hash(style())}; script-src {_hash(SCRIPT)}; "
        "base-uri 'none'; form-action 'none'"
    )


def page(title: str, *body: Markup) -> str:
    """The text of the HTML file, without a final newline."""
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(policy())}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
    )
    main = tag("main", joined(list(body)))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}{tag("title", title)}<style>{style()}</style></head>\n'
        f'<body>{main}<div id="tip" hidden></div><script>{SCRIPT}</script></body></html>'
    )
