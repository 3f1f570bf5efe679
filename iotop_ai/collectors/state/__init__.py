"""Reads and writes the files of the state folder."""
