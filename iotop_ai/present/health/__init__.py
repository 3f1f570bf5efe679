"""Rows and screens about disk health."""
