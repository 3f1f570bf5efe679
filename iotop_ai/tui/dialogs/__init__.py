"""Questions before an action."""
