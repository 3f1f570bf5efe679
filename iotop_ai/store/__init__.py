"""Where Snapshots are kept."""
