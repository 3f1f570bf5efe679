"""The verdict in words."""
