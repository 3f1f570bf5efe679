"""Rows and dialogs about the host."""
