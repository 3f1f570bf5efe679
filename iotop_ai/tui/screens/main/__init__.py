"""The main screen and the controllers of its keys."""
