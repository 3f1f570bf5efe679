"""Logs in the format of other tools."""
