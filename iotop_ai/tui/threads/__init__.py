"""Threads that feed the screen."""
