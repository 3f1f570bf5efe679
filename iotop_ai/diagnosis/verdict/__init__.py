"""From findings to the verdict."""
