"""Reads recordings."""
