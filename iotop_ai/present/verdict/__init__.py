"""The verdict as sentences, on the screen and in plain text."""
