"""The panels of the main screen, one a file."""
