"""The app on the terminal, built with Textual."""
