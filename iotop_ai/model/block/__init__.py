"""Block devices."""
