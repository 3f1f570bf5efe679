"""Frames as text and JSON for other programs."""
