"""Rows and screens about many machines."""
