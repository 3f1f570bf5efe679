"""Rows and dialogs about the machine."""
