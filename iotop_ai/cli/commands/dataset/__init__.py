"""The commands about a dataset: its pages in the page cache, and its copy on faster storage."""
