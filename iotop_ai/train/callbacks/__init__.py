"""Callbacks of training frameworks; each module needs its own framework, and is imported with it."""
