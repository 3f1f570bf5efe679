"""Measures storage in a child process, so that one that hangs stops nothing else. check: the caller's end."""
