"""Frames as tables with one row per interval and object."""
