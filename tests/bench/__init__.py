"""Measurements against other programs; each module runs by ``python -m``."""
