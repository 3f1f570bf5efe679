"""Rows of text, tables, graphs, units and themes."""
