"""The actions that empty the page cache, either all of it or the part of some files."""
