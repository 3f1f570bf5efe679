"""Empty the page cache: the host's, or that of files."""
