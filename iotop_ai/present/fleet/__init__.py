"""Many machines in rows of text."""
