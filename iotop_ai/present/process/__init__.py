"""Rows and dialogs about processes."""
