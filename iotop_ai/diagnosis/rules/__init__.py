"""One file a family of rules."""
