"""The screen in a browser."""
