"""The layout, the keys and the help of the whole screen."""
