"""The live screen in a browser."""
