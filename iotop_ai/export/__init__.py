"""Frames as text, JSON, tables and logs."""
