"""The threads that feed the screens."""
