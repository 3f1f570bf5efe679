"""Empty the page cache, all of it or of some files."""
