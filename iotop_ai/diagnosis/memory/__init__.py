"""What the fold remembers from Sample to Sample."""
