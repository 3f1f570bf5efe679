"""What the fold remembers from one Sample to the next."""
