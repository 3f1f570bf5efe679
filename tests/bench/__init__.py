"""Measurements of this program beside other programs. Each module runs by ``python -m``."""
