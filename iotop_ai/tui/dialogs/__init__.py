"""The dialogs that ask before an action."""
