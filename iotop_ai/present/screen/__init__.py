"""Layout, keys and help of the whole screen."""
