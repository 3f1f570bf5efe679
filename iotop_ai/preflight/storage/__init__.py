"""Measures storage in a child process, so that storage that hangs stops only the child. ``check`` starts the child."""
