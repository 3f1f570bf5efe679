"""Writes recordings."""
