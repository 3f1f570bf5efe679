"""Frees the memory of apps that have ended, in a process that runs several one after the other."""

from __future__ import annotations

import gc

from textual._xterm_parser import XTermParser


def free_ended_apps() -> None:
    """Let the collector free every app that has ended and is not used any more.

    Textual caches parsed keys by parser, and a parser refers to its last key, which refers to the app. An app of ours
    freezes the objects of its start, which then stay out of reach of the collector.
    """
    clear_cache = getattr(getattr(XTermParser, "_parse_extended_key", None), "cache_clear", None)
    if clear_cache is not None:  # a later release of Textual may have no cache
        clear_cache()
    gc.unfreeze()
    gc.collect()
