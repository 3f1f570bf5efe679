"""The command that shows the live screen in a browser."""
