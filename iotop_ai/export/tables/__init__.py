"""Frames as tables: one row per interval and object."""
