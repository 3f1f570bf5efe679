"""Actions that empty the whole page cache, or evict the pages of some files."""
