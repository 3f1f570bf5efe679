"""Rows, screens and dialogs about processes."""
