"""Writes Frames and recordings as text, JSON, tables, logs, HTML and metrics."""
