"""Logs in the formats of other tools."""
