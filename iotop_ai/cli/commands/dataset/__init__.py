"""A dataset's page cache and its copy to faster storage."""
