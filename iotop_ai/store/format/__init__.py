"""The format of a recording's lines."""
