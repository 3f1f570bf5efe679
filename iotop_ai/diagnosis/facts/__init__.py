"""Facts about a window of Samples, computed for the rules."""
